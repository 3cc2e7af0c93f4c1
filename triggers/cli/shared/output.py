"""What the commands print: tables for people, JSON for programs, complaints on standard error.

Uuids, names and error texts come from strangers: nothing in them is taken for markup, and what a terminal
would act on is shown as an escape. Standard output that is no terminal gets one line a row, however long.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from history.rendering import name_of, text_of


@dataclass(slots=True)
class State:
    """The options that every command shares, and what they print on."""

    as_json: bool = False
    verbose: bool = False
    console: Console = field(default_factory=lambda: _console(sys.stdout))
    errors: Console = field(default_factory=lambda: _console(sys.stderr))

    @staticmethod
    def of(context: typer.Context) -> "State":
        """Return the state of a running command."""
        state: State = context.obj
        return state

    def show(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Mapping[str, Any]],
        *,
        total: int | None = None,
        none: str = "there is none",
    ) -> None:
        """Print rows as a table, or as a JSON array of objects with all their fields."""
        rows = list(rows)
        if self.as_json:
            self.document(rows)
            return
        cells = [[_cell(row.get(column)) for column in columns] for row in rows]
        if not cells:
            self.note(none)
        elif self.console.is_terminal:
            self.console.print(_table(title, columns, cells))
        else:
            for line in _plain_table([list(columns), *cells]):
                self.console.print(line, soft_wrap=True)
        if total is not None and total > len(rows):
            self.note(f"{len(rows)} of {total}; --limit shows more")

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        text = json.dumps(value, default=_plain, indent=2, ensure_ascii=False)
        if not _fits(text, sys.stdout.encoding):
            text = json.dumps(value, default=_plain, indent=2)
        typer.echo(text)

    def say(self, text: str, *, style: str | None = None) -> None:
        """Print a line for people; programs that asked for JSON do not see it."""
        if not self.as_json:
            self.console.print(printable(text), style=style, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a line on standard error: not the answer, but good to know."""
        self.errors.print(printable(text), soft_wrap=True)

    def complain(self, text: str) -> None:
        """Print an error, in one line, on standard error."""
        self.errors.print(Text.assemble(("error:", "bold red"), " ", printable(text)), soft_wrap=True)


def printable(text: str) -> str:
    """Return a text in one line, with what cannot be printed, or moves the cursor, as an escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def first_line(error: BaseException) -> str:
    """Return what an exception says, without the further lines of drivers; its class, if it is silent."""
    lines = [line for line in text_of(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else name_of(error)


def _fits(text: str, encoding: str) -> bool:
    """Whether a text can be printed as it is: no half a character, nothing that a terminal would act on."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return text.replace("\n", "").isprintable()


def _console(file: Any) -> Console:
    return Console(file=file, markup=False, emoji=False, highlight=False)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _plain_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align columns with spaces; no row is folded, and none ends with spaces."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return printable(moment(value) if isinstance(value, datetime) else str(value))


def moment(instant: datetime) -> str:
    """Return an instant as people here read it: local time, with the offset."""
    return instant.astimezone().isoformat(" ", "seconds")


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
