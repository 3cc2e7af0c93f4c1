"""The processes of the atomic crash matrix: ``atomic_victim kill|finish PROVIDER HISTORY [SCHEME]``.

Like :mod:`tests.crash.victims.victim`, but the service writes its effect as a row in the history's database.
``HISTORY`` is ``provider's`` if the provider brings the history.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection, text

from history import open_history
from history.bridge import drive
from tests.crash.helpers.deaths import DOOMED, Inside, Point
from tests.crash.victims.victim import HOPELESS, fork_all
from triggers import Consumer, Message, Trigger, open_provider, trigger
from triggers.pipeline.pipeline import Step

#: Where a process dies; nothing of an atomic trigger that works is published or parked.
POINTS: list[Point] = [*(step for step in Step if step not in {Step.PUBLISHED, Step.PARKED}), *Inside]

#: The messages of each death, in this order.
UUIDS = ("first", DOOMED, "last")

#: Creates the table of effects.
TABLE = "CREATE TABLE effects (death TEXT, uuid TEXT)"

#: Says that the provider brings the history.
BROUGHT = "provider's"

Reach = Callable[[Point], None]


def name_of(point: Point) -> str:
    return f"atomic-{point.name}".lower()


def make_trigger(point: Point, reach: Reach, scheme: str) -> Trigger[..., None]:
    """Make the trigger of one death; ``scheme`` stands before the name of its destination."""

    @trigger(scheme + name_of(point), name=name_of(point), transacted=True)
    def work(message: Message, connection: Connection) -> None:
        doomed = message.sent_uuid == DOOMED
        if doomed:
            reach(Inside.BEFORE_EFFECT)
        effect = {"death": name_of(point), "uuid": message.sent_uuid}
        connection.execute(text("INSERT INTO effects VALUES (:death, :uuid)"), effect)
        if doomed:
            reach(Inside.AFTER_EFFECT)

    return work


def die(provider: str, history: str, scheme: str, point: Point) -> None:
    """Consume until the doomed message has reached its point."""
    received = 0

    def reach(reached: Point) -> None:
        nonlocal received
        received += reached is Step.RECEIVED
        if received == UUIDS.index(DOOMED) + 1 and reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    Consumer([make_trigger(point, reach, scheme)], provider, history=named(history), observe=reach).run(
        until_idle=HOPELESS
    )


def named(history: str) -> str | None:
    return None if history == BROUGHT else history


def main(task: str, provider: str, history: str, scheme: str = "") -> None:
    """Let one process die at each point, or consume the remaining messages."""
    if task == "finish":
        triggers = [make_trigger(point, lambda _: None, scheme) for point in POINTS]
        Consumer(triggers, provider, history=named(history)).run(signals=True)
        return
    if history != BROUGHT:
        drive(open_history(history).close())
    drive(open_provider(provider).close())
    if survived := fork_all(
        {name_of(point): partial(die, provider, history, scheme, point) for point in POINTS}
    ):
        sys.exit(f"not killed: {survived}")


if __name__ == "__main__":
    main(*sys.argv[1:])
