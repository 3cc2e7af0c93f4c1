"""The receive loop of one worker of one trigger: the same lines in a thread and in a task."""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from history.errors import UnavailableError
from history.shell import Flag, Lock, Shell
from history.support.rendering import reason_of
from triggers.consumer.gate import Gate
from triggers.consumer.receivers import LazyReceiver, SharedReceiver
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import (
    AT_ONCE,
    LAST_CALLS,
    NO_CAPABILITIES,
    Capabilities,
    Limits,
    Provider,
    ProviderUnavailableError,
    Received,
    Receiver,
    Unreadable,
    capabilities_of,
)

_log = logging.getLogger(__name__)

#: The first and the longest pause before an unavailable provider is tried again, in seconds.
FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 10.0

#: How often a suspended worker checks whether it may go on, in seconds.
SUSPENDED_PAUSE = 0.2

#: How much later than requested a provider may deliver a recovered message, in seconds: it checks at
#: intervals.
LATE = 2.0

#: How long one call waits for a first message; within this time a worker notices that it is to stop.
RECEIVE_WAIT = LAST_CALLS / 2

#: How often a worker looks whether the last calls of the others have ended, in seconds.
LAST_CALLS_PAUSE = 0.01

#: How long a worker goes on with fetched messages before it looks after everything else, in seconds.
ROUND = 0.5

#: How long the end of a worker waits for a keep-alive in progress, in seconds.
KEPT_PATIENCE = 10.0

#: Logged if a provider becomes unavailable before everything was answered.
NOT_ACKNOWLEDGED = "%s: messages that were not acknowledged will be delivered again"


