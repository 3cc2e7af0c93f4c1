"""One run of a script: workers, their deaths, redeliveries, and the result."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

from history.bridge import drive
from history.message import Message
from history.shell import Shell
from history.store.parking import Parked
from triggers.pipeline.atomic import Transactions
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.parking.lot import ParkingLot
from triggers.pipeline.pipeline import MessagePipeline
from triggers.providers.provider import AT_ONCE, Arrival, Received, Receiver
from triggers.service.outcome import Outcome
from triggers.testing.simulator.process_memory import ProcessMemory
from triggers.testing.simulator.script import Fault, FaultScript, Point, traced
from triggers.testing.simulator.store import (
    MUCH_LATER,
    Copy,
    Queue,
    SimulatedHistory,
    SimulatedLeases,
    SimulatedParking,
    SimulatedShell,
    SimulatedTransactions,
)
from triggers.testing.simulator.subject import STUCK, StuckError, Subject

#: How many deliveries a run has at most; a message that is not acknowledged then is unfinished.
MOST_DELIVERIES = 60

#: The time at which every run begins.
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class SimulatedDeath(BaseException):
    """The process has died: nothing of it runs any more, and no handler may catch this."""


class SimulatedInterrupt(KeyboardInterrupt):
    """Somebody pressed Ctrl-C."""


@dataclass(slots=True)
class Delivered:
    """One delivery of a run: its message, what went wrong meanwhile, and the result."""

    index: int
    count: int
    elapsed: timedelta
    outcome: Outcome | None = None
    faults: list[str] = field(default_factory=list[str])
    copy: bool = False


#: More than a day and an hour: a value that contains the hour or the day is another value then.
REST = timedelta(hours=25, minutes=1, seconds=1)


@dataclass(slots=True)
class FaultChoice:
    """Decides what goes wrong: by a script, or after it, by chance."""

    script: FaultScript
    chance: random.Random | None = None
    most: int = 0
    left: list[tuple[int, Fault]] | None = None

    def at(self, point: Point) -> Fault | None:
        """Return what goes wrong at a point: for a script, a fault that fits there and is due by now."""
        if self.chance is None:
            return self._due_at(point)
        if not point.faults or len(self.script.faults) >= self.most or self.chance.random() > 1 / 8:
            return None
        fault = self.chance.choice(point.faults)
        self.script = self.script.extended(point.number, fault)
        return fault

    def _due_at(self, point: Point) -> Fault | None:
        if self.left is None:
            self.left = list(self.script.faults)
        for index, (number, fault) in enumerate(self.left):
            exact = fault is Fault.INTERRUPT and number == point.number  # which no point offers by itself
            if exact or (number <= point.number and fault in point.faults):
                del self.left[index]
                return fault
        return None


@dataclass(slots=True)
class Rules:
    """The common settings of the runs of one simulation."""

    subject: Subject
    messages: Sequence[Message]
    count: Callable[[], Counter[Hashable]]
    memory: ProcessMemory
    deliveries: int
    pauses: bool
    observes: bool = True


class SimulatedWorker:
    """One process: a pipeline over the run's history, the leases that it renews, and whether it lives."""

    def __init__(self, course: "Course", subject: Subject) -> None:
        self.dead = False
        self.base = subject.pipeline()
        self.background: list[threading.Thread] = []
        name, lease = subject.trigger.settings.name, subject.trigger.settings.lease
        self.leases = SimulatedLeases(name, lease, course.store)
        self.pipeline = self._over(course)

    def _over(self, course: "Course") -> MessagePipeline:
        base = self.base
        shell = cast("Shell", SimulatedShell(base.shell, course.pass_time))
        lot = ParkingLot(course.parking)
        execution = replace(cast("Any", base.execution), shell=shell)
        if base.transactions is not None:
            inside = cast("Transactions", SimulatedTransactions(base.transactions, course))
            return replace(base, transactions=inside, lot=lot, execution=execution)
        store = None if base.judge.store is None else course.store
        leases = None if base.judge.leases is None else cast("LeaseKeeper", self.leases)
        return replace(
            base,
            judge=replace(base.judge, store=store, leases=leases),
            completion=replace(cast("Any", base.completion), store=store, sleep=shell.sleep),
            lot=lot,
            execution=execution,
        )


