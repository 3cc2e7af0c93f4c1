"""Whether a trigger may receive: running, suspended or disabled; shared by all workers of one trigger."""

import logging
import threading
import time
from collections import Counter
from typing import Any

from history.store.control import Counts, Report, TriggerState
from triggers.consumer.complaints import Complaints
from triggers.declaration.decorator import Trigger
from triggers.detection.table import Status
from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)


class Gate:
    """Suspends, resumes, disables and enables one trigger and counts its messages; safe between threads.

    What an error suspended, its monitor or its history resumes; what a command suspended, only a command.
    """

    def __init__(self, trigger: Trigger[..., Any]) -> None:
        self.trigger = trigger
        self.counts: Counter[str] = Counter()
        #: Grows with every suspension, so that a new one is not taken for the one before.
        self.suspensions = 0
        #: What the workers of the trigger have to say to the log.
        self.complaints = Complaints()
        self._statistics: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._suspended: str | None = None
        self._by_history = False
        self._by_command = False
        self._disabled: str | None = None
        #: When each delivery began that is being worked on.
        self._begun: list[float] = []
        #: What the history failed with when it was asked last; None when it answered.
        self.history_away: str | None = None
        self._changed = time.monotonic()
        self._away: str | None = None
        self._away_since = self._changed

    @property
    def name(self) -> str:
        """The name of the trigger."""
        return self.trigger.name

    @property
    def busy(self) -> int:
        """How many deliveries are being worked on."""
        return len(self._begun)

    @property
    def longest(self) -> float:
        """For how many seconds the oldest of them has been worked on; 0 where there is none."""
        with self._lock:
            return max(0.0, time.monotonic() - min(self._begun)) if self._begun else 0.0

    @property
    def away(self) -> str | None:
        """What the provider failed with when a worker asked it last; None when it answered."""
        return self._away

    @away.setter
    def away(self, cause: str | None) -> None:
        if cause is not None and self._away is None:
            self._away_since = time.monotonic()
        self._away = cause

    @property
    def needs_history(self) -> bool:
        """Whether nothing runs while the history is away."""
        return self.trigger.settings.policy.on_history_error == "suspend"

    @property
    def suspended(self) -> str | None:
        """Why the trigger is suspended; None when it is not."""
        return self._suspended

    @property
    def by_history(self) -> bool:
        """Whether it was the history, and not the service or the resolver, that suspended the trigger."""
        return self._by_history

    @property
    def failed(self) -> bool:
        """Whether an error suspended the trigger, so that it may be resumed when that has passed."""
        return self._suspended is not None and not self._by_command and self._disabled is None

    @property
    def disabled(self) -> bool:
        """Whether the trigger must not even be connected."""
        return self._disabled is not None

    @property
    def closed(self) -> bool:
        """Whether nothing may be received or begun."""
        return self._suspended is not None or self._disabled is not None

    @property
    def state(self) -> TriggerState:
        """The state of the trigger in this consumer."""
        if self._disabled is not None:
            return TriggerState.DISABLED
        return TriggerState.RUNNING if self._suspended is None else TriggerState.SUSPENDED

    def enter(self) -> float | None:
        """Begin with a delivery; return what :meth:`leave` takes at its end, None while it is closed."""
        with self._lock:
            if self.closed:
                return None
            begun = time.monotonic()
            self._begun.append(begun)
            return begun

    def leave(self, begun: float) -> None:
        """Have done with a delivery."""
        with self._lock:
            self._begun.remove(begun)

    def note(self, outcome: Outcome) -> None:
        """Count an outcome, and suspend the trigger if it says so."""
        with self._lock:
            self.counts[outcome.kind] += 1
            _count(self._statistics, outcome)
        if outcome.suspend:
            self.suspend(outcome.reason, by_history=outcome.by_history)

    def note_unreadable(self) -> None:
        """Count a delivery that was no message."""
        with self._lock:
            self.counts["unreadable"] += 1
            self._statistics["unreadable"] += 1

    def note_refusals(self, number: int) -> None:
        """Count acknowledgements that the provider did not take."""
        with self._lock:
            self._statistics["refused"] += number

    def suspend(self, reason: str, *, by_history: bool = False, by_command: bool = False) -> None:
        """Stop receiving until :meth:`resume`; a command takes over what an error suspended."""
        with self._lock:
            if self._suspended is not None and (self._by_command or not by_command):
                return
            self._suspended, self._by_history, self._by_command = reason, by_history, by_command
            self.suspensions += 1
            if by_history:
                self.history_away = reason
            self._changed = time.monotonic()
        self._log_state("suspended", reason)

    def resume(self, *, by_command: bool = False) -> None:
        """Receive again; without ``by_command`` only what an error suspended."""
        with self._lock:
            if self._suspended is None or (self._by_command and not by_command):
                return
            if self._by_history:
                self.history_away = None
            self._suspended = None
            self._changed = time.monotonic()
        self._log_state("resumed")

    def disable(self, reason: str) -> None:
        """Leave the provider until :meth:`enable`."""
        with self._lock:
            if self._disabled is not None:
                return
            self._disabled, self._changed = reason, time.monotonic()
        self._log_state("disabled", reason)

    def enable(self) -> None:
        """Receive again, whatever had closed the gate."""
        with self._lock:
            if not self.closed:
                return
            self._disabled, self._suspended, self._changed = None, None, time.monotonic()
        self._log_state("enabled")

    def statistics(self) -> Counts:
        """Return what was counted since the start."""
        with self._lock:
            return Counts(**self._statistics)

    def report(self, consumer: str, *, obeyed: int, since: Counts, leaving: bool) -> Report:
        """Return what is to be reported of the trigger, with the counts since ``since``."""
        with self._lock:
            disabled = self._disabled is not None
            reason = self._disabled if disabled else self._suspended
            now, away = time.monotonic(), self._away
            return Report(
                consumer=consumer,
                trigger=self.trigger.name,
                state=self.state,
                reason=reason,
                by_command=disabled or (reason is not None and self._by_command),
                elapsed=now - self._changed,
                obeyed=obeyed,
                busy=len(self._begun),
                counts=Counts(**self._statistics) - since,
                away=away,
                away_for=0.0 if away is None else max(0.0, now - self._away_since),
                leaving=leaving,
            )

    def _log_state(self, became: str, reason: str | None = None) -> None:
        state = f"{became}: {reason}" if reason else became
        _log.warning("trigger %s is %s", self.trigger.name, state, extra={"trigger": self.trigger.name})


def _count(totals: Counter[str], outcome: Outcome) -> None:
    """Add what became of a message; in place, for it happens with every one."""
    if outcome.rejected:
        totals["rejected"] += 1
    elif outcome.status is not None:
        totals[outcome.status.value.lower()] += 1
    if not outcome.acknowledge:
        totals["recovered"] += 1
    if (outcome.executed or outcome.status is Status.NEW) and outcome.error is not None:
        totals["failed"] += 1
    if outcome.attempts:
        totals["runs"] += outcome.attempts
        totals["retried"] += outcome.attempts - 1
        totals["microseconds"] += round(outcome.seconds * 1_000_000)
