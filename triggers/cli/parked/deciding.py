"""Ask about a decision, carry it out, and show what was decided."""

import getpass
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import typer

from history.bridge import drive
from history.store import HistoryStore
from history.store.decisions import DecisionKind, DecisionRecord, OperatorDecision
from history.store.parking import ParkedLabel, Parking
from triggers.cli.parked.choosing import Selection, summary, walk
from triggers.cli.shared.options import confirm
from triggers.cli.shared.output import State

#: How many rows a table of what was decided has.
SHOWN = 50

COLUMNS = ["id", "trigger", "kind", "uuid", "parked_at", "reason"]

_QUESTIONS = {DecisionKind.DONE: "Settle as done:", DecisionKind.DISCARD: "Discard for good:"}
_WORDS = {DecisionKind.DONE: "done", DecisionKind.DISCARD: "discarded"}


def carry_out(
    state: State,
    labels: Sequence[ParkedLabel],
    decision: OperatorDecision,
    *,
    lot: Parking,
    store: HistoryStore | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show what a decision is about, ask, and carry it out; the exit code is 1 where something is left."""
    from triggers.pipeline.parking.decisions import decide  # noqa: PLC0415  (listing needs no pipeline)

    if dry_run or not labels:
        return preview(state, labels)
    if not yes:
        confirm(f"{_QUESTIONS[decision.kind]} {summary(labels)}?")
    verdicts = drive(decide(labels, decision, lot=lot, store=store))
    closed = [verdict.label for verdict in verdicts if verdict.left is None]
    left = [verdict for verdict in verdicts if verdict.left is not None]
    if state.as_json:
        state.document(
            [
                row_of(verdict.label) | {"closed": verdict.left is None, "left": verdict.left}
                for verdict in verdicts
            ]
        )
    elif len(closed) > SHOWN:
        state.say(f"{_WORDS[decision.kind]}: {summary(closed)}")
    elif closed:
        state.show(_WORDS[decision.kind], COLUMNS, [row_of(label) for label in closed])
    for verdict in left[:SHOWN]:
        state.say(f"{verdict.label.uuid or verdict.label.id}: still parked: {verdict.left}")
    if left:
        state.note(f"{len(closed)} {_WORDS[decision.kind]}, {len(left)} still parked")
        raise typer.Exit(1)
    return None


def preview(state: State, labels: Sequence[ParkedLabel]) -> None:
    """Show what a command would be about."""
    rows = [row_of(label) for label in labels]
    shown = rows if state.as_json else rows[:SHOWN]
    state.show("would be decided", COLUMNS, shown, none="nothing parked is like that")
    if labels:
        state.note(f"nothing was changed: {summary(labels)}")


def note(lot: Parking, labels: Sequence[ParkedLabel], decision: OperatorDecision) -> None:
    """Record a decision to run; the messages stay until they have run."""
    from triggers.pipeline.parking.decisions import decide  # noqa: PLC0415  (as above)

    drive(decide(labels, decision, lot=lot, store=None))


def decision_of(kind: DecisionKind, reason: str | None, by: str | None) -> OperatorDecision:
    """Return the decision of a command, by who was named or is logged in."""
    return OperatorDecision(kind=kind, by=by or _login(), reason=reason)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"


def lot_names(lot: Parking, store: HistoryStore | None) -> Sequence[str]:
    """Name the triggers of a lot; one that has only decisions left is known to its history."""
    known = {label.trigger_name for label in walk(lot, Selection())}
    return sorted(known if store is None else {*known, *drive(store.triggers())})


def decision_rows(lot: Parking, trigger: str) -> Iterator[dict[str, Any]]:
    """Yield the decisions about a trigger's messages; the steps of one command are one."""
    for _, steps in groupby(_records(lot, trigger), lambda record: record.token.partition("/")[0]):
        records = list(steps)
        yield {
            "at": records[0].at,
            "trigger": trigger,
            "decision": records[0].kind.value,
            "by": records[0].by,
            "reason": records[0].reason,
            "messages": [
                {"id": message.id, "uuid": message.uuid} for record in records for message in record.messages
            ],
        }


def _records(lot: Parking, trigger: str) -> Iterator[DecisionRecord]:
    cursor: str | None = None
    while True:
        page = drive(lot.decisions(trigger, cursor=cursor))
        yield from page.records
        cursor = page.cursor
        if cursor is None:
            return


def row_of(label: ParkedLabel) -> dict[str, Any]:
    """Return what is printed of a parked message."""
    error = [] if label.error_message is None else [label.error_message]
    again = [] if label.copies == 1 else [f"parked {label.copies} times"]
    return {
        "id": label.id,
        "trigger": label.trigger_name,
        "kind": label.kind.value,
        "uuid": label.uuid,
        "destination": label.destination,
        "parked_at": label.parked_at,
        "reason": "; ".join([": ".join([label.reason, *error]), *again]),
        "error_class": label.error_class,
        "error_message": label.error_message,
        "owner": label.evidence.owner,
        "copies": label.copies,
    }
