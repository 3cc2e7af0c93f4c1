"""Write the manual page, deploy/doubtless.1, from the commands themselves; ``--check`` only compares."""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from triggers.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "deploy" / "doubtless.1"

EXIT_CODES = (
    ("0", "done"),
    ("1", "done, but not as hoped: nothing found, a check failed"),
    ("2", "wrong usage or configuration"),
    ("3", "a server is unavailable"),
    ("128 and more", "ended by a signal"),
)

#: Options that every command has: the page lists them once.
GENERAL = {"--json", "--verbose", "--config"}

FILES = (
    ("doubtless.toml", "what is configured, in the current folder; see doubtless config show"),
    ("doubtless.sqlite3", "messages and history when no server is named, in the current folder"),
)


def manual() -> str:
    """Return the page, in the macros of man(7)."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    group: Any = typer.main.get_command(app)
    parts = [
        f'.TH DOUBTLESS 1 "" "doubtless {version}" "User Commands"',
        ".ad l",
        ".SH NAME",
        r"doubtless \- run a function once for each message, and decide about those in doubt",
        ".SH SYNOPSIS",
        r"\fBdoubtless\fP \fICOMMAND\fP [\fIarguments\fP] [\fIoptions\fP]",
        ".SH DESCRIPTION",
        text(group.help.partition("\n\n")[0]),
        ".SH OPTIONS",
        *options(group),
        ".SH COMMANDS",
        *(line for name, command in group.commands.items() for line in section(command, name)),
        ".SH EXIT STATUS",
        *listed(EXIT_CODES),
        ".SH FILES",
        *listed(FILES),
    ]
    return "\n".join(parts) + "\n"


def section(command: Any, name: str) -> Iterator[str]:
    """Yield the part of one command; of a group, the parts of what is in it."""
    inner: dict[str, Any] = getattr(command, "commands", {})
    if inner:
        for word, one in inner.items():
            yield from section(one, f"{name} {word}")
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    words = " ".join(map(placeholder, arguments))
    yield f".SS {text(f'doubtless {name} {words}'.strip())}"
    for paragraph in (command.help or "").split("\n\n"):
        yield from (text(" ".join(paragraph.split())), ".PP")
    for one in arguments:
        if one.help:
            yield from term(placeholder(one).strip("[]."), one.help)
    yield from options(command)


def placeholder(argument: Any) -> str:
    """Return what stands for an argument; typer's own way of it differs from version to version."""
    if argument.metavar:
        return str(argument.metavar)
    more = "..." if argument.nargs == -1 else ""
    name = argument.name.upper()
    return f"{name}{more}" if argument.required else f"[{name}]{more}"


def options(command: Any) -> Iterator[str]:
    """Yield each option of a command with its help."""
    for one in command.params:
        said = command.name != "doubtless" and GENERAL.intersection(one.opts)
        if one.param_type_name == "option" and not one.hidden and not said:
            names = ", ".join([*one.opts, *one.secondary_opts])
            value = "" if one.is_flag else f" {one.metavar or one.name.upper()}"
            yield from term(f"{names}{value}", one.help or "")


def listed(rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Yield a list of terms."""
    for name, meaning in rows:
        yield from term(name, meaning)


def term(name: str, meaning: str) -> Iterator[str]:
    """Yield a term and what it means."""
    yield from (".TP", rf"\fB{text(name)}\fP", text(" ".join(meaning.split())))


def text(words: str) -> str:
    """Return words as roff reads them: nothing of them is taken for a request."""
    escaped = words.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main() -> None:
    """Write the page, or say that it is old."""
    made = manual()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(made, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != made:
        sys.exit(f"{PAGE.relative_to(ROOT)} is old: run python .ci/manual.py")


if __name__ == "__main__":
    main()
