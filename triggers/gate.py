"""Whether a trigger may receive: running, suspended, or stopping; shared by all workers of one trigger."""

import logging
import threading
from collections import Counter
from datetime import timedelta

from history.errors import UnavailableError
from history.store import HistoryStore
from triggers.outcome import Outcome
from triggers.trigger import Trigger

_log = logging.getLogger(__name__)

#: How often an unreachable history is asked whether it is back.
HISTORY_PROBE = timedelta(seconds=1)


class Gate:
    """Suspends and resumes one trigger and counts what became of its messages; safe between threads."""

    def __init__(self, trigger: Trigger[..., object]) -> None:
        self.trigger = trigger
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._suspended: str | None = None
        self._by_history = False

    @property
    def suspended(self) -> str | None:
        """Why the trigger is suspended; None when it is not."""
        return self._suspended

    def note(self, outcome: Outcome) -> None:
        """Count an outcome, and suspend the trigger if it says so."""
        with self._lock:
            self.counts[kind_of(outcome)] += 1
        if outcome.suspend:
            self.suspend(outcome.reason, by_history=isinstance(outcome.error, UnavailableError))

    def suspend(self, reason: str, *, by_history: bool = False) -> None:
        """Stop receiving until :meth:`probe` finds that the trigger may go on."""
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
    def probe_interval(self) -> timedelta:
        """How long to wait before the trigger is looked at again."""
        if self._by_history and self.trigger.settings.monitor is None:
            return HISTORY_PROBE
        return self.trigger.settings.monitor_interval

    async def probe(self, store: HistoryStore | None) -> None:
        """Resume when the monitor says so; without one, when the history answers.

        A monitor that fails counts as "not available", as in the reference system.
        """
        monitor = self.trigger.settings.monitor
        try:
            if monitor is not None:
                available = bool(monitor())
            else:
                if store is not None:
                    await store.lookup(self.trigger.name, ["doubtless-probe"])
                available = True
        except Exception as error:  # noqa: BLE001  (the monitor is user code)
            _log.warning("not available yet: %s", error, extra=self._extra)
            available = False
        if available:
            self.resume()

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
