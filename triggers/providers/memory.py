"""A provider in memory: for tests, the demo and first steps."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import chain, count
from typing import cast
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Condition, Shell, TaskShell, ThreadShell
from triggers.providers.backlog import Backlog, Place, in_order
from triggers.providers.provider import AT_ONCE, RECEIVE_WAIT, Arrival, Received


@dataclass(slots=True)
class _Subscription:
    """The position of one subscription in the log of its destination; numbers are places in that log."""

    log: list[Message]
    consumers: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    alone: set[int] | None = None
    read: int = 0
    counts: dict[int, int] = field(default_factory=dict[int, int])
    due: dict[int, float] = field(default_factory=dict[int, float])

    def take(self, limit: int) -> list[int]:
        """Hand out the due redeliveries, then new messages; count each delivery."""
        now = time.monotonic()
        again = sorted(number for number, due in self.due.items() if due <= now)[:limit]
        new = range(self.read, min(len(self.log), self.read + limit - len(again)))
        self.read = new.stop
        for number in again:
            del self.due[number]
        taken = [*again, *new]
        for number in taken:
            self.counts[number] = self.counts.get(number, 0) + 1
        return taken

    def give_back(self, number: int, delay: timedelta) -> None:
        self.due[number] = time.monotonic() + delay.total_seconds()

    def backlog(self, destination: str, name: str, later: int) -> Backlog:
        in_hand = sum(map(len, self.consumers.values()))
        waiting = len(self.log) - self.read + len(self.due)
        places = [*range(self.read, len(self.log)), *self.due, *chain(*self.consumers.values())]
        oldest = min((self.log[position].timestamp or datetime.now(UTC) for position in places), default=None)
        return Backlog(
            destination=destination,
            subscription=name,
            waiting=waiting,
            held=in_hand,
            later=later,
            consumers=len(self.consumers),
            oldest=oldest,
        )

    def next_due(self) -> float:
        """Return when, on the monotonic clock, the next message becomes due without anybody's action."""
        return min(self.due.values(), default=float("inf"))


class _MemoryBroker(Condition):
    """The state that all receivers share, under one lock."""

    def __init__(self) -> None:
        super().__init__()
        self._logs: dict[str, list[Message]] = {}
        self._later: list[tuple[datetime, int, str, Message]] = []
        self._named = count(1)
        self._subscriptions: dict[tuple[str, str], _Subscription] = {}

    def append(self, destination: str, message: Message) -> str:
        log = self._logs.setdefault(destination, [])
        if message.delivery_time is not None and message.delivery_time > datetime.now(UTC):
            number = next(self._named)
            name = message.message_id or f"ID:{destination}:later-{number}"
            later = message.copied().model_copy(update={"message_id": name})
            heappush(self._later, (message.delivery_time, number, destination, later))
            return name
        name = message.message_id or f"ID:{destination}:{len(log) + 1}"
        changes = {
            "message_id": name,
            "uuid": message.uuid or name,
            "destination": message.destination or destination,
            "timestamp": message.timestamp or datetime.now(UTC),
        }
        log.append(message.copied().model_copy(update=changes))
        return name

    def deliver_later_ones(self) -> float:
        """Append the delayed messages that are due; return the next delivery time, monotonic."""
        while self._later:
            ahead = (self._later[0][0] - datetime.now(UTC)).total_seconds()
            if ahead > 0:
                return time.monotonic() + ahead
            _, _, destination, message = heappop(self._later)
            self.append(destination, message)
        return float("inf")

    def subscription(self, destination: str, name: str) -> _Subscription:
        log = self._logs.setdefault(destination, [])
        return self._subscriptions.setdefault((destination, name), _Subscription(log))

    def backlogs(self) -> list[Backlog]:
        later = Counter(destination for _, _, destination, _ in self._later)
        return [
            subscription.backlog(*pair, later[pair[0]]) for pair, subscription in self._subscriptions.items()
        ]

    def forget(self, destination: str) -> None:
        self._logs.pop(destination, None)
        self._subscriptions.pop((destination, "temporary"), None)


