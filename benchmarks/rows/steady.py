"""The steady state of a consumer on a broker: from the first message that is worked on to the last."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from benchmarks.bench import Bench
from benchmarks.measuring import WARM_UP, Times
from history.bridge import drive
from history.message import Message
from triggers import Consumer, open_provider, trigger

_NUMBERS = count()


@dataclass(slots=True)
class Steady:
    """The start times of the messages of one competitor's destination."""

    destination: str = field(default_factory=lambda: f"consumed-{next(_NUMBERS)}")
    times: list[float] = field(default_factory=list[float])

    def note(self) -> None:
        """Note the start of a message."""
        self.times.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """The time of one message."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1)


@dataclass(slots=True)
class Work:
    """One competitor's destination at the provider with this URL."""

    bench: Bench
    url: str
    steady: Steady = field(default_factory=Steady)

    def fill(self, messages: int) -> None:
        """Send so many messages."""
        provider = open_provider(self.url)
        drive(provider.send(self.steady.destination, self.bench.fresh(messages)))
        drive(provider.close())

    def consume(self, messages: int, *, query: str = "", **options: Any) -> None:
        """Run a consumer, of a trigger with these options, until it has worked on so many messages.

        ``query`` has the options of the provider's URL.
        """
        destination = self.steady.destination

        @trigger(destination, name=destination, history=self.bench.server.url, **options)
        def idle(message: Message) -> None:
            del message
            self.steady.note()
            if len(self.steady.times) == messages:
                consumer.stop()

        consumer = Consumer([idle], self.url + query)
        consumer.run(signals=True)  # as doubtless run does


#: The longest time of a round, in seconds.
PATIENCE = 300.0


@dataclass(slots=True)
class Calls:
    """The calls of a service that gets lists of messages, until there were so many messages."""

    wanted: int
    begun: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    total: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def note(self, messages: int) -> None:
        """Note a call with so many messages."""
        self.begun.append((time.perf_counter(), messages))
        self.total += messages
        if self.total >= self.wanted:
            self.done.set()

    def seconds_in(self, consumer: Consumer) -> float:
        """Run a consumer until there were enough; return the time of one message."""
        thread = threading.Thread(target=consumer.run)
        thread.start()
        finished = self.done.wait(PATIENCE)
        consumer.stop()
        thread.join()
        assert finished, "the messages were not done in time"
        (first, _), (last, messages) = self.begun[0], self.begun[-1]
        return (last - first) / (self.total - messages)


W = TypeVar("W", bound=Work)


@dataclass(frozen=True, slots=True)
class Turns:
    """The number of rounds that count, and of messages for each competitor in a round."""

    bench: Bench
    what: str
    rounds: int
    messages: int

    def run(self, make: Callable[[], W], passes: Mapping[str, Callable[[W, int], None]]) -> Times:
        """Let competitors take turns. ``make`` makes a new destination each time."""
        rounds: dict[str, list[float]] = {name: [] for name in passes}
        for number in self.bench.progress.track(range(self.rounds + WARM_UP), description=self.what):
            for name, run in passes.items():
                work = make()
                work.fill(self.messages)
                run(work, self.messages)
                if number >= WARM_UP:
                    rounds[name].append(work.steady.seconds)
        return Times(rounds)
