"""Ask about a decision, carry it out, and show earlier decisions."""

import getpass
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from operator import itemgetter
from typing import Any

import typer

from history.bridge import drive, drive_each
from history.store import HistoryStore
from history.store.decisions import LONGEST_UUID, DecisionKind, DecisionRecord, Ended, OperatorDecision
from history.store.parking import ParkedLabel, Parking
from history.store.security import SecurityEvent
from history.support.paging import pages
from triggers.cli.parked.choosing import NAMED, Selection, nothing_like, summary, walk
from triggers.cli.parked.options import Request
from triggers.cli.shared.options import confirm
from triggers.cli.shared.output import State
from triggers.security.commands import command_record, os_user, recorded, targets

#: How many rows a table of decisions has.
SHOWN = 50

#: How many of the latest records of a trigger are searched for a decision about one message.
LOOKED_THROUGH = 1_000

#: How many records of others may be between the steps of a decision.
NEAR = 50

COLUMNS = ["id", "trigger", "kind", "uuid", "parked_at", "reason"]

_QUESTIONS = {DecisionKind.DONE: "Settle as done:", DecisionKind.DISCARD: "Discard for good:"}
#: The result for a message without a record of it, if the step itself implies the result.
_UNLESS_SAID = {
    DecisionKind.RUN: "asked, no outcome known",
    DecisionKind.DONE: "settled as done",
    DecisionKind.DISCARD: "discarded",
}
_WORDS = {DecisionKind.DONE: "done", DecisionKind.DISCARD: "discarded"}


def carry_out(
    state: State,
    kind: DecisionKind,
    request: Request,
    labels: Sequence[ParkedLabel],
    *,
    lot: Parking,
    store: HistoryStore | None,
    security: HistoryStore | None,
) -> None:
    """Show the messages of a decision, ask, and carry it out; the exit code is 1 if a message is left.

    ``store`` has the entries that are settled with it, ``security`` keeps the security log.
    """
    from triggers.pipeline.parking.decisions import decide  # noqa: PLC0415  (listing needs no pipeline)

    if request.dry_run or not labels:
        return preview(state, labels, request, lot=lot)
    if not request.yes:
        confirm(f"{_QUESTIONS[kind]} {summary(labels)}?")
    decision = decision_of(kind, request)
    with decided_under(decision, security, labels):
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
        state.say(f"{_WORDS[kind]}: {summary(closed)}")
    elif closed:
        state.show(_WORDS[kind], COLUMNS, [row_of(label) for label in closed])
    for verdict in left[:SHOWN]:
        state.say(f"{verdict.label.uuid or verdict.label.id}: still parked: {verdict.left}")
    if left:
        state.note(f"{len(closed)} {_WORDS[kind]}, {len(left)} still parked")
        raise typer.Exit(1)
    return None


def preview(state: State, labels: Sequence[ParkedLabel], request: Request, *, lot: Parking) -> None:
    """Show the messages of a command."""
    rows = [row_of(label) for label in labels]
    shown = rows if state.as_json else rows[:SHOWN]
    none = "" if labels else nothing_like(lot, request.selection, local=request.local)
    state.show("would be decided", COLUMNS, shown, none=none)
    if labels:
        state.note(f"nothing was changed: {summary(labels)}")


def note(lot: Parking, labels: Sequence[ParkedLabel], decision: OperatorDecision) -> None:
    """Record a decision to run; the messages stay parked until they have run."""
    from triggers.pipeline.parking.decisions import decide  # noqa: PLC0415  (as above)

    drive(decide(labels, decision, lot=lot, store=None))


def decision_of(kind: DecisionKind, request: Request) -> OperatorDecision:
    """Return the decision of a command, by the named or logged-in person."""
    by = request.by or _login()
    return OperatorDecision(kind=kind, by=by, as_user=str(os_user()), reason=request.reason)


def decided_under(
    decision: OperatorDecision, store: HistoryStore | None, labels: Sequence[ParkedLabel]
) -> AbstractContextManager[None]:
    """Add a decision to the security log before it is carried out inside the block, and if that fails.

    Raises:
        DoubtlessError: the history does not take the record: nothing is done.
    """
    event = SecurityEvent(decision.kind.value)
    return recorded(store, [command_record(event, by=decision.by, **target) for target in targets(labels)])


