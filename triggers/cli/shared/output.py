"""The output of the commands: tables for people, JSON for programs, errors on standard error.

Uuids, names and error texts come from strangers: markup in them has no effect, and control characters are
shown as escapes. Standard output that is not a terminal gets one line a row, however long. Only output to a
terminal needs rich, which is loaded then.
"""

import json
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

import typer

from history.support.rendering import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from triggers.configuration import Configuration

#: Variables that make rich treat a pipe as a terminal.
_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")


#: How many characters an error has at most: it may quote a value of any length.
LONGEST_ERROR = 4_000


class UserExitError(Exception):
    """A service, a resolver or another function of a user called ``sys.exit()``, which no command does."""

    def __init__(self, code: object) -> None:
        super().__init__(f"this is not done: the code that it ran called sys.exit({code!r})")
        #: Never the code for done, or for wrong usage: a supervisor would not restart after these.
        self.exit_code = code if isinstance(code, int) and code not in {0, 2} else 1


@dataclass(slots=True)
class CliState:
    """The options that every command shares, and how it prints."""

    as_json: bool = False
    verbose: bool = False
    config: "Path | None" = None
    configuration: "Configuration | None" = None
    _document_goes_to: TextIO | None = None

    @contextmanager
    def document_apart(self) -> Generator[None]:
        """Reserve standard output for the document, if there is to be one.

        Meanwhile, output of modules and services goes to standard error, so that a program can read the rest.
        """
        if not self.as_json:
            yield
            return
        self._document_goes_to = sys.stdout
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            self._document_goes_to = None

    @staticmethod
    def of(context: typer.Context) -> "CliState":
        """Return the state of a running command."""
        state: CliState = context.obj
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
        console = _terminal(sys.stdout)
        if not cells:
            self.note(none)
        elif console is not None:
            console.print(_table(title, columns, cells))
        else:
            sys.stdout.writelines(line + "\n" for line in _plain_table([list(columns), *cells]))
        if total is not None and total > len(rows):
            self.note(f"{len(rows)} of {total}; --limit shows more")

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        out = self._document_goes_to or sys.stdout
        text = json.dumps(value, default=_plain, indent=2, ensure_ascii=False)
        if not _fits(text, out.encoding):
            text = json.dumps(value, default=_plain, indent=2)
        typer.echo(text, file=out)

    def say(self, text: str, *, style: str | None = None) -> None:
        """Print a line for people; programs that asked for JSON do not see it."""
        if not self.as_json:
            _print_line(sys.stdout, (text, style))

    def say_running(self, names: Iterable[str]) -> None:
        """Print that triggers, components or links run now, and how to end them."""
        self.say(f"running {', '.join(names)}; Ctrl-C drains")

    def report(self, document: Any, *lines: str) -> None:
        """Print a JSON document, or the same as lines for people."""
        if self.as_json:
            self.document(document)
        for line in lines:
            self.say(line)

    def note(self, text: str) -> None:
        """Print a line on standard error: additional information, not the answer."""
        _print_line(sys.stderr, (text, None))

    def complain(self, text: str) -> None:
        """Print an error, in one line, on standard error; of a very long one its beginning and its end."""
        if len(text) > LONGEST_ERROR:
            half = LONGEST_ERROR // 2
            text = f"{text[:half]} ... {text[-half:]}"
        _print_line(sys.stderr, ("error:", "bold red"), (f" {text}", None))


def _fits(text: str, encoding: str) -> bool:
    """Whether a text can be printed as it is: no half a character, and no control characters."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return text.replace("\n", "").isprintable()


def _terminal(file: TextIO) -> "Console | None":
    """Return a console on the terminal behind a stream; None if it is not a terminal."""
    if not file.isatty() and not any(map(os.environ.get, _FORCING)):
        return None
    from rich.console import Console  # noqa: PLC0415  (only terminals need it)

    console = Console(file=file, markup=False, emoji=False, highlight=False)
    return console if console.is_terminal else None


def _print_line(file: TextIO, *parts: tuple[str, str | None]) -> None:
    """Print one line of texts with their styles; only a terminal shows these."""
    escaped = [(printable(text), style or "") for text, style in parts]
    console = _terminal(file)
    if console is None:
        # typer.echo would write UTF-8 where the user asked for ASCII.
        file.write("".join(text for text, _ in escaped) + "\n")
        file.flush()
        return
    from rich.text import Text  # noqa: PLC0415  (as above)

    console.print(Text.assemble(*escaped), soft_wrap=True)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich.table import Table  # noqa: PLC0415  (as above)

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _plain_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align columns with spaces; no row is folded, and none ends with spaces."""
    from rich.cells import cell_len  # noqa: PLC0415  (no other output measures texts)

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return printable(moment(value) if isinstance(value, datetime) else str(value))


def moment(instant: datetime) -> str:
    """Return an instant for people here: local time, with the offset."""
    try:
        return instant.astimezone().isoformat(" ", "seconds")
    except (OverflowError, ValueError):  # the ends of the calendar have no other time zone
        return instant.isoformat(" ", "seconds")


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
