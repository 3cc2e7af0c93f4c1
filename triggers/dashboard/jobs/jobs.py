"""Decisions in progress, each in short turns, while pages show their progress."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Event, Lock, Thread

from history.beside.kept import KeepsBeside
from history.beside.parking import Parking
from history.bridge import drive
from history.store import CLAIM_BATCH
from history.store.decisions import DecisionKind, OperatorDecision
from history.store.parking import ParkedLabel
from history.support.paging import pieces_of
from history.support.rendering import exception_info, text_of
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.jobs.job import DecisionJob, Share
from triggers.dashboard.survey import Surveys
from triggers.operations.pacing import NOTICED, RunPace
from triggers.operations.running import BROKE_OFF, close_connections, run_row
from triggers.pipeline.parking.decisions import GONE, Outcomes, decide

_log = logging.getLogger(__name__)

#: How many turns run concurrently.
WORKERS = 4

#: After how many seconds a turn, which a service may make endless, no longer blocks others.
SLOW = 30.0

#: How many jobs are remembered.
REMEMBERED = 200

#: For how many seconds a job runs messages in a turn.
TURN = 1.0

#: How long a job that waits for its pace delays the others of its queue at most, in seconds.
STEP = 0.05

#: How long the present message of each job may take when the dashboard stops, in seconds.
ENDING = 60.0

STOPPED = "the dashboard was stopped: the others stay parked"


#: A share in progress: each ``next`` does the work of one turn, and returns how many seconds it rests then.
_Turns = Generator[float]

#: The trigger of some jobs, and whether they run messages: a service that hangs blocks no other job.
_Key = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class _Queue:
    """The jobs that take turns on one thread, and the event loop of that thread for coroutine functions."""

    turns: deque[_Turns] = field(default_factory=deque[_Turns])
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)


class Jobs:
    """Carries decisions out in separate threads: for each trigger one run at a time, and its jobs in turns.

    So a small job waits for a turn of a large job, not for its end. If a job is aborted for one trigger, it
    goes on for the others. Runs need ``triggers``, by name; ``history`` is the URL for triggers that name
    none. A service that hangs delays the runs of its trigger, and nothing else. ``store_of`` returns the
    store of a trigger, and ``lot_of`` the store in which its messages are parked.
    """

    def __init__(
        self,
        store_of: Callable[[str], KeepsBeside],
        lot_of: Callable[[str], KeepsBeside],
        surveyor: Surveys,
        triggers: dict[str, AnyTrigger],
        history: str,
    ) -> None:
        self._store_of, self._lot_of, self._surveyor = store_of, lot_of, surveyor
        self._triggers, self._history = triggers, history
        self._known: dict[str, DecisionJob] = {}
        self._queues: dict[_Key, _Queue] = {}
        self._lock = Lock()
        self._ending = Event()
        self._slots = Slots()
        self._threads: dict[_Key, Thread] = {}

    def start(
        self,
        decision: OperatorDecision,
        labels: Sequence[ParkedLabel],
        *,
        ended: Callable[[DecisionJob], None] | None = None,
        pace: RunPace | None = None,
    ) -> DecisionJob:
        """Begin to carry out a decision about messages; each trigger's messages are done in its turns.

        ``ended`` is called with the job after all of it has ended. ``pace`` limits its runs.
        """
        mine: dict[str, list[ParkedLabel]] = {}
        for label in labels:
            mine.setdefault(label.trigger_name, []).append(label)
        shares = [Share(name, len(some)) for name, some in mine.items()]
        job = DecisionJob(decision, shares, ended=ended, pace=pace)
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

    def find(self, key: str | None) -> DecisionJob | None:
        """Return a job by its key, if it is still remembered."""
        with self._lock:
            return self._known.get(key or "")

    def unfinished(self) -> Sequence[DecisionJob]:
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

    def _line_up(self, key: _Key, turns: _Turns) -> None:
        queue = self._queues.setdefault(key, _Queue())
        queue.turns.append(turns)
        if len(queue.turns) == 1:
            # Not a thread that Python waits for at its end: its service may hang.
            self._threads[key] = Thread(
                target=self._take_turns, args=(key, queue), name="decisions", daemon=True
            )
            self._threads[key].start()

    def _take_turns(self, key: _Key, queue: _Queue) -> None:
        """Run one turn of the first job of a queue, then put it behind the others, until all end."""
        jobs = queue.turns
        with queue.loop:
            while True:
                with self._slots.one():
                    rest = next(jobs[0], None)
                if rest is None and len(jobs) == 1:  # while this job is in the queue, no other thread begins
                    self._close_connections(key, queue.loop)
                with self._lock:
                    turns = jobs.popleft()
                    if rest is not None:
                        jobs.append(turns)
                    if not jobs:
                        del self._queues[key]
                        return
                    is_alone = len(jobs) == 1
                if rest:
                    self._ending.wait(rest if is_alone else min(rest, STEP))

    def _close_connections(self, key: _Key, loop: asyncio.Runner) -> None:
        trigger = self._triggers.get(key[0])
        if trigger is None or not key[1]:
            return
        try:
            close_connections(trigger, loop)
        except Exception as error:  # noqa: BLE001  (whatever a driver raises, the jobs have ended)
            redact = trigger.settings.redaction
            text = "the connections of trigger %s could not be closed: %s"
            _log.warning(text, trigger.name, text_of(error, redact))

    def _carry_out(
        self, job: DecisionJob, share: Share, labels: Sequence[ParkedLabel], decision: OperatorDecision
    ) -> _Turns:
        share.begun = True
        try:
            lot = self._lot_of(share.trigger).parking
            with _written(Outcomes(lot, decision)) as outcomes:
                for number, piece in enumerate(pieces_of(labels, CLAIM_BATCH)):
                    if self._ending.is_set():
                        share.error = STOPPED
                    if self._is_stopped(job):
                        return
                    step = decision.model_copy(update={"token": f"{decision.token}/{number}"})
                    if decision.kind is DecisionKind.RUN:
                        yield from self._run(job, share, piece, step, lot, outcomes)
                    else:
                        self._surveyor.take_out(self._settle(share, piece, step, lot))
                    yield 0.0
        except Exception as error:  # noqa: BLE001  (any error: the page says it, and the next job runs)
            trigger = self._triggers.get(share.trigger)
            redact = None if trigger is None else trigger.settings.redaction
            share.error = text_of(error, redact)
            info = exception_info(error, redact=redact)
            _log.warning("a decision about parked messages failed: %s", share.error, exc_info=info)
        finally:
            share.rest = labels[share.closed + share.left :]
            self._finish(job, share)

    def _finish(self, job: DecisionJob, share: Share) -> None:
        with self._lock:
            share.finished = True
            is_last = all(each.finished for each in job.shares)
        if is_last:
            if job.ended is not None:
                job.ended(job)
            job.finished.set()

    def _settle(
        self, share: Share, labels: Sequence[ParkedLabel], step: OperatorDecision, lot: Parking
    ) -> Sequence[ParkedLabel]:
        taken: list[ParkedLabel] = []
        store = self._store_of(share.trigger) if step.kind is DecisionKind.DONE else None
        for verdict in drive(decide(labels, step, lot=lot, store=store)):
            if verdict.left is None:
                share.close(1)
            else:
                share.leave(verdict.label, verdict.left)
            if verdict.left in {None, GONE}:
                taken.append(verdict.label)
        return taken

    def _is_stopped(self, job: DecisionJob) -> bool:
        return self._ending.is_set() or job.cancelled_by is not None

    def _run(
        self,
        job: DecisionJob,
        share: Share,
        labels: Sequence[ParkedLabel],
        step: OperatorDecision,
        lot: Parking,
        outcomes: Outcomes,
    ) -> _Turns:
        drive(decide(labels, step, lot=lot, store=None))
        waiting, taken, until = deque(labels), list[ParkedLabel](), time.monotonic() + TURN
        try:
            while waiting and not self._is_stopped(job):
                if (rest := 0.0 if job.pace is None else job.pace.take()) > 0:
                    yield min(rest, NOTICED)
                    continue
                label = waiting.popleft()
                if self._run_one(share, label, lot, outcomes):
                    taken.append(label)
                if time.monotonic() >= until:
                    self._surveyor.take_out(taken)
                    yield 0.0
                    taken, until = [], time.monotonic() + TURN
        finally:
            self._surveyor.take_out(taken)
            why = self._why_not_run(job)
            for label in waiting:
                drive(outcomes.add(label, f"not run: {why}", closed=False))

    def _why_not_run(self, job: DecisionJob) -> str:
        if job.cancelled_by is not None:
            return f"{job.cancelled_by} cancelled it"
        return "the dashboard was stopped" if self._ending.is_set() else BROKE_OFF

    def _run_one(self, share: Share, label: ParkedLabel, lot: Parking, outcomes: Outcomes) -> bool:
        """Run one message; return whether it is not parked any more."""
        trigger, loop = self._triggers[label.trigger_name], self._queues[share.trigger, True].loop
        row = run_row(lot, label, trigger, self._history, outcomes, loop=loop)
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


class Slots:
    """Room for :data:`WORKERS` concurrent turns, in the order of the requests.

    A turn that takes longer than :data:`SLOW` seconds loses its slot, and goes on beside the others.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting = deque[object]()
        self._begun: dict[object, float] = {}

    @contextmanager
    def one(self) -> Generator[None]:
        """Wait for a slot, and have it for a turn."""
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
