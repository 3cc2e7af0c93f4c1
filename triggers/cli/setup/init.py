"""``doubtless init``: a small service, its test and its configuration, which run as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from history.support.private_files import make_private
from triggers.cli.setup.new_files import write_new
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.output import State

#: The files to write, from files of the same names here; they are not our Python, so they do not end with
#: .py.
_TEMPLATES = Path(__file__).parent / "service"
_SUFFIX = ".txt"

#: The service's database, empty, only for its owner: messages are in it.
_DATABASE = "orders.sqlite3"

#: The commands to type next, and why.
_NEXT = (
    ("doubtless send orders orders.jsonl", "two orders, a copy, and a line that is not an order"),
    ("doubtless run orders --until-idle 1", "books the two"),
    ("doubtless why order-1", "what is known of a message"),
    ("doubtless parked list", "the line that is not an order"),
    ("doubtless guarantees orders", "what is promised"),
    ("doubtless config show orders", "what is configured, and where"),
    ("python -m pytest", "the tests; pip install pytest"),
)


@with_general_options
def init(
    context: typer.Context,
    folder: Path = typer.Argument(
        Path(), help="The folder to write to. By default: this folder.", show_default=False
    ),
) -> None:
    """Write a small service with its test and its configuration. They run without changes.

    The service needs no server: messages, history and bookings are in one SQLite file. The command never
    overwrites a file: if one of its files already exists, it writes nothing.
    """
    state = State.of(context)
    files = write_new(folder, dict(_files()), others=[folder / _DATABASE], argument="FOLDER")
    make_private(folder / _DATABASE)
    _say(state, folder, [*files, folder / _DATABASE])


def _files() -> Iterator[tuple[str, str]]:
    for template in sorted(_TEMPLATES.glob(f"*{_SUFFIX}")):
        yield template.name.removesuffix(_SUFFIX), template.read_text(encoding="utf-8")


def _say(state: State, folder: Path, written: list[Path]) -> None:
    names = [str(file) for file in written]
    if state.as_json:
        document: dict[str, Any] = {"written": names, "next": [command for command, _ in _NEXT]}
        state.document(document)
        return
    state.say(f"written: {', '.join(names)}")
    state.say("next:" if folder == Path() else f"next, in {folder}:")
    width = max(len(command) for command, _ in _NEXT)
    for command, why in _NEXT:
        state.say(f"  {command:<{width}}  # {why}")
