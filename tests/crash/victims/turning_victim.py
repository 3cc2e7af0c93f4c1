"""The processes of the turns' crash test: ``turning_victim kill|finish FOLDER URL QUERY``.

``kill`` forks one process for each point. The process fetches all sent messages, and dies at its point, while
it handles the doomed message. ``finish`` is an ordinary consumer of the rest. Provider and history are one
Redis; ``QUERY`` is the query of the provider's URL.
"""

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from history import RedisHistory, open_history
from history.bridge import drive
from tests.crash.helpers.deaths import Inside
from tests.crash.victims.victim import HOPELESS, fork_all
from tests.fixtures.ledger import Ledger
from triggers import Consumer, Delivery, Trigger, trigger
from triggers.pipeline.pipeline import Step

#: The uuids of each stream; one call fetches them all.
UUIDS = [f"u{number}" for number in range(10)]

#: The message over which a process dies, in the middle of the fetched ones, and its place, from 1.
DOOMED, PLACE = "u4", 5

#: Beside the steps of the pipeline: before and after the call that does everything between two messages.
TURNS = ("before-turn", "after-turn")

#: Where processes die, by the names of their streams.
POINTS = [
    *(step.name for step in Step if step not in {Step.PUBLISHED, Step.PARKED}),
    *(point.name for point in Inside),
    *TURNS,
]

LEASE = timedelta(seconds=1)


def effects_of(folder: Path, point: str) -> Ledger:
    """Return the file with the effects of a stream's services."""
    return Ledger(folder / f"{point}.effects")


def make_trigger(folder: Path, point: str, reach: Callable[[str], None]) -> Trigger[..., None]:
    """Make the trigger of one point; its service tells ``reach`` about the doomed message."""
    effects = effects_of(folder, point)

    @trigger(point, name=point, lease=LEASE, local_parking_file=folder / "parked.sqlite3")
    def work(delivery: Delivery) -> None:
        doomed = delivery.uuid == DOOMED
        if doomed:
            reach(Inside.BEFORE_EFFECT.name)
        effects.note(delivery.uuid or "", "done")
        if doomed:
            reach(Inside.AFTER_EFFECT.name)

    return work


def die(folder: Path, url: str, query: str, point: str) -> None:
    """Consume until the doomed message has reached a point."""
    received = turns = 0

    def reach(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def observe(step: Step) -> None:
        nonlocal received
        received += step is Step.RECEIVED
        if received == PLACE:
            reach(step.name)

    store: Any = RedisHistory.from_url(url)
    usual = store.turn

    async def turn(*words: Any) -> Any:
        nonlocal turns
        turns += 1
        before, after = TURNS
        if turns == PLACE:
            reach(before)
        turned = await usual(*words)
        if turns == PLACE:
            reach(after)
        return turned

    store.turn = turn
    doomed = make_trigger(folder, point, reach)
    Consumer([doomed], url + query, history=store, observe=observe).run(until_idle=HOPELESS)


def main(task: str, folder: Path, url: str, query: str) -> None:
    """Let all die, or finish."""
    if task == "finish":
        triggers = [make_trigger(folder, point, lambda _: None) for point in POINTS]
        Consumer(triggers, url + query, history=url).run(signals=True)
        return
    # Imports the driver once for all of them; nothing is connected yet.
    drive(open_history(url).close())
    if survived := fork_all({point: partial(die, folder, url, query, point) for point in POINTS}):
        sys.exit(f"not killed: {survived}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
