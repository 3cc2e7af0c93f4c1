"""``doubtless history``: what the document history remembers."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import typer

from history.bridge import drive
from history.entry import Entry
from history.store import HistoryStore, ScannedEntry
from triggers.cli.output import HISTORY_OPTION, TRIGGER_OPTION, State, opened, trigger_names

app = typer.Typer(no_args_is_help=True, help="What the document history remembers.")


@app.command()
def show(
    context: typer.Context,
    uuid: str | None = typer.Argument(None, help="Only this uuid."),
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    limit: int = typer.Option(20, min=1, help="At most so many entries."),
) -> None:
    """Show entries: of one uuid, or the first ones in no particular order. Uuids are stored as digests."""
    store = opened(history)
    if uuid is None:
        found = list(islice(_walk(store, trigger), limit))
    else:
        found = list(_of_uuid(store, trigger, uuid))
    rows = [entry_row(name, key, entry) for name, key, entry in found]
    State.of(context).show(
        "entries", ["trigger", "digest", "state", "owner", "fence", "started", "expires"], rows
    )
    drive(store.close())
    if not rows:
        raise typer.Exit(1)


@app.command()
def stats(
    context: typer.Context, history: str | None = HISTORY_OPTION, trigger: str | None = TRIGGER_OPTION
) -> None:
    """Count what each trigger remembers."""
    store = opened(history)
    rows: list[dict[str, Any]] = []
    for name in trigger_names(store, trigger):
        counted = drive(store.stats(name))
        parked = drive(store.parking.count(trigger=name))
        rows.append(
            {"trigger": name, "started": counted.started, "completed": counted.completed, "parked": parked}
        )
    State.of(context).show("document history", ["trigger", "started", "completed", "parked"], rows)
    drive(store.close())


@app.command()
def purge(
    context: typer.Context, history: str | None = HISTORY_OPTION, trigger: str | None = TRIGGER_OPTION
) -> None:
    """Delete entries whose time to live is over; consumers do it every ten minutes."""
    store = opened(history)
    rows = [{"trigger": name, "deleted": drive(store.purge(name))} for name in trigger_names(store, trigger)]
    State.of(context).show("expired entries", ["trigger", "deleted"], rows)
    drive(store.close())


@app.command()
def forget(
    context: typer.Context,
    uuid: str = typer.Argument(help="The uuid, or the JMSMessageID of a message without one."),
    trigger: str = typer.Option(..., "--trigger", "-t", help="The trigger's name."),
    history: str | None = HISTORY_OPTION,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete one entry whatever its state: the next message of this uuid is NEW, and runs the service."""
    store = opened(history)
    if not yes:
        typer.confirm(f"The next message {uuid} will run {trigger} again. Forget it?", abort=True)
    gone = drive(store.forget(trigger, uuid))
    drive(store.close())
    state = State.of(context)
    if state.as_json:
        state.document({"trigger": trigger, "uuid": uuid, "forgotten": gone})
    else:
        state.say("forgotten" if gone else "there was no such entry")
    if not gone:
        raise typer.Exit(1)


def entry_row(trigger: str, key: str, entry: Entry) -> dict[str, Any]:
    """Return what is printed of an entry."""
    state = entry.state.value.upper() + (f" {entry.outcome}" if entry.outcome else "")
    return {
        "trigger": trigger,
        "digest": key,
        "state": state,
        "owner": entry.owner,
        "fence": entry.fence,
        "started": entry.started_at,
        "expires": entry.expires_at,
        "lease_until": entry.lease_until,
        "lease_alive": entry.lease_alive,
    }


def _of_uuid(store: HistoryStore, trigger: str | None, uuid: str) -> Iterator[tuple[str, str, Entry]]:
    for name in trigger_names(store, trigger):
        entry = drive(store.lookup(name, [uuid]))[0]
        if entry is not None:
            yield name, uuid, entry


def _walk(store: HistoryStore, trigger: str | None) -> Iterator[tuple[str, str, Entry]]:
    for name in trigger_names(store, trigger):
        for scanned in _scan(store, name):
            yield name, scanned.digest.hex(), scanned.entry


def _scan(store: HistoryStore, trigger: str) -> Iterator[ScannedEntry]:
    cursor: str | None = None
    while True:
        page = drive(store.scan(trigger, cursor=cursor))
        yield from page.entries
        cursor = page.cursor
        if cursor is None:
            return
