"""The state of one message in the pipeline, and its reports: parked copy, event, outcome."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from history.beside.fingerprints import NO_FENCE
from history.entry import Entry, Fence
from history.message import UNDEFINED_COUNT, Message
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from history.support.redaction import Redaction
from history.support.rendering import class_of, in_log, in_one_line, text_of, told_of, trace_of
from history.support.user_code import is_failure
from triggers.detection.aftermath import Aftermath
from triggers.detection.causes import Cause
from triggers.detection.sentences import explain_run, explain_verdict, in_row, without_place
from triggers.detection.table import Count, Decision, Facts, Found, HistoryUse, Word
from triggers.events import RetrievalFailureEvent
from triggers.pipeline.end import End
from triggers.pipeline.finding import NOT_ASKED, UNREACHABLE, Finding, found_in
from triggers.service.failures import own_error
from triggers.service.identity import Identify
from triggers.service.keeping import FailedBeforeError, Failure
from triggers.service.outcome import Outcome
from triggers.service.places import place_of

if TYPE_CHECKING:
    from triggers.service.binding import Binding

#: The shortest and the longest pause before the next look at a copy while its first run is still alive.
#: Brokers do not let a consumer keep a delivery for ever: RabbitMQ by default half an hour.
SHORTEST_RECOVER_DELAY, LONGEST_RECOVER_DELAY = timedelta(milliseconds=100), timedelta(minutes=10)

#: The pause is this share of the time that a long run has already taken, so that deliveries become rare. It
#: grows if few deliveries are left before ``max_delivery_count``.
SHARE_OF_RUN, DELIVERIES_TO_SPARE = 0.5, 8

#: Modules that call a service: their frames at the beginning of a traceback are left out.
MACHINERY = ("triggers.", "history.", "resolvers.", "tenacity", "concurrent.", "asyncio.")

#: How a note begins that holds the resolver's reason.
RESOLVER_SAYS = "resolver: "

#: The verdict on a message that came after its expiration.
EXPIRED = "it has expired"

#: The pause before a delivery that could not be parked is delivered again.
UNPARKED_DELAY = timedelta(seconds=5)


@dataclass(slots=True, eq=False)
class Run:
    """The state of one message between claim and answer. The pipeline and the keeper of its lease write it.

    The finding is one part and the end of the service another; each is replaced as a whole.
    """

    message: Message
    finding: Finding
    silenced: frozenset[Cause] = frozenset()
    #: Removes values from texts that come from user code; None if nothing does.
    redact: Redaction | None = None
    #: The service of a route; None for the trigger's own.
    binding: "Binding | None" = None
    #: Why the message never reached the table.
    verdict: str | None = None
    #: The fingerprint of its body and when it was stored (monotonic clock), if bodies are compared.
    compared: tuple[bytes, float] | None = None
    #: Why it has no identity, if its trigger reads one.
    unidentified: BaseException | None = None
    #: The failure before the service could run: of the history, the resolver or a filter.
    problem: BaseException | None = None
    decision: Decision | None = None
    #: How long the provider should keep a message that is recovered.
    patience: timedelta = timedelta(0)
    attempts: int = 0
    seconds: float = 0.0
    #: Whether its consumer stops, so that a failed run is not tried again here.
    stopped: bool = False
    #: What the service raised in a transaction, which may then not be undone, or not commit.
    raised: BaseException | None = None
    #: None until the service has ended, and if it did not run.
    end: End | None = None
    notes: tuple[str, ...] = ()
    join: str | None = None
    acknowledge: bool = True
    #: Whether a place took its parked copy; None if nobody has tried to park it.
    parked: bool | None = None
    #: For a duplicate: what the first run returned, in a tuple; None if that is not known.
    kept: tuple[Any] | None = None
    #: How the run failed that completed its entry, if that is known.
    failed_before: Failure | None = None
    event: RetrievalFailureEvent | None = None
    #: Until when its lease lasts, as far as known, by the monotonic clock; 0 without one.
    alive_until: float = 0.0
    #: The owner of the entry, after this run is known to have lost it.
    taken_by: str | None = None
    _traced: tuple[BaseException, str | None] | None = None

    @property
    def found(self) -> Entry | None:
        """The entry that existed before this run."""
        return self.finding.found

    @property
    def fence(self) -> Fence | None:
        """The fence of the present entry."""
        return self.finding.fence

    @property
    def owner(self) -> str | None:
        """The token under which this run has claimed its entry."""
        return self.finding.owner

    @property
    def history(self) -> HistoryUse:
        """Whether the document history took part."""
        return self.finding.history

    @property
    def aftermath(self) -> Aftermath | None:
        """The table's answer to the end; None without an end."""
        return None if self.end is None else self.end.aftermath

    @property
    def error(self) -> BaseException | None:
        """The error that the service raised, or that kept it from running."""
        return self.problem if self.end is None else self.end.error

    @property
    def failure(self) -> Failure | None:
        """What is told of this run's error, or else of the run that completed its entry."""
        error = self.error
        if error is None:
            return self.failed_before
        place = place_of(error, without=MACHINERY)
        return Failure(class_of(error), self.text_of(error), self.trace, place)

    @property
    def claimed(self) -> bool:
        """Whether this run has ended, and its end is to be recorded in its own entry."""
        return self.end is not None and self.finding.recorded

    @property
    def holds(self) -> bool:
        """Whether this run owns a STARTED entry and did not execute: the entry is to be released."""
        return self.end is None and self.finding.found is None and self.finding.recorded

    @property
    def never_began(self) -> bool:
        """Whether this run owns a STARTED entry, and its service was never called."""
        if self.end is not None or self.attempts or not self.finding.recorded:
            return False
        return self.finding.found is None or (self.decision is not None and self.decision.runs)

    def note(self, text: str) -> None:
        """Add a text to the reason, in one line; texts from user code in it are already redacted."""
        self.notes += (in_one_line(text),)

    def redacted(self, text: str) -> str:
        """Return a text from user code as it may be shown."""
        return text if self.redact is None else self.redact(text)

    def text_of(self, error: BaseException) -> str:
        """Return the text of an exception as it may be shown."""
        return text_of(error, self.redact)

    def told_of(self, error: BaseException) -> str:
        """Return the class and the text of an exception as a log line may show them."""
        return in_one_line(told_of(error, self.redact))

    def identify(self, read: Identify) -> None:
        """Set the identity that the trigger reads from the message, or note that it has none."""
        try:
            self.message = self.message.known_by(read(self.message))
        except BaseException as error:
            if not is_failure(error):
                raise
            self.unidentified = own_error(error)
            self.message = self.message.known_by(None)

    def begin_anew(self) -> None:
        """Forget what was found, to ask the history once more."""
        self.finding, self.problem, self.notes = NOT_ASKED, None, ()

    def start_over(self) -> None:
        """Forget everything except the message: the transaction that it shared was not committed."""
        self.begin_anew()
        self.decision, self.end, self.attempts, self.seconds = None, None, 0, 0.0
        self.patience, self.stopped, self.taken_by, self.raised = timedelta(0), False, None, None

    @property
    def is_unlike(self) -> bool:
        """Whether its body is not known to be the first body under its uuid."""
        return (
            self.finding.instead is Found.OTHER_BODY
            or self.unidentified is not None
            or self.finding.history is HistoryUse.UNREACHABLE
        )

    @property
    def is_kept(self) -> bool:
        """Whether nothing is left to do before its entry may be settled."""
        return self.parked is True or not self.parks

    @property
    def parks(self) -> bool:
        """Whether the table orders to park the message."""
        after = self.aftermath
        return (self.decision is not None and self.decision.park) if after is None else after.park

    @property
    def raises_event(self) -> bool:
        """Whether the table orders the event, and the settings allow it.

        The event of a row is raised whatever the service did afterwards.
        """
        return self._cause() is not None

    def facts(self, count: Count, word: Word) -> Facts:
        """Return what is known, in the table's terms."""
        finding = self.finding
        history = finding.instead or found_in(finding.found)
        if self.unidentified is not None:  # without an identity, no duplicate of it can be detected
            return _facts(count, False, HistoryUse.ON, history, word)  # noqa: FBT003
        return _facts(count, self.message.uuid is not None, finding.history, history, word)

    def evidence(self) -> Evidence:
        """Return what is known of an earlier run; the fence is the fence of the present entry."""
        entry = self.found
        if self.finding.instead is Found.OTHER_BODY:
            return Evidence(delivery_count=self.message.delivery_count, fence=NO_FENCE)
        return Evidence(
            delivery_count=self.message.delivery_count,
            owner=None if entry is None else entry.owner,
            started_at=None if entry is None else entry.started_at,
            fence=entry.fence if self.fence is None and entry is not None else self.fence,
        )

    @property
    def trace(self) -> str | None:
        """The traceback of the error, with limited length; None if it did not come from user code."""
        if self.error is None:
            return None
        if self._traced is None or self._traced[0] is not self.error:
            self._traced = (self.error, trace_of(self.error, without=MACHINERY, redact=self.redact))
        return self._traced[1]

    @property
    def reason(self) -> str:
        """The reason in one sentence: what is known, the resolver's answer, the end of the run, the row."""
        decision, end = self.decision, self.end
        if self.verdict is not None or decision is None:
            return "; ".join([self.verdict or "it was not judged", *self.notes])
        after = None if end is None else end.aftermath
        if not self.notes and self.parked is not False:
            return _usual_reason(decision, after)
        words = _in_words(decision, after)
        if self.parked is False:
            words = without_place(words)
        return in_row("; ".join([words, *self.notes]), decision.row)

    @property
    def named(self) -> str:
        """Its name in log lines: its identity, or another value if there is none."""
        return in_log(self.message.uuid or self.message.message_id or "a message without identity")

    def copy(self, trigger: str) -> Parked:
        """Return the copy to park."""
        rejected = (
            self.decision is not None and self.decision.rejected
            if self.end is None
            else self.end.error is not None
        )
        error_class, error_message, error_trace, error_place = self.failure or (None, None, None, None)
        return Parked(
            id=self._parked_id(trigger),
            trigger_name=trigger,
            kind=ParkedKind.REJECTED if rejected else ParkedKind.IN_DOUBT,
            reason=self.reason,
            uuid=self.message.uuid,
            destination=self.message.destination,
            message=self.message,
            evidence=self.evidence(),
            error_class=error_class,
            error_message=error_message,
            error_trace=error_trace,
            error_place=error_place,
        )

    def _parked_id(self, trigger: str) -> str:
        # Two messages without an identity may be equal but distinct: each gets its own id.
        return parked_id(trigger, self.message, delivery="" if self.message.uuid else uuid4().hex)

    def make_event(self, trigger: str, destination: str, index: int = 0) -> RetrievalFailureEvent:
        """Return the event that reports that this message is given up."""
        error_class, error_message, *_ = self.failure or (None, None)
        return RetrievalFailureEvent(
            trigger_name=trigger,
            destination=destination,
            destination_index=index,
            delivery_count=self.message.delivery_count,
            exception_class=error_class,
            exception_message=error_message,
            cause=self._cause() or Cause.SERVICE_FAILED,
            message=self.message.copied(),
        )

    def _cause(self) -> Cause | None:
        """Return why the message is given up: the service's end before the row, unless it is silenced."""
        after, decision = self.aftermath, self.decision
        for cause in (None if after is None else after.cause, None if decision is None else decision.cause):
            if cause is not None and cause not in self.silenced:
                return cause
        return None

    def outcome(self) -> Outcome:
        """Return the result of the message."""
        decision, end = self.decision, self.end
        assert decision is not None  # noqa: S101  (every run is judged before it is answered)
        before = self.failed_before
        # By position: with names it takes twice as long, and every message makes one.
        return Outcome(
            decision.status,
            self.attempts > 0,
            self.acknowledge,
            self.reason,
            decision.row,
            decision.rejected,
            decision.suspension if end is None else end.suspension or decision.suspension,
            self.parked is True,
            0.0 if self.acknowledge else self._delay().total_seconds(),
            (self.kept and self.kept[0]) if end is None else end.result,
            self.error if before is None else FailedBeforeError(before.error_class, before.error_message),
            self.event,
            self.message.uuid,
            self.attempts,
            self.seconds,
            self.join,
            self.verdict is EXPIRED,
            None,  # a shadow says it
            self.kept is not None,
        )

    def _delay(self) -> timedelta:
        """Return how long the provider should keep a recovered message."""
        if self.parks and not self.parked:
            return UNPARKED_DELAY
        return self.patience

    def became_unreachable(self, error: Exception) -> None:
        """Note that the history did not answer, so that nothing is known about the message."""
        self.finding, self.problem, self.end = UNREACHABLE, error, None


