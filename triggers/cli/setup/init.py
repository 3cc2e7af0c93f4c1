"""``doubtless init``: a small service, its test and its configuration, which run as they are."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import typer

from history.errors import ConfigurationError
from history.support.private_files import create_private, make_private
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.output import CliState

#: The files to write, from files of the same names here; they are not our Python, so they do not end with
#: .py.
_TEMPLATES = Path(__file__).parent / "service"
_SUFFIX = ".txt"

#: The service's database, empty, only for its owner: messages are in it.
_DATABASE = "orders.sqlite3"

#: The commands to type next, and why.
_NEXT = (
    ("doubtless send orders orders.jsonl", "sends two orders, a copy, and a line that is not an order"),
    ("doubtless run orders --until-idle 1", "books the two orders once, and parks the line"),
    ("doubtless why order-1", "explains what happened to a message"),
    ("doubtless parked list", "shows the parked line"),
    ("doubtless guarantees orders", "shows what doubtless promises"),
    ("doubtless config show orders", "shows the settings, and where each was set"),
    ("python -m pytest", "runs the tests; first: pip install pytest"),
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
    state = CliState.of(context)
    files = write_new(folder, dict(_files()), others=[folder / _DATABASE], argument="FOLDER")
    make_private(folder / _DATABASE)
    _say(state, folder, [*files, folder / _DATABASE])


def _files() -> Iterator[tuple[str, str]]:
    for template in sorted(_TEMPLATES.glob(f"*{_SUFFIX}")):
        yield template.name.removesuffix(_SUFFIX), template.read_text(encoding="utf-8")


def _say(state: CliState, folder: Path, written: list[Path]) -> None:
    names = [str(file) for file in written]
    width = max(len(command) for command, _ in _NEXT)
    state.report(
        {"written": names, "next": [command for command, _ in _NEXT]},
        f"written: {', '.join(names)}",
        "next:" if folder == Path() else f"next, in {folder}:",
        *(f"  {command:<{width}}  # {why}" for command, why in _NEXT),
    )


def write_new(
    folder: Path,
    texts: Mapping[str, str],
    *,
    others: Collection[Path] = (),
    private: Collection[str] = (),
    argument: str = "--to",
) -> Sequence[Path]:
    """Write files into a folder, which is made; ``others`` may not be there either. Return their paths.

    Only this user may read files with a name in ``private``.

    Raises:
        ConfigurationError: one is there already, or the folder cannot be written to; naming ``argument``.
    """
    files = {folder / name: text for name, text in texts.items()}
    try:
        there = sorted(str(file) for file in (*files, *others) if file.exists())
        if there:
            problem = f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already"
            raise ConfigurationError(argument, problem, "name an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            if is_private := file.name in private:
                create_private(file)
            with file.open("w" if is_private else "x", encoding="utf-8") as new:
                new.write(text)
    except OSError as error:
        problem = f"{error.filename or folder}: {error.strerror}"
        raise ConfigurationError(argument, problem, "name one that can be written") from error
    return list(files)
