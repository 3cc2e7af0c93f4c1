"""Services that send two messages are killed at every step, also between the two, and finished afterwards.

``sending_victim FOLDER PROVIDER HISTORY kill|finish``, as ``victim``. Each service is transacted, fails twice
and then succeeds; the kill comes in the try that succeeds. A resolver lets a message run again whose run
died.
"""

import os
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

from history.bridge import drive
from history.opening import open_history
from resolvers import Resolution
from tests.crash.victims.victim import fork_all
from tests.fixtures.ledger import Ledger
from triggers import Message, Producer, Redelivery, TransientError, Trigger, trigger
from triggers.consumer import Consumer
from triggers.pipeline.pipeline import Step
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider

IDLE = 3.0
LEASE = timedelta(seconds=1)
QUICKLY = Redelivery(timedelta(milliseconds=50), 1.0)

#: What a message fails before its service succeeds.
FAILURES = 2

#: Where a process dies: at a step of the pipeline, or when so many messages have left.
POINTS: Sequence[str] = (
    *(step.name for step in Step if step not in {Step.PUBLISHED, Step.PARKED}),
    "LEFT_1",
    "LEFT_2",
)


class Leaving:
    """A provider whose process dies when so many messages have left."""

    def __init__(self, url: str, dies_after: int | None) -> None:
        self._inner = open_provider(url)
        self._dies_after = dies_after
        self._left = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send, and perhaps die."""
        names = await self._inner.send(destination, messages)
        self._left += len(messages)
        if self._left == self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return names


def sent_by(folder: Path, point: str) -> Ledger:
    """Where the services downstream note what they have run: destination and uuid."""
    return Ledger(folder / f"{point}.downstream")


def run_again(uuid: str, trigger_name: str, message: Message) -> Resolution:
    """Let a message run whose run died: what it sends has the same uuids."""
    return Resolution.NEW


def upstream(folder: Path, provider: str, point: str, *, dies: bool) -> Trigger[..., None]:
    """Make the trigger that sends."""
    dies_after = int(point[-1]) if dies and point.startswith("LEFT") else None
    producer = Producer(cast("Provider", Leaving(provider, dies_after)))
    tries = Ledger(folder / f"{point}.tries")

    @trigger(
        f"orders-{point}",
        name=f"orders-{point}",
        transacted=True,
        redelivery=QUICKLY,
        lease=LEASE,
        resolver=run_again,
        prefetch=1,
    )
    def order(message: Message) -> None:
        tries.note(message.uuid or "", "")
        producer.send(f"invoices-{point}", {"of": message.uuid})
        producer.send(f"letters-{point}", {"of": message.uuid})
        if len(tries.lines()) <= FAILURES:
            raise TransientError("not yet")

    return order


def downstream(folder: Path, point: str, kind: str) -> Trigger[..., None]:
    """Make a trigger that notes what it was sent."""
    effects = sent_by(folder, point)

    @trigger(f"{kind}-{point}", name=f"{kind}-{point}")
    def note(message: Message) -> None:
        effects.note(kind, message.uuid or "")

    return note


def die(folder: Path, provider: str, history: str, point: str) -> None:
    """Consume until the try that succeeds has reached its point."""
    received = 0

    def reach(step: Step) -> None:
        nonlocal received
        received += step is Step.RECEIVED
        if received == FAILURES + 1 and step.name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    made = upstream(folder, provider, point, dies=True)
    Consumer([made], provider, history=history, observe=reach).run(until_idle=IDLE)


def finish(folder: Path, provider: str, history: str) -> None:
    """Consume what the dead have left, and what was sent downstream."""
    triggers = [
        made
        for point in POINTS
        for made in (
            upstream(folder, provider, point, dies=False),
            downstream(folder, point, "invoices"),
            downstream(folder, point, "letters"),
        )
    ]
    Consumer(triggers, provider, history=history).run(until_idle=IDLE)


def main() -> None:
    """Do what the arguments say."""
    folder, provider, history, what = Path(sys.argv[1]), *sys.argv[2:5]
    if what == "finish":
        finish(folder, provider, history)
        return
    drive(open_history(history).close())
    drive(open_provider(provider).close())
    survived = fork_all({point: partial(die, folder, provider, history, point) for point in POINTS})
    sys.exit(f"not killed: {survived}" if survived else 0)


if __name__ == "__main__":
    main()
