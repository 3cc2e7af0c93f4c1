"""What the commands print: tables for people, JSON for programs, complaints on standard error."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import HISTORY_URLS, open_history
from history.store import HistoryStore

_errors = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class State:
    """The options that every command shares."""

    as_json: bool
    console: Console

    @classmethod
    def started(cls, *, as_json: bool, verbose: bool) -> "State":
        """Set logging up, on standard error, and return the state."""
        logging.basicConfig(
            level=logging.INFO if verbose else logging.WARNING,
            format="%(message)s",
            datefmt="%H:%M:%S",
            handlers=[RichHandler(console=_errors, show_path=False, rich_tracebacks=False)],
        )
        return cls(as_json, Console())

    @classmethod
    def of(cls, context: typer.Context) -> "State":
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
    ) -> None:
        """Print rows as a table, or as a JSON array of objects with all their fields."""
        rows = list(rows)
        if self.as_json:
            self.document(rows)
            return
        table = Table(title=title, title_justify="left")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(_cell(row.get(column)) for column in columns))
        self.console.print(table)
        if total is not None and total > len(rows):
            self.console.print(f"{len(rows)} of {total}; --limit shows more")

    def document(self, value: Any) -> None:
        """Print one JSON document."""
        typer.echo(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))

    def say(self, text: str) -> None:
        """Print a line for people; programs that asked for JSON do not see it."""
        if not self.as_json:
            self.console.print(text, highlight=False)


def complain(text: str) -> None:
    """Print an error on standard error."""
    _errors.print(f"[bold red]error:[/] {text}", highlight=False, markup=True)


def opened(history: str | None) -> HistoryStore:
    """Open the history that a command was given.

    Raises:
        ConfigurationError: none was.
    """
    if history is None:
        raise ConfigurationError("--history", "is missing", f"give {HISTORY_URLS}, or set DOUBTLESS_HISTORY")
    return open_history(history)


def trigger_names(store: HistoryStore, trigger: str | None) -> Sequence[str]:
    """Return the one trigger that was named, or all that the history knows."""
    return [trigger] if trigger is not None else drive(store.triggers())


#: The option by which every command is told of the history.
HISTORY_OPTION: Any = typer.Option(None, "--history", envvar="DOUBTLESS_HISTORY", help=HISTORY_URLS)

#: The option that narrows a command down to one trigger.
TRIGGER_OPTION: Any = typer.Option(
    None, "--trigger", "-t", help="The trigger's name; all of them by default."
)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value.astimezone().isoformat(" ", "seconds") if isinstance(value, datetime) else str(value)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
