"""Services that send two messages are killed at every step, also between the two, and finished afterwards.

``sending_victim kill|finish FOLDER PROVIDER HISTORY``, as ``victim``. Each service is transacted, fails twice
and then succeeds; the kill comes in the try that succeeds. If a run died, a resolver lets its message run
again.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection

from history import open_history
from history.bridge import drive
from resolvers import Resolution
from tests.crash.victims.victim import HOPELESS, fork_all
from tests.fixtures.ledger import Ledger
from triggers import Consumer, Message, Producer, Redelivery, TransientError, Trigger, open_provider, trigger
from triggers.pipeline.pipeline import Step
from triggers.providers import Provider

LEASE = timedelta(seconds=1)
QUICKLY = Redelivery(timedelta(milliseconds=50), 1.0)

#: How often a service fails before it succeeds.
FAILURES = 2

#: Where a service sends: one message to each for each order.
DESTINATIONS = ("sends-invoices", "sends-letters")

#: The point of death: a step of the pipeline, or the moment after so many messages were sent.
POINTS: Sequence[str] = (
    *(step.name for step in Step if step not in {Step.PUBLISHED, Step.PARKED}),
    "LEFT_1",
    "LEFT_2",
)


class Case(NamedTuple):
    """One process, killed at a point.

    Its service takes a ``single`` message, a ``batch`` of two, or a connection (``atomic``).
    """

    kind: str
    point: str

    @property
    def name(self) -> str:
        return f"sends-{self.kind}-{self.point}"

    @property
    def orders(self) -> Sequence[str]:
        return ("order-1", "order-2") if self.kind == "batch" else ("order-1",)


def cases_of(provider: str, history: str) -> Sequence[Case]:
    """Return the cases of a provider; it may be in the history's database."""
    in_database = provider.startswith(history) and not history.startswith("redis")
    kinds = ("single", "batch", *(["atomic"] if in_database else []))
    return [Case(kind, point) for kind in kinds for point in POINTS]


def tries_of(folder: Path, case: Case) -> Ledger:
    """Return the file in which a service writes each run at its beginning."""
    return Ledger(folder / f"{case.name}.tries")


def left_by(folder: Path, case: Case) -> Ledger:
    """Return the file with the number of runs so far, one line for each sent message."""
    return Ledger(folder / f"{case.name}.left")


def effects_of(folder: Path) -> Ledger:
    """Return the file with the runs of the services downstream: case, destination and order."""
    return Ledger(folder / "downstream")


class Leaving:
    """A provider that kills its process after it has sent so many messages."""

    def __init__(self, url: str, leave: Callable[[], None]) -> None:
        self._inner = open_provider(url)
        self._leave = leave

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        names = await self._inner.send(destination, messages)
        self._leave()
        return names

    def sending(self, connection: Any) -> Any:
        """Send in a transaction, and perhaps die in it; only SQL-JMS does."""
        inner = cast("Any", self._inner).sending(connection)

        async def send(destination: str, messages: Sequence[Message]) -> None:
            await inner.asend_batch(destination, messages)
            self._leave()

        return SimpleNamespace(asend_batch=send)


def run_again(uuid: str, trigger_name: str, message: Message) -> Resolution:
    """Let a message run again after its run died: the messages that it sends have the same uuids."""
    return Resolution.NEW


def upstream(folder: Path, provider: str, case: Case, *, dies: bool) -> Trigger[..., None]:
    tries, left = tries_of(folder, case), left_by(folder, case)
    most = int(case.point[-1]) if dies and case.point.startswith("LEFT") else None

    def leave() -> None:
        left.note(str(tries.count()))
        if left.count() == most:
            _die()

    producer = Producer(cast("Provider", Leaving(provider, leave)))

    def work(*messages: Message) -> None:
        tries.note("try")
        for message in messages:
            for to in DESTINATIONS:
                # Another batch may come after a death, so its messages need uuids of their own.
                uuid = f"{case.name}-{to}-{message.uuid}" if case.kind == "batch" else None
                about = {"case": case.name, "order": message.uuid}
                producer.send(to, "", uuid=uuid, properties=about)
        if tries.count() <= FAILURES:
            raise TransientError("not yet")

    def single(message: Message) -> None:
        work(message)

    def batch(messages: list[Message]) -> None:
        work(*messages)

    def atomic(message: Message, connection: Connection) -> None:
        work(message)

    services: dict[str, Callable[..., None]] = {"single": single, "batch": batch, "atomic": atomic}
    special: dict[str, Any] = {
        "single": {"prefetch": 1, "lease": LEASE},
        "batch": {"batch": 10, "lease": LEASE},
        "atomic": {"prefetch": 1},
    }
    return trigger(
        case.name,
        name=case.name,
        transacted=True,
        redelivery=QUICKLY,
        resolver=run_again,
        **special[case.kind],
    )(services[case.kind])


def downstream(folder: Path, destination: str) -> Trigger[..., None]:
    """Make a trigger that writes down each message that it gets."""
    effects = effects_of(folder)

    @trigger(destination, name=destination)
    def note(message: Message) -> None:
        about = message.properties
        effects.note(str(about["case"]), destination, str(about["order"]))

    return note


def die(folder: Path, provider: str, history: str, case: Case) -> None:
    """Consume until the try that succeeds has reached its point."""
    tries, succeeds = tries_of(folder, case), False

    def reach(step: Step) -> None:
        nonlocal succeeds
        if step is Step.RECEIVED:
            succeeds = tries.count() >= FAILURES
        if succeeds and step.name == case.point:
            _die()

    made = upstream(folder, provider, case, dies=True)
    Consumer([made], provider, history=history, observe=reach).run(until_idle=HOPELESS)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def finish(folder: Path, provider: str, history: str) -> None:
    """Consume the remaining messages of the killed processes, and those downstream, until SIGTERM."""
    triggers = [upstream(folder, provider, case, dies=False) for case in cases_of(provider, history)]
    triggers += [downstream(folder, destination) for destination in DESTINATIONS]
    Consumer(triggers, provider, history=history).run(signals=True)


def main(task: str, where: str, provider: str, history: str) -> None:
    """Let one process die in each case, or consume the remaining messages."""
    folder = Path(where)
    if task == "finish":
        finish(folder, provider, history)
        return
    drive(open_history(history).close())
    drive(open_provider(provider).close())
    deaths = {
        case.name: partial(die, folder, provider, history, case) for case in cases_of(provider, history)
    }
    if survived := fork_all(deaths):
        sys.exit(f"not killed: {survived}")


if __name__ == "__main__":
    main(*sys.argv[1:])
