"""The tree of commands, with the words to call each command."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import typer

from triggers.cli import app

#: A valid value for each argument, and for each required option.
USUAL: Mapping[str, Sequence[str]] = {
    "client": ["client"],
    "destination": ["orders"],
    "file": ["lines.jsonl"],
    "files": ["bay.toml"],
    "folder": ["packages"],
    "link": ["orders"],
    "module": ["shop"],
    "number": ["1"],
    "numbers": ["1"],
    "parked_id": ["u1u1"],
    "place": ["orders"],
    "rate": ["--rate", "5/s"],
    "settings": ["links.toml"],
    "subscription": ["book"],
    "target": ["others"],
    "to": ["--to", "extract.db"],
    "topic": ["topic://orders"],
    "trigger": ["--trigger", "book"],
    "triggers": ["book"],
    "uuid": ["u1"],
}

#: With these options a command ends soon and asks no questions.
QUICK: Mapping[str, Sequence[str]] = {
    "dry_run": ["--dry-run"],
    "every": ["--all"],
    "until_idle": ["--until-idle", "0.01"],
    "wait": ["--wait", "0"],
    "yes": ["--yes"],
}

#: Commands that read XML files.
READ_XML = {("patchbay", "convert"), ("migrate", "atg")}

#: Options of every command.
GENERAL = {"json", "verbose", "config"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or an argument of a command."""

    path: tuple[str, ...]
    command: Any
    option: Any

    @property
    def type(self) -> Any:
        """The type of its value, or of each value if it takes several."""
        known = self.option.type_descriptor.annotation
        return (get_args(known) or (known,))[0]

    @property
    def shown(self) -> str:
        """Its name in errors, in small letters."""
        is_option = self.option.param_type_name == "option"
        long: list[str] = [one for one in self.option.opts if one.startswith("--")]
        return long[0] if is_option else str(self.option.metavar or self.option.name).strip("[].").lower()

    def words(self, value: str) -> list[str]:
        """Return a call of the command with this value, and usual values for all other parameters."""
        options, arguments = list[str](), list[str]()
        for other in self.command.params:
            if other is self.option:
                is_option = other.param_type_name == "option"
                (options if is_option else arguments).extend(
                    [f"{self.shown}={value}"] if is_option else [value]
                )
            elif other.param_type_name == "argument" and other.required:
                arguments += ["bay.xml"] if self.path in READ_XML else USUAL[other.name]
            elif other.required:
                options += USUAL[other.name]
            elif other.name != "every" or self.option.name != "numbers":
                options += QUICK.get(other.name, [])
        return [*self.path, *options, "--", *arguments]

    def __str__(self) -> str:
        return f"{' '.join(self.path)} {self.shown}"


def parameters(*types: type) -> list[Parameter]:
    """Return the options and arguments of all commands that take values of one of these types."""
    return [one for one in _all() if isinstance(one.type, type) and issubclass(one.type, types)]


@cache
def _all() -> list[Parameter]:
    return [
        Parameter(path, command, option)
        for path, command in _commands(typer.main.get_command(app))
        for option in command.params
        if option.name not in GENERAL and not getattr(option, "is_flag", False)
    ]


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below: Mapping[str, Any] = getattr(command, "commands", None) or {}
    if not below:
        yield path, command
    for name in below:
        yield from _commands(below[name], (*path, name))


def lay_out(folder: Path) -> None:
    """Write the files that the usual words name, and files that no command can read."""
    (folder / "lines.jsonl").write_text('{"headers": {"uuid": "u1"}, "body": {"id": "u1"}}\n')
    carrier = f'carrier = "file://{folder}/exchange"\ninbox = "x"\noutbox = "y"\n'
    (folder / "links.toml").write_text(f'database = "sqlite:///x.db"\n[links.orders]\n{carrier}')
    (folder / "bay.xml").write_text("<dynamo-message-system><patchbay></patchbay></dynamo-message-system>")
    (folder / "bay.toml").write_text('[providers.sql]\nurl = "sqlite:///bay.db"\n')
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "deep").write_text(f"a = {'[' * 10_000}{']' * 10_000}")
