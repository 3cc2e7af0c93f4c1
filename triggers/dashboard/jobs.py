"""Decisions in progress, each in short turns, while pages show their progress."""

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from threading import Condition, Event, Lock, Thread

from history.bridge import drive
from history.store import CLAIM_BATCH, HistoryStore
from history.store.decisions import DecisionKind, OperatorDecision
from history.store.parking import ParkedLabel
from history.support.rendering import exception_info, text_of
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.survey import Surveys
from triggers.operations.running import BROKE_OFF, run_row
from triggers.pipeline.parking.decisions import GONE, Outcomes, decide

_log = logging.getLogger(__name__)

#: How many jobs are remembered, and how many of the messages that a job leaves parked are named.
REMEMBERED, NAMED = 200, 50

#: How many turns run concurrently, and for how many seconds a job runs messages in a turn.
WORKERS, TURN = 4, 1.0

#: After how many seconds a turn, which a service may make endless, no longer blocks others.
SLOW = 30.0

#: How long the present message of each job may take when the dashboard stops, in seconds.
ENDING = 60.0

STOPPED = "the dashboard was stopped: the others stay parked"


@dataclass(slots=True)
class Share:
    """The work of a job on ``total`` messages of one trigger: how many are closed, why others stay parked.

    ``error`` is the reason of an abort; the remaining messages stay parked then.
    """

    trigger: str
    total: int
    begun: bool = False
    closed: int = 0
    left: int = 0
    why_left: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    error: str | None = None
    finished: bool = False

    def close(self, count: int) -> None:
        """Count messages that are not parked any more."""
        self.closed += count

    def leave(self, label: ParkedLabel, why: str) -> None:
        """Count a message that stays parked."""
        self.left += 1
        if len(self.why_left) < NAMED:
            self.why_left.append((label.uuid or label.id, why))


@dataclass(slots=True)
class Job:
    """One decision, and the share of each trigger in it."""

    decision: OperatorDecision
    shares: Sequence[Share]
    key: str = field(default_factory=lambda: token_hex(8))
    finished: Event = field(default_factory=Event)
    #: Called after all of it has ended.
    ended: Callable[["Job"], None] | None = None

    @property
    def triggers(self) -> Sequence[str]:
        """The triggers of its messages."""
        return [share.trigger for share in self.shares]

    @property
    def total(self) -> int:
        """How many messages it has."""
        return sum(share.total for share in self.shares)

    @property
    def closed(self) -> int:
        """How many of them are not parked any more."""
        return sum(share.closed for share in self.shares)

    @property
    def left(self) -> int:
        """How many of them stay parked."""
        return sum(share.left for share in self.shares)

    @property
    def begun(self) -> bool:
        """Whether it has had a turn."""
        return any(share.begun for share in self.shares)

    @property
    def error(self) -> str | None:
        """Why it was aborted, for at least one of its triggers."""
        return next((share.error for share in self.shares if share.error is not None), None)


#: A share in progress: each ``next`` does the work of one turn.
_Turns = Generator[None]

#: The trigger of some jobs, and whether they run messages: a service that hangs blocks no other job.
_Queue = tuple[str, bool]