class Sweeping(Protocol):
    """Sweeps the joins of a trigger; shared by its workers."""

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask for due joins."""
        ...

    async def sweep(self, begin: Callable[[], None]) -> None:
        """Run the due joins, if it is time to ask; ``begin`` is called if there are some."""
        ...

    async def keep_alive(self, now: float) -> None:
        """Report, if it is time, that the joins that run here are alive."""
        ...


@dataclass(slots=True, kw_only=True)
class Worker:
    """Receives for one trigger, one delivery at a time, until its shell is over.

    ``idle`` means that the provider was asked for messages and has had none since, and that no recovered
    message is expected back. ``shared`` is a shared receiver in place of the worker's own. ``turns`` is
    entered for each delivery, because there may be more workers than may run concurrently.
    """

    name: str
    gate: Gate
    pipeline: Pipeline
    provider: Provider
    shell: Shell
    destination: str
    shared: SharedReceiver | None = None
    turns: Lock = field(default_factory=nullcontext[None])
    sweeper: Sweeping | None = None
    receiver: Receiver | None = None
    idle: bool = False
    _can: Capabilities = NO_CAPABILITIES
    _alive_due: float = 0.0
    _back_off: float = FIRST_BACK_OFF
    _expected: float = 0.0
    #: How many suspensions of the trigger there had been when a message last ran without another one.
    _overcome: int = 0
    #: Whether its provider pushes messages, whatever it asks for.
    _pushed: bool = False
    #: Set while the receiver is not being kept alive.
    _kept: Flag = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing in progress."""
        self._kept = self.shell.flag()
        self._kept.set()

    async def run(self) -> None:
        """Receive, deliver and answer until the consumer stops; reconnect with back-off.

        Raises:
            BaseException: an exception of a service that ends the process; its message is not acknowledged,
                and delivered again.
        """
        try:
            while not self.shell.over.is_set():
                try:
                    if await self._round():
                        self._back_off, self.gate.away = FIRST_BACK_OFF, None
                except ProviderUnavailableError as error:
                    await self._wait_for_provider(error)
        finally:
            await self._leave()

    async def _round(self) -> bool:
        """Receive and deliver once; return False if the provider seems unavailable."""
        if self.gate.disabled:
            await self._leave()
            # Nothing comes, however long the worker waits.
            self.idle = True
            await self._pause(SUSPENDED_PAUSE)
            return True
        await self._sweep()
        receiver = self.receiver or await self._open()
        suspensions = self.gate.suspensions
        if self.gate.suspended is not None:
            self.idle = False
            if self._can.pausing is not None:
                await self._can.pausing.pause()
            await self._pause(SUSPENDED_PAUSE)
            return True
        limit = self._most_to_fetch()
        with self.gate.provider_calls.begun():
            if self.shell.over.is_set():  # checked here, so that nothing comes back to this consumer
                return True
            received = await receiver.receive(limit, RECEIVE_WAIT)
        self.idle = not received and monotonic() >= self._expected
        refusing = self._can.counting_refusals
        if refusing is not None and (refused := refusing.take_refusals()):
            self.gate.note_refusals(refused)
        turns = self.pipeline.turns
        try:
            await self._deliver_all(receiver, received)
        finally:
            if turns is not None:
                await turns.give_back()
        if received and self.gate.suspensions == suspensions:
            self._overcome = suspensions
        return True

    @property
    def _careful(self) -> bool:
        """Whether nothing has run to its end since the last suspension: the next message may suspend again.

        Messages that are fetched with it would be given back. Each time counts as a delivery, so that they
        would be rejected together with it, although they never ran. A broker that pushes sends as many as
        ever, and to fetch fewer would give back more.
        """
        return not self._pushed and self._overcome != self.gate.suspensions

    def _most_to_fetch(self) -> int:
        settings = self.gate.trigger.settings
        return settings.batch if self._careful else max(settings.prefetch, settings.batch)

    async def _deliver_all(self, receiver: Receiver, received: Sequence[Received]) -> None:
        """Deliver the received messages, some at a time, and recover the ones that may not begin any more.

        Before the last message runs, take what the receiver has fetched, for a while. So the turn of that
        message has a next message to claim.
        """
        turns, position, until = self.pipeline.turns, 0, monotonic() + ROUND
        while position < len(received):
            async with self.turns:
                if self.shell.over.is_set() or (begun := self.gate.enter()) is None:
                    await self._give_back(receiver, received[position:])
                    break
                try:
                    if turns is not None:
                        if position + 1 == len(received) and monotonic() < until and not self._careful:
                            # Without the messages that have run: each keeps its body in memory.
                            received, position = [received[position], *self._take_fetched()], 0
                        following = position + 1
                        turns.look(
                            received[position], received[following] if following < len(received) else None
                        )
                    end = position + self.pipeline.at_once
                    # A provider that becomes unavailable in between delivers unanswered messages again.
                    await self._deliver(receiver, received[position:end])
                finally:
                    self.gate.leave(begun)
            position = end

    async def _give_back(self, receiver: Receiver, received: Sequence[Received]) -> None:
        """Recover messages that have not begun.

        When the trigger closes or the consumer ends, other workers still wait in their last call. Each of
        them would get these messages and give them back, and each time counts as a delivery of a message
        that never ran. At the end of the consumer, the messages go back after these calls, immediately.
        """
        if self.shell.over.is_set():
            await self._wait_for_receivers()
            await receiver.recover(received, AT_ONCE)
            return
        self._expected = max(self._expected, monotonic() + LAST_CALLS.total_seconds() + LATE)
        await receiver.recover(received, LAST_CALLS)

    async def _wait_for_receivers(self) -> None:
        """Wait until no worker of the trigger receives any more, at most :data:`LAST_CALLS`."""
        until = monotonic() + LAST_CALLS.total_seconds()
        while self.gate.provider_calls.pending and monotonic() < until:
            await self.shell.sleep(LAST_CALLS_PAUSE)

    def _take_fetched(self) -> Sequence[Received]:
        """Return further messages that are here already; with the present one they fill the prefetch."""
        ahead = self._can.fetching_ahead
        return () if ahead is None else ahead.take_fetched(self.gate.trigger.settings.prefetch - 1)

    async def _pause(self, seconds: float) -> None:
        """Wait, at most until the consumer stops."""
        await self.shell.over.wait(seconds)

    async def _sweep(self) -> None:
        sweeper = self.sweeper
        if sweeper is not None and sweeper.is_due and not self.gate.closed and not self.shell.over.is_set():
            async with self.turns:
                await sweeper.sweep(self._begin)

    def _begin(self) -> None:
        self.idle = False

    async def _open(self) -> Receiver:
        settings = self.gate.trigger.settings
        receiver: Receiver
        with self.gate.provider_calls.begun():
            if self.shared is not None:
                receiver = await self.shared.open_part(self.name)
            else:
                receiver = await self.provider.open_receiver(
                    self.destination, subscription=settings.name, name=self.name
                )
        inner = capabilities_of(receiver)
        if inner.limited is not None:
            inner.limited.limits = Limits(settings.max_body_size, settings.policy.max_delivery_count)
        self._pushed = inner.pausing is not None
        self.receiver = LazyReceiver(receiver) if settings.acknowledge_mode == "dups_ok" else receiver
        self._can = capabilities_of(self.receiver)
        await self._place_turns()
        self._alive_due = 0.0
        return self.receiver

    async def _place_turns(self) -> None:
        """Have the turns acknowledge messages, if the history is in the same database."""
        turns, placing, store = self.pipeline.turns, self._can.placing, self.pipeline.store
        if turns is None:
            return
        turns.receiver = None
        if placing is not None and store is not None:
            with suppress(UnavailableError):
                turns.receiver = placing if await placing.is_beside(store) else None

    async def _deliver(self, receiver: Receiver, received: Sequence[Received]) -> None:
        outcomes = await self.pipeline.deliver(receiver, received, self._can)
        usual = self.gate.note_all(outcomes)
        if self.gate.word is not None and self.gate.herald is not None:
            await self.gate.herald()
        if usual == len(received):  # none of them comes again, and none is unreadable
            return
        for outcome in outcomes:
            if outcome.recover_after:
                due = monotonic() + outcome.recover_after + LATE
                self._expected = max(self._expected, due)
        for delivery in received:
            if isinstance(delivery, Unreadable):
                self.gate.note_unreadable()

    async def _wait_for_provider(self, error: ProviderUnavailableError) -> None:
        reason = reason_of(error.__cause__)
        cause = self.gate.away = str(error) if reason in str(error) else f"{error} ({reason})"
        self._complain(cause, f"{cause}: trying again in {self._back_off:.1f} s")
        self.idle = False
        await self._pause(self._back_off)
        self._back_off = min(self._back_off * 2, LONGEST_BACK_OFF)

    async def _leave(self) -> None:
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            return
        # A keep-alive after the farewell would register the name again.
        await self._kept.wait(KEPT_PATIENCE)
        try:
            await receiver.close()
        except ProviderUnavailableError as error:
            self._complain(f"{NOT_ACKNOWLEDGED}: {error}", NOT_ACKNOWLEDGED % error)

    async def keep_alive(self, now: float) -> None:
        """Keep the receiver alive at the provider, if it is time; if unavailable, at the next time.

        Called beside :meth:`run`, from another thread or task.
        """
        if self.sweeper is not None:
            await self.sweeper.keep_alive(now)
        if now < self._alive_due:
            return
        self._kept.clear()
        try:
            await self._keep_alive(self.receiver, now)
        finally:
            self._kept.set()

    async def _keep_alive(self, receiver: Receiver | None, now: float) -> None:
        if receiver is None:
            return
        self._alive_due = now + receiver.keep_alive_interval.total_seconds()
        try:
            await receiver.keep_alive()
        except ProviderUnavailableError as error:
            lost = "may lose its messages to other consumers, which run them again"
            self._complain(f"{lost}: {error}", f"{self.name} {lost}: {error}")

    def _complain(self, cause: str, text: str) -> None:
        self.gate.complaints.warn(_log, cause, text, self._extra)

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self.gate.trigger.name}
