"""The document history of a run, with a point at each call that writes, and its provider; both in memory."""

import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from history.beside.parking import Parking
from history.bridge import drive
from history.entry import Claim, Settlement
from history.errors import HistoryUnavailableError
from history.memory import MemoryHistory
from history.memory.records import MemoryRecords
from history.message import UNDEFINED_COUNT, Message
from history.shell import Shell
from history.store.parking import Parked
from triggers.pipeline.run import Run
from triggers.testing.simulator.script import Counts, Fault

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from history.sql.transaction import SqlTransaction
    from triggers.pipeline.atomic import Transactions
    from triggers.providers.provider import Arrival, SharingTransactions


T = TypeVar("T")


class StoreCourse(Protocol):
    """The run to which a store belongs."""

    def now(self) -> datetime:
        """Return the run's time."""
        ...

    def come_by(self, step: str, *faults: Fault) -> Fault | None:
        """Reach a point; return what goes wrong there, or raise if the process dies."""
        ...

    def die(self) -> None:
        """End the process."""
        ...

    def keep_aside(self, parked: Sequence[Parked]) -> None:
        """Note the parked messages."""
        ...


async def carried_out(course: StoreCourse, step: str, call: Callable[[], Awaitable[T]]) -> T:
    """Make a call to the history, with the fault at this point."""
    fault = course.come_by(step, Fault.DIE, Fault.DIE_AFTER, Fault.AWAY, Fault.REPLY_LOST)
    if fault is Fault.AWAY:
        raise HistoryUnavailableError(step)
    result = await call()
    if fault is Fault.DIE_AFTER:
        course.die()
    if fault is Fault.REPLY_LOST:
        raise HistoryUnavailableError(step)
    return result


