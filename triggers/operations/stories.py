"""The facts about a message in each trigger, and its next delivery."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from history.beside.journal import JournalLine
from history.beside.kept import KeepsBeside
from history.beside.parking import Parking
from history.bridge import drive
from history.entry import Entry
from history.message import Message
from history.store.parking import ParkedLabel, oldest_first
from triggers.consumer.options import AnyTrigger
from triggers.detection.sentences import explain
from triggers.detection.table import Count, Decision, HistoryUse, Policy, Word, decide
from triggers.operations.decisions import decided_about
from triggers.operations.entries import entry_row
from triggers.operations.journals import Journals, known_triggers, recorded_triggers
from triggers.pipeline.finding import Finding
from triggers.pipeline.run import Run

#: The next delivery of a message whose trigger uses another history.
NOT_KNOWN = "not known here: this history does not know the trigger; give --history the URL of its own"


@dataclass(frozen=True, slots=True)
class Judging:
    """How the trigger judges: its settings, and whether it has a resolver and a history."""

    policy: Policy
    asks: bool
    history: HistoryUse = HistoryUse.ON

    @classmethod
    def by(cls, trigger: AnyTrigger) -> Self:
        """Return how a trigger judges."""
        history = HistoryUse.ON if trigger.has_history else HistoryUse.OFF
        return cls(trigger.settings.policy, trigger.resolver is not None, history)


def stories(
    store: KeepsBeside,
    uuid: str,
    judging: Callable[[str], Judging],
    *,
    trigger: str | None = None,
    known: Sequence[str] | None = None,
    lots: Sequence[Parking] = (),
    elsewhere: Sequence[Parking] = (),
    lines_of: Callable[[str], Sequence[JournalLine]] | None = None,
) -> list[dict[str, Any]]:
    """Return the facts about a uuid in each trigger that has any: in one, or in all.

    It is found by its key: in the history, in its parking lot and in others, and in the journal of a trigger.
    If only ``lots`` have it, and the history does not know the trigger, "known" is false in the row.
    ``elsewhere`` are the lots of triggers that park in another history, and ``lots`` those of local files.
    ``known`` are the names of all triggers, which are otherwise read. ``lines_of`` returns the lines of a
    journal, by default the history's. The latest decisions are searched for it.
    """
    read = lines_of or partial(Journals(store).read, uuid=uuid)
    lots_of_all = [store.parking, *elsewhere, *lots]
    parked = [
        (label.trigger_name, _parked_row(label, local=lot in lots))
        for lot in lots_of_all
        for label in oldest_first(drive(lot.of_uuid(uuid, trigger=trigger)))
    ]
    if trigger is not None:
        known = [trigger]
    elif known is None:
        known = known_triggers(store, drive(store.control.overview()))
    rows = (
        _story(
            store,
            name,
            uuid,
            judging(name),
            parked=[row for of, row in parked if of == name],
            lines=read(name),
            decisions=decided_about(lots_of_all, name, uuid=uuid),
        )
        for name in dict.fromkeys([*known, *(of for of, _ in parked)])
    )
    shown = [row for row in rows if row is not None]
    _mark_foreign(store, [row for row in shown if _is_only_local(row)])
    return shown


def _is_only_local(row: dict[str, Any]) -> bool:
    """Whether only a file of this machine has anything about the uuid."""
    local = [parked["local"] for parked in row["parked"]]
    return row["entry"] is None and not row["journal"] and bool(local) and all(local)


def _mark_foreign(store: KeepsBeside, rows: Sequence[dict[str, Any]]) -> None:
    """Promise nothing about triggers that this history does not know: their own history decides."""
    recorded = recorded_triggers(store) if rows else set[str]()
    for row in rows:
        if row["trigger"] not in recorded:
            row |= {"known": False, "next": NOT_KNOWN}


def _story(
    store: KeepsBeside,
    trigger: str,
    uuid: str,
    judging: Judging,
    *,
    parked: Sequence[dict[str, Any]],
    lines: Sequence[JournalLine],
    decisions: Sequence[dict[str, Any]],
) -> dict[str, Any] | None:
    """Return one trigger's facts about a uuid and its next delivery; None if there are none."""
    entry = drive(store.lookup(trigger, [uuid]))[0]
    if entry is None and not parked and not lines and not decisions:
        return None
    shown = None if entry is None else entry_row(trigger, b"", entry)
    return {
        "trigger": trigger,
        "uuid": uuid,
        "known": True,
        "entry": None
        if shown is None
        else {key: shown[key] for key in shown if key not in {"trigger", "digest"}},
        "next": explain(next_decision(entry, judging)),
        "parked": parked,
        "journal": [
            {
                "at": line.at,
                "verdict": line.verdict,
                "reason": line.reason,
                "delivery_count": line.delivery_count,
                "fence": line.fence,
                "by": line.by,
            }
            for line in lines
        ],
        "decisions": decisions,
    }


def _parked_row(label: ParkedLabel, *, local: bool) -> dict[str, Any]:
    return {"id": label.id, "kind": label.kind, "reason": label.reason, "at": label.parked_at, "local": local}


def next_decision(entry: Entry | None, judging: Judging) -> Decision:
    """Decide about a next delivery as the pipeline would."""
    run = Run(Message(body="", uuid="-"), Finding(judging.history, found=entry))
    return decide(run.facts(Count.AGAIN, Word.NOT_ASKED if judging.asks else Word.NONE), judging.policy)
