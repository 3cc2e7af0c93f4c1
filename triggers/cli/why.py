"""``doubtless why``: explain a verdict in the decision table's own words."""

from typing import Any

import typer

from history.bridge import drive
from history.entry import Entry
from history.message import Message
from history.parking import Parked, Parking
from history.store import HistoryStore
from triggers.cli.history import entry_row
from triggers.cli.output import HISTORY_OPTION, TRIGGER_OPTION, State, opened, trigger_names
from triggers.detection import Count, HistoryUse, Policy, Word, decide
from triggers.parking_lot import local_parking_if_any
from triggers.run import Run
from triggers.table_text import explain


def why(
    context: typer.Context,
    uuid: str = typer.Argument(help="The uuid, or the JMSMessageID of a message without one."),
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    transacted: bool = typer.Option(False, help="Judge as a transacted trigger does."),
    resolver: bool = typer.Option(False, help="Judge as a trigger with a resolver does."),
) -> None:
    """Say what the history holds of a uuid, what is parked, and what becomes of its next delivery."""
    store = opened(history)
    policy = Policy(transacted=transacted)
    found = [
        row
        for name in trigger_names(store, trigger)
        if (row := _explain(store, name, uuid, policy, asks=resolver)) is not None
    ]
    drive(store.close())
    state = State.of(context)
    if state.as_json:
        state.document(found)
    elif not found:
        verdict = explain(_next(None, policy, asks=resolver))
        state.say(f"nothing is known of {uuid}: its next delivery is {verdict}")
    else:
        for row in found:
            _print(state, row)
    if not found:
        raise typer.Exit(1)


def _explain(
    store: HistoryStore, trigger: str, uuid: str, policy: Policy, *, asks: bool
) -> dict[str, Any] | None:
    entry = drive(store.lookup(trigger, [uuid]))[0]
    local = local_parking_if_any()
    lots = [store.parking] if local is None else [store.parking, local]
    parked = [one for lot in lots for one in _parked(lot, trigger, uuid)]
    if entry is None and not parked:
        return None
    return {
        "trigger": trigger,
        "uuid": uuid,
        "entry": None if entry is None else entry_row(trigger, uuid, entry),
        "next": explain(_next(entry, policy, asks=asks)),
        "parked": [
            {"id": one.id, "kind": one.kind, "reason": one.reason, "at": one.parked_at} for one in parked
        ],
    }


def _parked(lot: Parking, trigger: str, uuid: str) -> list[Parked]:
    return [one for one in drive(lot.list(trigger=trigger)) if one.uuid == uuid]


def _next(entry: Entry | None, policy: Policy, *, asks: bool) -> Any:
    """Decide on a next delivery as the pipeline would; where a resolver is asked, nobody knows its word."""
    run = Run(Message(body="", uuid="-"), HistoryUse.ON, found=entry)
    return decide(run.facts(Count.AGAIN, Word.NOT_ASKED if asks else Word.NONE), policy)


def _print(state: State, row: dict[str, Any]) -> None:
    state.say(f"[bold]{row['trigger']}[/] {row['uuid']}")
    entry = row["entry"]
    if entry is None:
        state.say("  history: no entry")
    else:
        owner = f", owner {entry['owner']}" if entry["owner"] else ""
        started = entry["started"].astimezone().isoformat(" ", "seconds")
        state.say(f"  history: {entry['state']} at {started}, fence {entry['fence']}{owner}")
    for parked in row["parked"]:
        state.say(f"  parked {parked['id']} ({parked['kind']}): {parked['reason']}")
    state.say(f"  next delivery: {row['next']}")