class Course:
    """One run. It is made, run once, and then read."""

    def __init__(self, rules: Rules, choice: FaultChoice, chosen: Sequence[int]) -> None:
        self.rules = rules
        self.choice = choice
        self.points: list[Point] = []
        self.deliveries: list[Delivered] = []
        self.parked: set[int] = set()
        self.kinds: dict[int, set[str]] = {}
        self.uuids: set[str] = set()
        self.samples: list[Counter[Hashable]] = []
        self.warnings: list[str] = []
        self.noisy: int | None = None
        self.unfinished: set[int] = set()
        self._now = BEGINNING
        self.store = SimulatedHistory(self)
        self.parking = SimulatedParking(self)
        self.queue = Queue(choice.script.counts, BEGINNING, datetime.now(UTC))
        self.killed: Callable[[], None] | None = None
        self._chosen = chosen
        self._answered: list[Copy] = []
        self._worker: SimulatedWorker | None = None
        self._stack: list[tuple[SimulatedWorker, Sequence[Copy], list[Delivered]]] = []
        self._at_death: Counter[Hashable] | None = None

    # The methods that the parts of a run call.

    def now(self) -> datetime:
        """Return the run's time."""
        return self._now

    def pass_time(self, seconds: float, *, renewing: bool = True) -> None:
        """Let time pass; living workers renew their leases meanwhile."""
        self._now += timedelta(seconds=seconds)
        if renewing:
            for worker, _, _ in self._stack:
                worker.leases.renew()

    def come_by(self, step: str, *faults: Fault) -> Fault | None:
        """Reach a point; return what goes wrong there.

        Raises:
            SimulatedDeath: the process dies here, or died before and was kept alive by a handler.
        """
        if not self._stack:
            return None
        worker, copies, delivered = self._stack[-1]
        if worker.dead:
            raise SimulatedDeath
        tired = max((self.queue.deliveries.get(copy.index, 0) for copy in copies), default=0)
        offered = (
            () if tired > self.rules.deliveries else tuple(fault for fault in faults if self._fits(fault))
        )
        point = Point(len(self.points), step, offered)
        self.points.append(point)
        fault = self.choice.at(point)
        if fault is None:
            return None
        for delivery in delivered:
            delivery.faults.append(fault.sentence.format(step))
        if fault is Fault.DIE:
            self.die()
        if fault is Fault.INTERRUPT:
            raise SimulatedInterrupt
        return fault

    def _fits(self, fault: Fault) -> bool:
        if fault is Fault.PAUSE:
            return self.rules.pauses and self.rules.subject.trigger.settings.lease is not None
        return not (fault is Fault.COPY and self.rules.subject.is_atomic)

    def die(self) -> None:
        """End the process that runs.

        Raises:
            SimulatedDeath: always.
        """
        worker = self._stack[-1][0]
        if self.killed is not None and len(self._stack) == 1:
            self._bury(worker, [copy for copy in self._stack[-1][1] if copy not in self._answered])
            self.killed()
        worker.dead = True
        worker.leases.close()
        worker.background.clear()
        if self.rules.observes and not self.rules.subject.is_atomic:
            self._at_death = self.rules.count()
        raise SimulatedDeath

    def keep_aside(self, parked: Sequence[Parked]) -> None:
        """Note the parked messages."""
        copies = self._stack[-1][1]
        for message in parked:
            name = None if message.message is None else message.message.message_id
            self.parked |= {copy.index for copy in copies if copy.message.message_id == name}

    def before_effect(self, step: str, faults: Iterable[Fault]) -> Fault | None:
        """Reach the point of an effect; raise if the process dies, and return what else goes wrong."""
        fault = self.come_by(step, *faults)
        self._meanwhile(fault)
        return fault

    @contextmanager
    def invoking(self, file: str) -> Generator[None]:
        """Enter one call of the service."""
        worker, coroutine = self._stack[-1][0], self.rules.subject.trigger.is_async
        self.samples.append(self.rules.count())
        started = len(self.points)
        try:
            self._meanwhile(self.come_by("the service", *_AROUND))
            with traced(file, partial(self._line_of, asyncio.current_task()) if coroutine else self._line):
                yield
            if worker.dead:
                self.noisy = started  # a handler mistook the death for a failure, and went on
            self._meanwhile(self.come_by("the service's end", *_AROUND))
        except BaseException:
            self._look_at_death(worker, started)
            raise
        else:
            self._look_at_death(worker, started)

    def _line(self, step: str) -> None:
        self.come_by(step, Fault.DIE, *((Fault.INTERRUPT,) if self._interrupted() else ()))

    def _line_of(self, task: "asyncio.Task[Any] | None", step: str) -> None:
        """Reach a line of a coroutine, maybe in a task that it started: a consumer cancels its own task."""
        if self.come_by(step, Fault.DIE, Fault.CANCEL) is Fault.CANCEL and task is not None:
            task.cancel()

    def _interrupted(self) -> bool:
        """Whether the script interrupts here: only if a handler noticed a death, this is of interest."""
        return self.choice.script.at(len(self.points)) is Fault.INTERRUPT

    def _look_at_death(self, worker: SimulatedWorker, started: int) -> None:
        """Notice that a handler did something after the process had died."""
        if not worker.dead:
            return
        before, self._at_death = self._at_death, None
        if before is not None and before != self.rules.count():
            self.noisy = started
            self.warnings.append(
                "a finally or except BaseException of the service had an effect after the process had died, "
                "which a real death would not let happen"
            )
        raise SimulatedDeath

    def _meanwhile(self, fault: Fault | None) -> None:
        """Deliver a copy to another worker while this worker is paused."""
        if fault not in {Fault.COPY, Fault.PAUSE}:
            return
        worker, in_hand, _ = self._stack[-1]
        lease = self.rules.subject.trigger.settings.lease
        if fault is Fault.PAUSE and lease is not None:
            self.pass_time(lease.total_seconds() + 1, renewing=False)
        copies = [self.queue.another(copy, self._now) for copy in in_hand]
        if self.rules.subject.trigger.is_async:
            # A loop cannot run inside another loop's callback, but it can in a thread that is joined.
            thread = threading.Thread(target=self._aside, args=(copies,), daemon=True)
            _START(thread)
            thread.join(STUCK)
            if thread.is_alive():
                raise StuckError
        else:
            self._deliver(copies, SimulatedWorker(self, self.rules.subject), copy=True)
        if not worker.dead:
            worker.leases.renew()

    def _aside(self, copies: Sequence[Copy]) -> None:
        self._deliver(copies, SimulatedWorker(self, self.rules.subject), copy=True, run=asyncio.run)

    # The run itself.

    def run(self, later: timedelta = timedelta(0)) -> None:
        """Deliver until everything is acknowledged, or too often; begin at ``later`` after the usual time."""
        self._now += later
        for index in self._chosen:
            self.queue.put(Copy(index, self.rules.messages[index], BEGINNING))
        self.go_on()

    def go_on(self) -> None:
        """Go on until the queue is empty: from the beginning, or in a process after another has died."""
        rules = self.rules
        rules.subject.invoking[:] = [self.invoking]
        rules.subject.passed[:] = [self.pass_time]
        queue = self.queue
        while (due := queue.next_due()) is not None:
            if len(self.deliveries) > MOST_DELIVERIES:
                self.unfinished = {copy.index for copy in queue.waiting}
                break
            self._now = max(self._now, due)
            self._worker = self._worker or SimulatedWorker(self, rules.subject)
            self._receive(self._worker)
        self.samples.append(rules.count())

    def _receive(self, worker: SimulatedWorker) -> None:
        limit = self.rules.subject.trigger.settings.batch
        if len(self.queue.waiting) > limit and self._overtakes(worker):
            self.queue.waiting.append(self.queue.waiting.pop(0))
            self._now = max(self._now, self.queue.next_due() or self._now)
        copies = self.queue.take(self._now, limit)
        if self._deliver(copies, worker):
            self._end(worker)
        else:
            self._worker = None
            self.forget()

    def _overtakes(self, worker: SimulatedWorker) -> bool:
        self._stack.append((worker, (), []))
        try:
            return self.come_by("the next message", Fault.OVERTAKEN) is Fault.OVERTAKEN
        finally:
            self._stack.pop()

    def forget(self) -> None:
        """Empty the memory of a process that has died, as the script has it."""
        if self.choice.script.memory == "stays":
            self.rules.memory.survive()
        else:
            self.rules.memory.die()
        if self.choice.script.memory == "rests":
            # Not so long that the history would forget the message.
            remembered = self.rules.subject.trigger.settings.history_time_to_live
            self._now += min(REST, remembered / 2)

    def _deliver(
        self,
        copies: Sequence[Copy],
        worker: SimulatedWorker,
        *,
        copy: bool = False,
        run: Callable[[Any], Any] | None = None,
    ) -> bool:
        """Deliver copies to a worker; False if it died."""
        delivered = [
            Delivered(copied.index, copied.delivered, self._now - BEGINNING, copy=copy) for copied in copies
        ]
        self.deliveries += delivered
        link = _Link(self, self.queue)
        if not self._stack:
            self._answered = link.answered
        arrivals = [
            Arrival(self.queue.arrival(copied, self._now), copied)  # the copy is its own handle
            for copied in copies
        ]
        self._stack.append((worker, copies, delivered))
        try:
            work = worker.pipeline.deliver(cast("Receiver", link), arrivals)
            outcomes = (run or self.rules.subject.run)(work)
        except (SimulatedDeath, SimulatedInterrupt, asyncio.CancelledError):
            self._bury(worker, [copy for copy in copies if copy not in link.answered])
            return False
        finally:
            self._stack.pop()
        for delivered_copy, what, outcome in zip(copies, delivered, outcomes, strict=True):
            what.outcome = outcome
            self.kinds.setdefault(delivered_copy.index, set()).add(outcome.kind)
            if outcome.uuid is not None:
                self.uuids.add(outcome.uuid)
        return True

    def _bury(self, worker: SimulatedWorker, copies: Sequence[Copy]) -> None:
        worker.dead = True
        worker.leases.close()
        worker.background.clear()
        for copy in reversed(copies):
            copy.due = self._now
            self.queue.put(copy, first=True)
        for task in self.rules.subject.unfinished():
            task.cancel()

    def _end(self, worker: SimulatedWorker) -> None:
        """Let the work that a service left running end, or die before it does."""
        tasks = self.rules.subject.unfinished()
        if not worker.background and not tasks:
            return
        self._stack.append((worker, (), self.deliveries[-1:]))
        try:
            self.come_by("what the service left running", Fault.DIE)
            for thread in worker.background:
                _run(thread)
            if tasks:
                self.rules.subject.run(asyncio.wait(tasks))
        except SimulatedDeath:
            for task in tasks:
                task.cancel()
            with suppress(Exception):
                self.rules.subject.run(asyncio.sleep(0))
            self._worker = None
            self.forget()
        finally:
            worker.background.clear()
            self._stack.pop()

    def leave_running(self, thread: threading.Thread) -> bool:
        """Hold a thread that a service starts, to run it later; False if no service runs."""
        if not self._stack or self._stack[-1][0].dead:
            return False
        self._stack[-1][0].background.append(thread)
        return True

    def join(self, thread: threading.Thread) -> bool:
        """Run a thread that is joined; False if it does not belong to the run."""
        for worker, _, _ in self._stack:
            if thread in worker.background:
                worker.background.remove(thread)
                _run(thread)
                return True
        return False

    def run_left_running(self) -> None:
        """Run the threads that the service has left running, because it waits for one of them."""
        worker = self._stack[-1][0] if self._stack else None
        while worker is not None and worker.background:
            _run(worker.background.pop(0))

    def clean(self) -> None:
        """Have an atomic trigger's own history forget what this run has written there."""
        subject = self.rules.subject
        if subject.is_atomic and subject.store is not None:
            names = self.uuids | {message.uuid or "" for message in self.rules.messages}
            for uuid in names - {""}:
                drive(subject.store.forget(subject.trigger.name, uuid))