class MemoryProvider:
    """Destinations that exist as long as their process; safe to share between threads.

    Every message sent stays in memory, and a new subscription begins with the first message. A consumer
    keeps what it holds until it settles it or closes: no consumer is presumed dead. Dead letters of
    ``orders`` go to ``DLQ.orders``, with the reason in the property ``dead-letter-reason``. The delivery
    count is exact. A message with a future delivery time appears when it is due.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic), as long as the process
    lives; a restart forgets what was sent.
    """

    def __init__(self, *, broker: _MemoryBroker | None = None, shell: Shell | None = None) -> None:
        self._broker = broker or _MemoryBroker()
        self._shell = shell or ThreadShell()

    def for_asyncio(self) -> "MemoryProvider":
        """Return a view of the same destinations with receivers that do not block the event loop."""
        return MemoryProvider(broker=self._broker, shell=TaskShell())

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Append messages and return their JMSMessageIDs."""
        with self._broker.changed:
            names = [self._broker.append(destination, message) for message in messages]
            self._broker.announce()
        return names

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> "MemoryReceiver":
        """Open a receiver; the destination and the subscription are made if they do not exist."""
        with self._broker.changed:
            joined = self._broker.subscription(destination, subscription)
            if name in joined.consumers:
                raise ConfigurationError(
                    "name",
                    f"{name!r} is the name of another consumer of {subscription!r} on {destination!r}",
                    "give each consumer its own name",
                )
            joined.consumers[name] = set()
        return MemoryReceiver(self._broker, joined, self._shell, destination=destination, name=name)

    async def open_temporary(self, purpose: str) -> tuple[str, "MemoryReceiver"]:
        """Open the only consumer of a new destination; its messages are forgotten when it closes."""
        destination = f"temporary:{purpose}:{uuid4().hex}"
        with self._broker.changed:
            joined = self._broker.subscription(destination, "temporary")
        left = partial(self._broker.forget, destination)
        receiver = MemoryReceiver(
            self._broker, joined, self._shell, destination=destination, name="owner", left=left
        )
        return destination, receiver

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return what waits for each subscription that ever had a receiver."""
        with self._broker.changed:
            return in_order(self._broker.backlogs(), places)

    async def close(self) -> None:
        """Do nothing: sent messages stay until the process ends."""


class MemoryReceiver:
    """A consumer of a :class:`MemoryProvider`; handles are places in the destination's log."""

    #: Nothing is ever taken over, so a long interval is enough.
    keep_alive_interval = timedelta(seconds=10)

    def __init__(
        self,
        broker: _MemoryBroker,
        subscription: _Subscription,
        shell: Shell,
        *,
        destination: str,
        name: str,
        left: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._subscription = subscription
        self._shell = shell
        self._destination = destination
        self._name = name
        self._left = left
        self._held = subscription.consumers.setdefault(name, set())
        self._closed = False

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries: those due again first, then new ones."""
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            with self._broker.changed:
                later = self._broker.deliver_later_ones()
                silenced = self._subscription.alone is not None and self._subscription.alone is not self._held
                taken, seen = [] if silenced else self._subscription.take(limit), self._broker.changes
                self._held.update(taken)
                due = deadline if silenced else self._subscription.next_due()
                pause = min(deadline, later, due) - time.monotonic()
            if taken or time.monotonic() >= deadline:
                return [self._arrival(number) for number in taken]
            await self._broker.wait(self._shell, seen, max(pause, 0))

    def _arrival(self, number: int) -> Arrival:
        count = self._subscription.counts[number]
        changes = {"delivery_count": count, "redelivered": count > 1}
        return Arrival(self._subscription.log[number].model_copy(update=changes), number)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Forget these."""
        with self._broker.changed:
            self._answer(received)

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give these back."""
        with self._broker.changed:
            for number in self._answer(received):
                self._subscription.give_back(number, delay)
            self._broker.announce()

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to ``DLQ.<destination>``."""
        with self._broker.changed:
            for number in self._answer(received):
                message = self._subscription.log[number]
                properties = {**message.properties, "dead-letter-reason": reason}
                letter = message.model_copy(update={"properties": properties})
                self._broker.append(f"DLQ.{self._destination}", letter)
            self._broker.announce()

    async def take_over_all(self) -> None:
        """Take what other receivers hold, and recovered messages; no other receives until this one closes."""
        with self._broker.changed:
            for others in self._subscription.consumers.values():
                if others is not self._held:
                    self._subscription.due.update(dict.fromkeys(others, 0.0))
                    others.clear()
            self._subscription.due = dict.fromkeys(self._subscription.due, 0.0)
            self._subscription.alone = self._held
            self._broker.announce()

    async def keep_alive(self) -> None:
        """Do nothing: held messages stay held."""

    async def close(self) -> None:
        """Give back unsettled messages, and free the name."""
        with self._broker.changed:
            if self._closed:
                return  # another receiver may have the name by now
            self._closed = True
            for number in self._held:
                self._subscription.give_back(number, AT_ONCE)
            self._held.clear()
            del self._subscription.consumers[self._name]
            self._subscription.alone = (
                None if self._subscription.alone is self._held else self._subscription.alone
            )
            self._left()
            self._broker.announce()

    def _answer(self, received: Sequence[Received]) -> list[int]:
        """Remove and return those of ``received`` that are still held."""
        numbers = [cast("int", delivery.handle) for delivery in received]
        own = [number for number in numbers if number in self._held]
        self._held.difference_update(own)
        return own
