"""The work of ``doubtless sqlremote compare``; loaded when it runs, because it loads SQLAlchemy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from history.errors import ConfigurationError
from triggers.cli.shared.output import CliState
from triggers.cli.sqlremote.work import opened
from triggers.providers.sqlremote import comparison
from triggers.providers.sqlremote.comparison import Difference

#: How many keys of each kind of difference a person sees; JSON has all.
SHOWN: Final = 10


def compare_ends(state: CliState, settings: Path, link: str, *, other: str | None, to: Path | None) -> None:
    """Compare the tables of a link, or write or show their checksums.

    Raises:
        ConfigurationError: the link does not exist or names no tables.
        typer.Exit: something differs: the exit code is 1.
    """
    with opened(settings) as links:
        tables, subscription = links.link(link).tables, links.link(link).subscription
        if not tables:
            raise ConfigurationError(
                "tables", f"no table of link {link} is named", "set tables = [...] of the link"
            )
        with comparison.opened(links.settings.database, tables, subscription) as here:
            if to is not None:
                comparison.write(here, to)
            if other is not None:
                with comparison.opened_end(other, tables, subscription) as there:
                    _show(state, comparison.compare(here, there))
                return
            rows = [
                {"table": table, "rows": rows, "checksum": checksum}
                for table, rows, checksum in comparison.digests(here)
            ]
    state.show("tables", ["table", "rows", "checksum"], rows)


def _show(state: CliState, differences: Sequence[Difference]) -> None:
    kinds = ("missing_here", "missing_there", "different")
    rows = [
        {"table": table.table, "rows": table.rows, "other_rows": table.other_rows}
        | {
            column: getattr(table, column) if state.as_json else len(getattr(table, column))
            for column in kinds
        }
        for table in differences
    ]
    state.show("tables", ["table", "rows", "other_rows", *kinds], rows)
    for table in differences:
        for column in kinds:
            keys: Sequence[str] = getattr(table, column)
            more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
            if keys:
                state.note(f"{table.table}, {column.replace('_', ' ')}: {', '.join(keys[:SHOWN])}{more}")
    if not all(table.is_equal for table in differences):
        raise typer.Exit(1)