class SimulatedHistory(MemoryHistory):
    """A history in memory; its calls are points of a run.

    Guarantee: in doubt, for the run.
    """

    def __init__(self, course: StoreCourse) -> None:
        super().__init__(clock=course.now)
        self._course = course

    async def claim(self, *args: Any, **options: Any) -> Sequence[Claim]:
        """Claim, or not."""
        claim = super().claim
        return await carried_out(self._course, "the claim", lambda: claim(*args, **options))

    async def take_over(self, *args: Any, **options: Any) -> Claim | None:
        """Take over, or not."""
        take_over = super().take_over
        return await carried_out(self._course, "the take-over", lambda: take_over(*args, **options))

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Complete or release, or not."""
        settle = super().settle
        released = all(settlement.outcome is None for settlement in settlements)
        step = "the release" if released else "the completion"
        return await carried_out(self._course, step, lambda: settle(trigger, settlements))


class SimulatedParking(Parking):
    """A parking lot in memory; its calls are points of a run."""

    def __init__(self, course: StoreCourse) -> None:
        records = MemoryRecords(course.now)
        super().__init__(records, triggers=records.triggers)
        self._course = course

    async def park(self, parked: Sequence[Parked]) -> None:
        """Park messages, and note them."""
        fault = self._course.come_by("the parking", Fault.DIE, Fault.DIE_AFTER)
        await super().park(parked)
        self._course.keep_aside(parked)
        if fault is Fault.DIE_AFTER:
            self._course.die()


class SimulatedShell:
    """The shell of a pipeline in which waiting lets the simulated time pass."""

    def __init__(self, shell: Shell, pass_time: Callable[[float], None]) -> None:
        self._pass_time = pass_time
        self.blocking = shell.blocking

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass, without waiting."""
        self._pass_time(seconds)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it: nobody cancels anything here."""
        return await work


class SimulatedLeases:
    """Renews leases as the keeper's thread would, whenever the run's time has moved."""

    def __init__(self, trigger: str, lease: timedelta | None, store: MemoryHistory) -> None:
        self.store = store
        self._trigger = trigger
        self._lease = lease
        self._held: dict[Run, None] = {}

    def hold(self, runs: Sequence[Run], asked: float) -> None:
        """Renew the leases of runs from now on."""
        del asked
        for run in runs:
            run.alive_until = math.inf
            self._held[run] = None

    def let_go(self, runs: Sequence[Run]) -> None:
        """Stop renewing them."""
        for run in runs:
            self._held.pop(run, None)

    def do_soon(self, name: str, errand: object) -> None:
        """Do nothing: nobody cancels anything here, so only dead processes leave something to do."""

    def close(self) -> None:
        """Renew nothing any more, like a dead process."""
        self._held.clear()

    async def aclose(self) -> None:
        """Do the same as :meth:`close`."""
        self.close()

    def renew(self) -> None:
        """Renew held leases; a run that lost its entry to another process is notified."""
        for run in list(self._held):
            uuid, fence = run.message.uuid, run.fence
            if self._lease is None or uuid is None or fence is None:
                continue
            if not drive(self.store.renew(self._trigger, uuid, fence, self._lease, owner=run.owner)):
                entry = drive(self.store.lookup(self._trigger, [uuid]))[0]
                if entry is not None and run.end is None:
                    run.taken_by = entry.owner or f"the owner of fence {entry.fence}"


@dataclass(frozen=True, slots=True)
class SimulatedTransactions:
    """The transactions of an atomic trigger, with a point before and after each commit."""

    inner: "Transactions"
    course: StoreCourse

    async def begin(self) -> "AbstractAsyncContextManager[SqlTransaction]":
        """Return a transaction to enter."""
        return self._entered(await self.inner.begin())

    @asynccontextmanager
    async def _entered(
        self, inner: "AbstractAsyncContextManager[SqlTransaction]"
    ) -> "AsyncGenerator[SqlTransaction]":
        async with inner as transaction:
            yield transaction
            fault = self.course.come_by(
                "the commit", Fault.DIE, Fault.DIE_AFTER, Fault.AWAY, Fault.REPLY_LOST
            )
            if fault is Fault.AWAY:
                raise HistoryUnavailableError("the commit")
        if fault is Fault.DIE_AFTER:
            self.course.die()
        if fault is Fault.REPLY_LOST:
            raise HistoryUnavailableError("the commit")

    async def settle(self, transaction: "SqlTransaction", runs: Sequence[Run]) -> None:
        """Record in a transaction how its runs ended."""
        await self.inner.settle(transaction, runs)

    async def removal(
        self, receiver: "SharingTransactions | None", arrivals: "Mapping[Run, Arrival]"
    ) -> None:
        """Return None: the messages are not in a database."""
        del receiver, arrivals


@dataclass(slots=True, eq=False)
class Copy:
    """One copy of a message at the provider: how often it was delivered, and when it is due."""

    index: int
    message: Message
    due: datetime
    delivered: int = 0


@dataclass(slots=True)
class Queue:
    """The messages that wait for a worker; a message that a worker holds is not in it."""

    counts: Counts
    sent: datetime
    real: datetime
    waiting: list[Copy] = field(default_factory=list[Copy])
    deliveries: dict[int, int] = field(default_factory=dict[int, int])

    def put(self, copy: Copy, *, first: bool = False) -> None:
        """Let a copy wait, behind or before all others."""
        self.waiting.insert(0 if first else len(self.waiting), copy)

    def next_due(self) -> datetime | None:
        """Return when the next copy is due; None if none waits."""
        return min((copy.due for copy in self.waiting), default=None)

    def take(self, now: datetime, limit: int) -> Sequence[Copy]:
        """Hand out copies that are due, and count them."""
        taken = [copy for copy in self.waiting if copy.due <= now][:limit]
        self.waiting = [copy for copy in self.waiting if copy not in taken]
        for copy in taken:
            copy.delivered += 1
            self.deliveries[copy.index] = self.deliveries.get(copy.index, 0) + 1
        return taken

    def another(self, copy: Copy, now: datetime) -> Copy:
        """Return another copy of a message that is being worked on, as a redelivery."""
        self.deliveries[copy.index] = self.deliveries.get(copy.index, 0) + 1
        return Copy(copy.index, copy.message, now, copy.delivered + 1)

    def arrival(self, copy: Copy, now: datetime) -> Message:
        """Return the message as it is delivered this time."""
        count = copy.delivered if self.counts == "exact" else UNDEFINED_COUNT
        changes: dict[str, object] = {"delivery_count": count, "redelivered": copy.delivered > 1}
        if copy.message.timestamp is None:
            # The machine's clock decides the age of a message, and the run's may be far ahead of it.
            changes["timestamp"] = self.real - (now - self.sent)
        return copy.message.copied().model_copy(update=changes)


def named(messages: Sequence[Message], destination: str) -> Sequence[Message]:
    """Return messages with the fields that a provider adds: identities, destination."""
    return [
        message.copied().model_copy(
            update={
                "message_id": (name := message.message_id or f"ID:{destination}:{index + 1}"),
                "uuid": message.uuid or name,
                "destination": message.destination or destination,
            }
        )
        for index, message in enumerate(messages)
    ]


#: How much later a late message is delivered again.
MUCH_LATER = timedelta(hours=12)