def _run(thread: threading.Thread) -> None:
    """Run a thread to its end; an exception ends only the thread."""
    with suppress(Exception):
        thread.run()


_AROUND = (Fault.DIE, Fault.COPY, Fault.PAUSE)
_START = threading.Thread.start


class _Link:
    """A worker's connection for its answers to the provider."""

    keep_alive_interval = timedelta(seconds=10)

    def __init__(self, course: Course, queue: Queue) -> None:
        self._course = course
        self._queue = queue
        self.answered: list[Copy] = []

    async def acknowledge(self, received: Sequence[Received]) -> None:
        course = self._course
        copies = [cast("Copy", arrival.handle) for arrival in received]
        if not copies:
            return
        fault = course.come_by("the acknowledgement", *_ANSWERING)
        if fault in {Fault.ACKNOWLEDGEMENT_LOST, Fault.LATE}:
            later = MUCH_LATER if fault is Fault.LATE else timedelta(0)
            for copy in copies:
                copy.due = course.now() + later
                self._queue.put(copy)
        self.answered += copies
        if fault is Fault.DIE_AFTER:
            course.die()

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        course = self._course
        course.come_by("giving it back", Fault.DIE)
        for arrival in received:
            copy = cast("Copy", arrival.handle)
            copy.due = course.now() + delay
            self._queue.put(copy)
            self.answered.append(copy)


_ANSWERING = (Fault.DIE, Fault.DIE_AFTER, Fault.ACKNOWLEDGEMENT_LOST, Fault.LATE)
