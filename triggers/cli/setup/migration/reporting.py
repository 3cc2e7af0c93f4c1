"""The parts of reports and modules that several migrations have."""

from collections.abc import Iterable, Iterator

from triggers.cli.setup.migration.mapping import Fit, Note


def notes_table(notes: Iterable[Note]) -> Iterator[str]:
    """Yield the lines of a table of properties, what is missing first."""
    yield "| | there | here |"
    yield "|---|---|---|"
    order = list(Fit)
    for note in sorted(notes, key=lambda note: -order.index(note.kind)):
        yield f"| {note.kind} | {_cell(note.there)} | {_cell(note.here)} |"
    yield ""


def left_out_table(of: str, left_out: Iterable[tuple[object, str]]) -> Iterator[str]:
    """Yield the section about what was left out; nothing if nothing was. ``of`` heads the first column."""
    lines = [f"| `{_cell(str(what))}` | {_cell(why)} |" for what, why in left_out]
    if lines:
        yield from ("## Left out", "", f"| {of} | why |", "|---|---|", *lines, "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def plain(text: str) -> str:
    """Return text for a docstring: it comes from a file of somebody else, and must not end it."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())