def decider(row: Mapping[str, Any]) -> str:
    """Return who has decided: "ana, as root@host" for the command line, else only the name."""
    return str(row["by"]) if row["as_user"] is None else f"{row['by']}, as {row['as_user']}"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container with a user that has no name
        return f"user {os.getuid()}"


def lot_names(lot: Parking, store: HistoryStore | None) -> Sequence[str]:
    """Name the triggers of a lot; a trigger that has only decisions left is known to its history."""
    known = {label.trigger_name for label in walk(lot, Selection())}
    return sorted(known if store is None else {*known, *drive(store.triggers())})


def decision_rows(lot: Parking, trigger: str) -> Iterator[dict[str, Any]]:
    """Yield the decisions about a trigger's messages and their results: one row for each command."""
    yield from rows_of(trigger, _records(lot, trigger))


def rows_of(trigger: str, newest_first: Iterable[DecisionRecord]) -> Iterator[dict[str, Any]]:
    """Yield the decisions in some records, one row for each, the newest first.

    Later records hold the results of a decision. Steps of decisions that are carried out concurrently
    alternate, so a row is held back until some records contain none of its steps.
    """
    came: dict[str, dict[str, Ended]] = {}
    held: dict[str, list[DecisionRecord]] = {}
    last: dict[str, int] = {}
    for number, record in enumerate(newest_first):
        token = record.token.partition("/")[0]
        if record.outcome_of is None:
            held.setdefault(token, []).append(record)
            last[token] = number
        known = came.setdefault(token, {})
        known |= {id_: ended for ended in record.ended for id_ in ended.ids if id_ not in known}
        while held and number - last[head := next(iter(held))] > NEAR:
            yield _decision_row(trigger, held.pop(head), came.pop(head))
    for token, records in held.items():
        yield _decision_row(trigger, records, came[token])


def _decision_row(
    trigger: str, records: Sequence[DecisionRecord], came: Mapping[str, Ended]
) -> dict[str, Any]:
    first = records[0]
    unknown = Ended(_UNLESS_SAID[first.kind], first.kind is not DecisionKind.RUN, ())
    messages = [
        {"id": message.id, "uuid": message.uuid, "outcome": ended.outcome, "closed": ended.closed}
        for record in records
        for message in record.messages
        for ended in (came.get(message.id, unknown),)
    ]
    return {
        "at": first.at,
        "trigger": trigger,
        "decision": first.kind.value,
        "by": first.by,
        "as_user": first.as_user,
        "reason": first.reason,
        "messages": messages,
        "outcome": _in_short(str(message["outcome"]) for message in messages),
    }


def _in_short(outcomes: Iterable[str]) -> str:
    """Return the results of many messages in short: each with its number, the most frequent first."""
    counts = Counter(outcomes).most_common()
    if len(counts) == 1:
        return counts[0][0]
    some = [f"{count:,} {outcome}" for outcome, count in counts[:NAMED]]
    return "; ".join([*some, *(["..."] if len(counts) > NAMED else [])])


def decided_about(
    lots: Sequence[Parking], trigger: str, *, uuid: str | None = None, id_: str | None = None
) -> list[dict[str, Any]]:
    """Return the decisions about a message, by its uuid or the id of its parked copy, the oldest first.

    The search covers the latest :data:`LOOKED_THROUGH` records of each lot.
    """
    wanted = None if uuid is None else uuid[:LONGEST_UUID]
    found = [
        {key: row[key] for key in ("at", "decision", "by", "as_user", "reason")}
        | {"id": message["id"], "outcome": message["outcome"], "closed": message["closed"]}
        for lot in lots
        for row in rows_of(trigger, islice(_records(lot, trigger), LOOKED_THROUGH))
        for message in row["messages"]
        if message["id"] == id_ or (wanted is not None and message["uuid"] == wanted)
    ]
    return sorted(found, key=itemgetter("at"))


def _records(lot: Parking, trigger: str) -> Iterator[DecisionRecord]:
    for page in drive_each(pages(lambda cursor: lot.decisions(trigger, cursor=cursor))):
        yield from page.records


def row_of(label: ParkedLabel) -> dict[str, Any]:
    """Return the printed form of a parked message."""
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
