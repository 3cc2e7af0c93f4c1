"""What people have decided about parked messages, and what became of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from operator import itemgetter
from typing import Any

from history.beside.parking import Parking
from history.beside.security import SecurityEvent
from history.bridge import drive_each
from history.store import HistoryStore
from history.store.decisions import LONGEST_UUID, DecisionKind, DecisionRecord, Ended, OperatorDecision
from history.store.parking import ParkedLabel
from history.support.paging import pages
from triggers.operations.choosing import NAMED
from triggers.security.commands import command_record, recorded, targets

#: How many of the latest records of a trigger are searched for a decision about one message.
LOOKED_THROUGH = 1_000

#: How many records of others may be between the steps of a decision.
NEAR = 50

#: The result for a message without a record of it, if the step itself implies the result.
_UNLESS_SAID = {
    DecisionKind.RUN: "asked, no outcome known",
    DecisionKind.DONE: "settled as done",
    DecisionKind.DISCARD: "discarded",
}


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


def decision_rows(lot: Parking, trigger: str) -> Iterator[dict[str, Any]]:
    """Yield the decisions about a trigger's messages and their results: one row for each command."""
    yield from rows_of(trigger, _records(lot, trigger))


def rows_of(trigger: str, newest_first: Iterable[DecisionRecord]) -> Iterator[dict[str, Any]]:
    """Yield the decisions in some records, one row for each, the newest first.

    Later records hold the results of a decision. Steps of decisions that are carried out concurrently
    alternate, so a row is held back until some records contain none of its steps.
    """
    came: dict[str, dict[str, Ended]] = {}
    steps: dict[str, list[DecisionRecord]] = {}
    last: dict[str, int] = {}
    for number, record in enumerate(newest_first):
        token = record.token.partition("/")[0]
        if record.outcome_of is None:
            steps.setdefault(token, []).append(record)
            last[token] = number
        endings = came.setdefault(token, {})
        endings |= {id_: ended for ended in record.ended for id_ in ended.ids if id_ not in endings}
        while steps and number - last[head := next(iter(steps))] > NEAR:
            yield _decision_row(trigger, steps.pop(head), came.pop(head))
    for token, records in steps.items():
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
    decisions = [
        {key: row[key] for key in ("at", "decision", "by", "as_user", "reason")}
        | {"id": message["id"], "outcome": message["outcome"], "closed": message["closed"]}
        for lot in lots
        for row in rows_of(trigger, islice(_records(lot, trigger), LOOKED_THROUGH))
        for message in row["messages"]
        if message["id"] == id_ or (wanted is not None and message["uuid"] == wanted)
    ]
    return sorted(decisions, key=itemgetter("at"))


def _records(lot: Parking, trigger: str) -> Iterator[DecisionRecord]:
    for page in drive_each(pages(lambda cursor: lot.decisions(trigger, cursor=cursor))):
        yield from page.records
