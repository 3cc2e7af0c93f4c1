"""Whether a trigger may receive: running, suspended or disabled; shared by all workers of one trigger."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from history.store.control import Counts, Report, TriggerState, Trouble, Verb
from history.support.rendering import told_of
from triggers.consumer.calls import Calls
from triggers.declaration.decorator import Trigger
from triggers.detection.suspension import Suspension, Terms, terms_of
from triggers.detection.table import Status
from triggers.metrics.counting import count, has_failed
from triggers.metrics.troubles import Begun, Failing, hanging, oldest
from triggers.pipeline.parking.lot import ParkingLot
from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)

#: How long the same cause of a complaint is not logged again, in seconds.
COMPLAINT_INTERVAL = 10.0

#: How many causes are remembered; the oldest is forgotten first.
MOST_CAUSES = 100
#: From which age on the log names a delivery that is still being worked on, in seconds.
LOGGED_AFTER = 60.0
#: How much of the error of a failed message is reported, in characters.
CAUSE_TEXT = 300


class Gate:
    """Suspends, resumes, disables and enables one trigger and counts its messages; safe between threads.

    :mod:`triggers.detection.suspension` says who resumes it. A fatal failure suspends the trigger in all
    consumers: ``word`` is the command that they have not received yet, and ``herald`` sends it.
    """

    def __init__(self, trigger: Trigger[..., Any], *, threads: bool = False) -> None:
        self.trigger = trigger
        #: Whether all workers are threads without an event loop.
        self._threads = threads
        self.counts: Counter[str] = Counter()
        #: How many of these messages were parked.
        self.parked = 0
        #: Grows with every suspension, so that a new suspension is not mistaken for an old one.
        self.suspensions = 0
        #: The log lines of the trigger's workers.
        self.complaints = Complaints()
        self._statistics: Counter[str] = Counter()
        self._lock = threading.Lock()
        #: The command and reason that all consumers of the trigger must receive; None after it was sent.
        self.word: tuple[Verb, str | None] | None = None
        #: Sends the command; None without a history through which to send it.
        self.herald: Callable[[], Awaitable[None]] | None = None
        self._suspended: str | None = None
        self._suspension: Suspension | None = None
        self._disabled: str | None = None
        #: The deliveries that are being worked on, and those of them that the log has named.
        self._begun: list[Begun] = []
        self._named: set[Begun] = set()
        self._failing = Failing()
        #: Where the trigger parks; None before its pipeline is made.
        self.lot: ParkingLot | None = None
        #: The present calls of the trigger's workers to its provider, and the looks at its history.
        self.provider_calls, self.history_calls = Calls(), Calls()
        self._history_away: str | None = None
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
        """How many seconds the oldest of them has taken so far; 0 without deliveries."""
        with self._lock:
            return oldest(self._begun).age if self._begun else 0.0

    @property
    def not_parked(self) -> int:
        """How often a message could be parked nowhere, since the start."""
        return 0 if self.lot is None else self.lot.refusals

    @property
    def parked_locally(self) -> int:
        """How many messages of the trigger are parked in this machine's file."""
        return 0 if self.lot is None else self.lot.kept_locally

    @property
    def away(self) -> str | None:
        """The provider's last failure in a worker's call, or that it is silent; None after it answered."""
        return self._away or _silence(self.provider_calls)

    @away.setter
    def away(self, cause: str | None) -> None:
        if cause is not None and self._away is None:
            self._away_since = time.monotonic()
        self._away = cause

    @property
    def history_away(self) -> str | None:
        """The last failure of the history, or that it is silent; None after it answered."""
        return self._history_away or _silence(self.history_calls)

    @history_away.setter
    def history_away(self, cause: str | None) -> None:
        self._history_away = cause

    @property
    def needs_history(self) -> bool:
        """Whether nothing runs while the history is unavailable."""
        return self.trigger.settings.policy.on_history_error == "suspend"

    @property
    def suspended(self) -> str | None:
        """Why the trigger is suspended; None if it is not."""
        return self._suspended

    @property
    def suspension(self) -> Suspension | None:
        """In which way the trigger is suspended; None if it is not."""
        return self._suspension

    @property
    def terms(self) -> Terms | None:
        """The terms of the suspension: who resumes the trigger, and the cost; None if it is not suspended."""
        return None if self._suspension is None else self._terms_of(self._suspension)

    @property
    def wakes(self) -> bool:
        """Whether the suspension ends when its cause has passed, and not only when a person ends it."""
        terms = self.terms
        return terms is not None and not terms.needs_person and self._disabled is None

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

    def enter(self) -> Begun | None:
        """Begin a delivery; return the argument for :meth:`leave`, or None while it is closed."""
        with self._lock:
            if self.closed:
                return None
            begun = Begun.in_thread() if self._threads else Begun.now()
            self._begun.append(begun)
            return begun

    def leave(self, begun: Begun) -> None:
        """End a delivery."""
        with self._lock:
            self._begun.remove(begun)
            self._named.discard(begun)

    def name_long_calls(self) -> None:
        """Log once each delivery that takes longer than :data:`LOGGED_AFTER`, and the line that it is at."""
        with self._lock:
            late = [one for one in self._begun if one.age > LOGGED_AFTER and one not in self._named]
            self._named.update(late)
        for one in late:
            text = "trigger %s has worked on one message for %.0f s: it is in %s"
            _log.warning(text, self.name, one.age, one.where(), extra={"trigger": self.name})

    def note(self, outcome: Outcome) -> None:
        """Count an outcome, and suspend the trigger if it says so."""
        with self._lock:
            failed = has_failed(outcome)
            self.counts[outcome.kind] += 1
            self.parked += outcome.parked
            count(self._statistics, outcome, failed=failed)
            if outcome.attempts or failed:
                self._failing.note(self._cause_of(outcome) if failed else None)
            is_held = self._suspension is Suspension.FATAL
        if outcome.suspension is not None:
            self.suspend(outcome.reason, outcome.suspension)
            if outcome.suspension is Suspension.FATAL and not is_held:
                self.word = (Verb.HOLD, outcome.reason)

    def note_all(self, outcomes: Sequence[Outcome]) -> int:
        """Count the outcomes of one delivery, and return how many messages were new and have succeeded."""
        number, seconds = 0, 0.0
        others: list[Outcome] = []
        for outcome in outcomes:
            if _is_usual(outcome):
                number += 1
                seconds += outcome.seconds
            else:
                others.append(outcome)
        if number:
            self._note_usual(number, seconds)
        for outcome in others:
            self.note(outcome)
        return number

    def _note_usual(self, number: int, seconds: float) -> None:
        totals = self._statistics
        with self._lock:
            self.counts["ok"] += number
            totals["new"] += number
            totals["runs"] += number
            totals["microseconds"] += round(seconds * 1_000_000)
            self._failing.note(None, runs=number)

    def note_unreadable(self) -> None:
        """Count a delivery that was not a message. The pipeline has parked it."""
        with self._lock:
            self.counts["unreadable"] += 1
            self.parked += 1
            self._statistics["unreadable"] += 1

    def note_refusals(self, number: int) -> None:
        """Count acknowledgements that the provider refused."""
        with self._lock:
            self._statistics["refused"] += number

    async def hold(self, reason: str) -> None:
        """Suspend the trigger in all its consumers until a person resumes it.

        Called before the end of the failed message is recorded: if the process dies after that, nothing else
        would keep the messages behind it from running.
        """
        self.suspend(reason, Suspension.FATAL)
        self.word = (Verb.HOLD, reason)
        if self.herald is not None:
            await self.herald()

    def suspend(self, reason: str, kind: Suspension) -> None:
        """Stop receiving until :meth:`resume`; a kind that outranks the present one replaces it."""
        with self._lock:
            before = self._suspension
            if before is not None and not kind.outranks(before):
                return
            self._suspended, self._suspension = reason, kind
            self.suspensions += 1
            if kind is Suspension.HISTORY:
                self.history_away = reason
            self._changed = time.monotonic()
        self._log_state("suspended", reason)

    def resume(self, *, by_command: bool = False) -> None:
        """Receive again; without ``by_command`` only if the suspension needs no person."""
        with self._lock:
            if by_command:
                self.word = None
            kind = self._suspension
            if kind is None or (self._terms_of(kind).needs_person and not by_command):
                return
            if kind is Suspension.HISTORY:
                self.history_away = None
            self._suspended = self._suspension = None
            self._changed = time.monotonic()
        self._log_state("resumed")

    def disable(self, reason: str) -> None:
        """Disconnect from the provider until :meth:`enable`."""
        with self._lock:
            if self._disabled is not None:
                return
            self._disabled, self._changed = reason, time.monotonic()
        self._log_state("disabled", reason)

    def enable(self) -> None:
        """Receive again, whatever had closed the gate."""
        with self._lock:
            self.word = None
            if not self.closed:
                return
            self._disabled = self._suspended = self._suspension = None
            self._changed = time.monotonic()
        self._log_state("enabled")

    def statistics(self) -> Counts:
        """Return the counts since the start."""
        with self._lock:
            return Counts(**self._statistics)

    def report(self, consumer: str, *, obeyed: int, since: Counts, leaving: bool) -> Report:
        """Return the trigger's report, with the counts since ``since``."""
        with self._lock:
            disabled = self._disabled is not None
            reason = self._disabled if disabled else self._suspended
            now, away = time.monotonic(), self.away
            away_for = now - self._away_since if self._away else self.provider_calls.silent_for or 0.0
            return Report(
                consumer=consumer,
                trigger=self.trigger.name,
                state=self.state,
                reason=reason,
                by_command=disabled or self._suspension is Suspension.COMMAND,
                elapsed=now - self._changed,
                obeyed=obeyed,
                busy=len(self._begun),
                counts=Counts(**self._statistics) - since,
                away=away,
                away_for=0.0 if away is None else max(0.0, away_for),
                troubles=tuple(self._troubles()),
                leaving=leaving,
            )

    def _troubles(self) -> Iterator[Trouble]:
        for found in (self._failing.trouble(), hanging(self._begun, Counts(**self._statistics))):
            if found is not None:
                yield found
        if self.lot is not None:
            yield from self.lot.troubles()

    def _cause_of(self, outcome: Outcome) -> str:
        error = outcome.error
        text = outcome.reason if error is None else told_of(error, self.trigger.settings.redaction)
        return text[:CAUSE_TEXT]

    def _terms_of(self, kind: Suspension) -> Terms:
        settings = self.trigger.settings
        return terms_of(kind, monitor=settings.monitor is not None, transacted=settings.policy.transacted)

    def _log_state(self, became: str, reason: str | None = None) -> None:
        state = f"{became}: {reason}" if reason else became
        _log.warning("trigger %s is %s", self.trigger.name, state, extra={"trigger": self.trigger.name})