def patience_with(
    entry: Entry | None, delivery_count: int, *, limit: int, lease: timedelta | None
) -> timedelta:
    """Return how long to wait for a run that is alive elsewhere, for example the first run of this message.

    That is until its lease ends: then the run has died, or the lease was renewed. Each look is a delivery,
    and a copy that waits must not be given up because it was delivered too often. So after the lease was
    renewed more than once, the pauses grow: with 100 deliveries and the usual lease, copies wait for half a
    day, with 5 deliveries for a quarter of an hour.
    """
    if entry is None:
        return SHORTEST_RECOVER_DELAY
    lease_left = timedelta(0) if entry.lease_until is None else entry.lease_until - entry.read_at
    share = SHARE_OF_RUN
    if delivery_count != UNDEFINED_COUNT:
        share = max(share, DELIVERIES_TO_SPARE / max(limit - delivery_count, 1))
    long_since = entry.read_at - entry.started_at - 2 * (lease or timedelta(0))
    return min(max(lease_left, long_since * share, SHORTEST_RECOVER_DELAY), LONGEST_RECOVER_DELAY)


def _in_words(decision: Decision, after: Aftermath | None) -> str:
    return explain_verdict(decision) if after is None else explain_run(decision, after)


# Of nearly every message.
@cache
def _usual_reason(decision: Decision, after: Aftermath | None) -> str:
    return in_row(_in_words(decision, after), decision.row)


@cache
def _facts(count: Count, identified: bool, history: HistoryUse, state_found: Found, word: Word) -> Facts:  # noqa: FBT001
    return Facts(count=count, identified=identified, history=history, found=state_found, word=word)
