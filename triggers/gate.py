"""Whether a trigger may receive: running or suspended; shared by all workers of one trigger."""

import logging
import threading
from collections import Counter
from typing import Any

from triggers.outcome import Outcome
from triggers.trigger import Trigger

_log = logging.getLogger(__name__)

#: The row of the decision table that suspends a trigger because its history does not answer.
HISTORY_ROW = 13


class Gate:
    """Suspends and resumes one trigger and counts what became of its messages; safe between threads."""

    def __init__(self, trigger: Trigger[..., Any]) -> None:
        self.trigger = trigger
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._suspended: str | None = None
        self._by_history = False

    @property
    def suspended(self) -> str | None:
        """Why the trigger is suspended; None when it is not."""
        return self._suspended

    @property
    def by_history(self) -> bool:
        """Whether it was the history, and not the service or the resolver, that suspended the trigger."""
        return self._by_history

    def note(self, outcome: Outcome) -> None:
        """Count an outcome, and suspend the trigger if it says so."""
        with self._lock:
            self.counts[kind_of(outcome)] += 1
        if outcome.suspend:
            self.suspend(outcome.reason, by_history=outcome.row == HISTORY_ROW)

    def note_unreadable(self) -> None:
        """Count a delivery that was no message."""
        with self._lock:
            self.counts["unreadable"] += 1

    def suspend(self, reason: str, *, by_history: bool = False) -> None:
        """Stop receiving until :meth:`resume`."""
        with self._lock:
            if self._suspended is not None:
                return
            self._suspended, self._by_history = reason, by_history
        _log.warning("trigger %s is suspended: %s", self.trigger.name, reason, extra=self._extra)

    def resume(self) -> None:
        """Receive again."""
        with self._lock:
            if self._suspended is None:
                return
            self._suspended = None
        _log.warning("trigger %s is resumed", self.trigger.name, extra=self._extra)

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self.trigger.name}


def kind_of(outcome: Outcome) -> str:
    """Name what became of a message, for counts: "ok", "failed", "duplicate", "in doubt", "rejected", ..."""
    if outcome.rejected:
        return "rejected"
    if not outcome.acknowledge:
        return "recovered"
    if outcome.executed:
        return "ok" if outcome.error is None else "failed"
    return "undecided" if outcome.status is None else outcome.status.value.lower().replace("_", " ")
