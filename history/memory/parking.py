"""The parking lot in memory: for tests and first steps."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from history.entry import Settlement
from history.store.decisions import (
    Decided,
    DecisionKind,
    DecisionPage,
    DecisionRecord,
    OperatorDecision,
    message_text,
    record_of,
)
from history.store.parking import LabelPage, Parked, ParkedLabel, encodable, read_parked

#: Settles one claim of a trigger in the history beside the lot, if the claim is still as expected.
Settle = Callable[[str, Settlement], bool]


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Kept:
    """The text of a message, when it was parked, and how often."""

    text: str
    parked_at: datetime
    copies: int


class MemoryParking:
    """A parking lot that ends with its process; threads may share it.

    It keeps text, as the other stores do, so nobody can change a parked message. ``settle`` is the function
    of the history beside it; a separate lot has no entries.
    """

    def __init__(self, settle: Settle | None = None, clock: Callable[[], datetime] = _utc_now) -> None:
        self._settle = settle
        self._clock = clock
        self._lock = threading.Lock()
        self._parked: dict[tuple[str, str], _Kept] = {}
        self._decisions: dict[str, list[DecisionRecord]] = {}
        self._answers: dict[str, Sequence[bool]] = {}

    async def park(self, parked: Sequence[Parked]) -> None:
        """Park messages."""
        with self._lock:
            for message in parked:
                key = message.trigger_name, message.id
                before = self._parked.get(key)
                copies = 1 if before is None else before.copies + 1
                self._parked[key] = _Kept(message.model_dump_json(), message.parked_at, copies)

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return the parked message with this beginning of an id, if only one has it."""
        everything = await self.list(trigger=trigger, limit=len(self._parked))
        found = [message for message in everything if message.id.startswith(parked_id)]
        return found[0] if len(found) == 1 else None

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages, oldest first."""
        with self._lock:
            found = [self._read(key) for key in self._parked if trigger in {None, key[0]}]
        return sorted(found, key=lambda message: (message.parked_at, message.id))[:limit]

    async def labels(
        self, *, trigger: str | None = None, cursor: str | None = None, limit: int = 200
    ) -> LabelPage:
        """Return the labels of some messages; the cursor is the last trigger and id."""
        with self._lock:
            after = ("", "") if cursor is None else tuple(json.loads(cursor))
            keys = sorted(key for key in self._parked if trigger in {None, key[0]} and key > after)
            some = keys[:limit]
            labels = [ParkedLabel.of(self._read(key)) for key in some]
            return LabelPage(labels, json.dumps(some[-1]) if len(keys) > limit else None)

    async def of_uuid(self, uuid: str, *, trigger: str | None = None) -> Sequence[ParkedLabel]:
        """Return the labels of the messages with one uuid."""
        everything = await self.list(trigger=trigger, limit=len(self._parked))
        return [ParkedLabel.of(message) for message in everything if message.uuid == encodable(uuid)]

    async def remove(self, parked: Parked | ParkedLabel) -> bool:
        """Remove one message."""
        with self._lock:
            return self._remove((parked.trigger_name, parked.id))

    async def count(self, *, trigger: str | None = None) -> int:
        """Count the parked messages."""
        with self._lock:
            return sum(trigger in {None, name} for name, _ in self._parked)

    async def decide(
        self, trigger: str, decision: OperatorDecision, chosen: Sequence[Decided]
    ) -> Sequence[bool]:
        """Carry out a decision, and record it."""
        with self._lock:
            if decision.token in self._answers:
                return self._answers[decision.token]
            kind = decision.kind
            answers = [bool(decision.ended) or self._carry_out(trigger, kind, one) for one in chosen]
            texts = [message_text(one) for one, answer in zip(chosen, answers, strict=True) if answer]
            if texts:
                messages = f"[{', '.join(texts)}]"
                record = record_of(trigger, self._clock(), decision.model_dump_json(), messages)
                self._decisions.setdefault(trigger, []).append(record)
                self._answers[decision.token] = answers
            return answers

    async def decisions(self, trigger: str, *, cursor: str | None = None, limit: int = 100) -> DecisionPage:
        """Return records, the newest first; the cursor is how many were returned before."""
        with self._lock:
            records = self._decisions.get(trigger, [])
            end = len(records) if cursor is None else int(cursor)
            begin = max(0, end - limit)
            return DecisionPage(records[begin:end][::-1], str(begin) if begin else None)

    def decided_triggers(self) -> Sequence[str]:
        """Name the triggers with decisions."""
        with self._lock:
            return list(self._decisions)

    def _carry_out(self, trigger: str, kind: DecisionKind, one: Decided) -> bool:
        if (trigger, one.id) not in self._parked:
            return False
        if kind is DecisionKind.RUN:
            return True
        if one.settlement is not None and not (self._settle and self._settle(trigger, one.settlement)):
            return False
        return self._remove((trigger, one.id))

    def _remove(self, key: tuple[str, str]) -> bool:
        return self._parked.pop(key, None) is not None

    def _read(self, key: tuple[str, str]) -> Parked:
        (name, id_), kept = key, self._parked[key]
        return read_parked(
            kept.text, trigger=name, parked_id=id_, parked_at=kept.parked_at, copies=kept.copies
        )
