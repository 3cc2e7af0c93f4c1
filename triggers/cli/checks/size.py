"""``doubtless size``: how much memory or disk a document history needs for a load."""

from typing import Any

import typer
from rich.filesize import decimal

from triggers.cli.shared.arguments import duration_of, rate_of
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.output import CliState
from triggers.operations.sizes import STORES, bytes_of


@with_general_options
def size(
    context: typer.Context,
    rate: str = typer.Option(..., help="How many new messages arrive, such as 2000/s, 5000/h or 1000000/d."),
    keep: str = typer.Option(
        "7d", help="How long each message is remembered (history_time_to_live), such as 36h or 7d."
    ),
    result: int | None = typer.Option(
        None, min=0, help="Mean size of a kept result in bytes, for a trigger with keep_result=."
    ),
) -> None:
    """Estimate how much memory (Redis) or disk (PostgreSQL, SQLite) a document history needs.

    Duplicates need no space. Parked messages need additional space, because each is stored whole. A stream or
    queue needs its own space for its messages.
    """
    state = CliState.of(context)
    messages = rate_of(rate) * duration_of("--keep", keep).total_seconds()
    rows: list[dict[str, Any]] = [
        {
            "store": store.name,
            "where": "memory" if store.name == "redis" else "disk",
            "entries": round(messages * store.lingering),
            "bytes": round(bytes_of(store, messages, result)),
        }
        for store in STORES
    ]
    for row in rows:
        row["size"] = decimal(row["bytes"])
    columns = ["store", "entries", "size", "where"]
    state.show("what a document history needs, at most", columns, rows)