def _silence(calls: Calls) -> str | None:
    """Return that a server is silent; None if it is not."""
    silent = calls.silent_for
    return None if silent is None else f"no answer for {silent:.0f} s"


def _is_usual(outcome: Outcome) -> bool:
    """Whether a message was new, and its service has succeeded at the first attempt."""
    return (
        outcome.attempts == 1
        and outcome.status is Status.NEW
        and outcome.error is None
        and outcome.acknowledge
        and outcome.join is None
        and outcome.suspension is None
        and not (outcome.parked or outcome.rejected)
    )


@dataclass(slots=True)
class _Said:
    at: float
    unsaid: int = 0


@dataclass(slots=True)
class Complaints:
    """Warns immediately of a new cause, and once in an interval while it goes on; safe between threads."""

    clock: Callable[[], float] = time.monotonic
    _said: dict[str, _Said] = field(default_factory=dict[str, _Said])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def warn(self, log: logging.Logger, cause: str, text: str, extra: Mapping[str, object]) -> None:
        """Log a warning, unless the same cause was logged just now; then it is counted."""
        unsaid = self._note(cause)
        if unsaid is None:
            return
        more = f" (and {unsaid} times more in between)" if unsaid else ""
        log.warning("%s%s", text, more, extra=extra)

    def _note(self, cause: str) -> int | None:
        """Return how often a cause was left out since its last line, if it is to be logged now."""
        with self._lock:
            now, said = self.clock(), self._said.get(cause)
            if said is not None and now < said.at + COMPLAINT_INTERVAL:
                said.unsaid += 1
                return None
            self._said.pop(cause, None)
            self._said[cause] = _Said(now)
            if len(self._said) > MOST_CAUSES:
                del self._said[next(iter(self._said))]
            return said.unsaid if said is not None else 0