class _Slots:
    """Room for :data:`WORKERS` concurrent turns, in the order of the requests.

    A turn that takes longer than :data:`SLOW` seconds loses its slot, and goes on beside the others.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting = deque[object]()
        self._begun: dict[object, float] = {}

    @contextmanager
    def one(self) -> Generator[None]:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while self._waiting[0] is not ticket or self._taken() >= WORKERS:
                self._changed.wait(SLOW)
            self._waiting.popleft()
            self._begun[ticket] = time.monotonic()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                del self._begun[ticket]
                self._changed.notify_all()

    def _taken(self) -> int:
        slow = time.monotonic() - SLOW
        return sum(begun > slow for begun in self._begun.values())


class Jobs:
    """Carries decisions out in separate threads: for each trigger one run at a time, and its jobs in turns.

    So a small job waits for a turn of a large job, not for its end. If a job is aborted for one trigger, it
    goes on for the others. Runs need ``triggers``, by name; ``history`` is the URL for triggers that name
    none. A service that hangs delays the runs of its trigger, and nothing else. ``store_of`` returns the
    store of a trigger.
    """

    def __init__(
        self,
        store_of: Callable[[str], HistoryStore],
        surveyor: Surveys,
        triggers: dict[str, AnyTrigger],
        history: str,
    ) -> None:
        self._store_of, self._surveyor = store_of, surveyor
        self._triggers, self._history = triggers, history
        self._known: dict[str, Job] = {}
        self._queues: dict[_Queue, deque[_Turns]] = {}
        self._lock = Lock()
        self._ending = Event()
        self._slots = _Slots()
        self._threads: dict[_Queue, Thread] = {}

    def start(
        self,
        decision: OperatorDecision,
        labels: Sequence[ParkedLabel],
        *,
        ended: Callable[[Job], None] | None = None,
    ) -> Job:
        """Begin to carry out a decision about messages; each trigger's messages are done in its turns.

        ``ended`` is called with the job after all of it has ended.
        """
        mine: dict[str, list[ParkedLabel]] = {}
        for label in labels:
            mine.setdefault(label.trigger_name, []).append(label)
        job = Job(decision, [Share(name, len(some)) for name, some in mine.items()], ended=ended)
        with self._lock:
            self._known[job.key] = job
            while len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
            runs = decision.kind is DecisionKind.RUN
            for number, share in enumerate(job.shares):
                # A store carries a token out once, whatever the trigger: so each share has a separate token.
                # The audit trail joins the steps of one decision by the part before the first "/".
                own = decision.model_copy(update={"token": f"{decision.token}/{number}"})
                self._line_up((share.trigger, runs), self._carry_out(job, share, mine[share.trigger], own))
        return job

    def find(self, key: str | None) -> Job | None:
        """Return a job by its key, if it is still remembered."""
        with self._lock:
            return self._known.get(key or "")

    def unfinished(self) -> Sequence[Job]:
        """Return the jobs that are in progress, or wait for their turn."""
        with self._lock:
            return [job for job in self._known.values() if not job.finished.is_set()]

    def close(self) -> None:
        """Finish the present message, if it ends within :data:`ENDING` seconds.

        Messages that have not had their turn stay parked.
        """
        with self._lock:
            self._ending.set()
            threads = list(self._threads.values())
        until = time.monotonic() + ENDING
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if hung := sum(thread.is_alive() for thread in threads):
            _log.warning("%d runs of parked messages did not end: they are In Doubt", hung)

    def _line_up(self, key: _Queue, turns: _Turns) -> None:
        queue = self._queues.setdefault(key, deque())
        queue.append(turns)
        if len(queue) == 1:
            # Not a thread that Python waits for at its end: its service may hang.
            self._threads[key] = Thread(
                target=self._take_turns, args=(key, queue), name="decisions", daemon=True
            )
            self._threads[key].start()

    def _take_turns(self, key: _Queue, queue: deque[_Turns]) -> None:
        """Run one turn of the first job of a queue, then put it behind the others, until all end."""
        while True:
            with self._slots.one():
                is_over = next(queue[0], self) is self
            with self._lock:
                turns = queue.popleft()
                if not is_over:
                    queue.append(turns)
                if not queue:
                    del self._queues[key]
                    return

    def _carry_out(
        self, job: Job, share: Share, labels: Sequence[ParkedLabel], decision: OperatorDecision
    ) -> _Turns:
        share.begun = True
        try:
            store = self._store_of(share.trigger)
            with _written(Outcomes(store.parking, decision)) as outcomes:
                for number, piece in enumerate(_pieces(labels)):
                    if self._ending.is_set():
                        share.error = STOPPED
                        return
                    step = decision.model_copy(update={"token": f"{decision.token}/{number}"})
                    if decision.kind is DecisionKind.RUN:
                        yield from self._run(share, piece, step, store, outcomes)
                    else:
                        self._surveyor.take_out(self._settle(share, piece, step, store))
                    yield
        except Exception as error:  # noqa: BLE001  (any error: the page says it, and the next job runs)
            trigger = self._triggers.get(share.trigger)
            redact = None if trigger is None else trigger.settings.redaction
            share.error = text_of(error, redact)
            info = exception_info(error, redact=redact)
            _log.warning("a decision about parked messages failed: %s", share.error, exc_info=info)
        finally:
            self._finish(job, share)

    def _finish(self, job: Job, share: Share) -> None:
        with self._lock:
            share.finished = True
            is_last = all(one.finished for one in job.shares)
        if is_last:
            if job.ended is not None:
                job.ended(job)
            job.finished.set()

    def _settle(
        self, share: Share, labels: Sequence[ParkedLabel], step: OperatorDecision, store: HistoryStore
    ) -> Sequence[ParkedLabel]:
        taken: list[ParkedLabel] = []
        for verdict in drive(decide(labels, step, lot=store.parking, store=store)):
            if verdict.left is None:
                share.close(1)
            else:
                share.leave(verdict.label, verdict.left)
            if verdict.left in {None, GONE}:
                taken.append(verdict.label)
        return taken

    def _run(
        self,
        share: Share,
        labels: Sequence[ParkedLabel],
        step: OperatorDecision,
        store: HistoryStore,
        outcomes: Outcomes,
    ) -> _Turns:
        drive(decide(labels, step, lot=store.parking, store=None))
        waiting, taken, until = deque(labels), list[ParkedLabel](), time.monotonic() + TURN
        try:
            while waiting and not self._ending.is_set():
                label = waiting.popleft()
                if self._run_one(share, label, store, outcomes):
                    taken.append(label)
                if time.monotonic() >= until:
                    self._surveyor.take_out(taken)
                    yield
                    taken, until = [], time.monotonic() + TURN
        finally:
            self._surveyor.take_out(taken)
            why = "the dashboard was stopped" if self._ending.is_set() else BROKE_OFF
            for label in waiting:
                drive(outcomes.add(label, f"not run: {why}", closed=False))

    def _run_one(self, share: Share, label: ParkedLabel, store: HistoryStore, outcomes: Outcomes) -> bool:
        """Run one message; return whether it is not parked any more."""
        trigger = self._triggers[label.trigger_name]
        row = run_row(store.parking, label, trigger, self._history, outcomes)
        if row["closed"]:
            share.close(1)
        else:
            share.leave(label, ": ".join(filter(None, [row["reason"], row["error"]])))
        return bool(row["closed"])


@contextmanager
def _written(outcomes: Outcomes) -> Generator[Outcomes]:
    """Write all outcomes at the end."""
    try:
        yield outcomes
    finally:
        drive(outcomes.write())


def _pieces(labels: Sequence[ParkedLabel]) -> Iterator[Sequence[ParkedLabel]]:
    for start in range(0, len(labels), CLAIM_BATCH):
        yield labels[start : start + CLAIM_BATCH]
