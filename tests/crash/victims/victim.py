"""The processes of the crash matrix: ``victim kill|finish FOLDER PROVIDER HISTORY``.

``kill`` forks one process for each death, so that the imports take time only once. It ends with 0 if SIGKILL
ended each of them. ``finish`` is an ordinary consumer of all their streams, until SIGTERM.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from history import open_history
from history.bridge import drive
from tests.crash.helpers import deaths
from tests.crash.helpers.deaths import DEATHS, DOOMED, DOOMED_PLACE, Death, Inside, Point
from tests.fixtures.ledger import Ledger
from tests.fixtures.waiting import PATIENCE
from triggers import (
    Consumer,
    Delivery,
    FatalError,
    Message,
    RetrievalFailureEvent,
    Trigger,
    on_retrieval_failure,
    trigger,
)
from triggers.pipeline.pipeline import Step
from triggers.providers import open_provider

#: A process that must die gives up after so many seconds without a message: then it was not killed.
HOPELESS = PATIENCE / 2

#: So many processes live at the same time. If more begin together, they lock a SQLite file for seconds. Then
#: a message is delivered again, and its process dies at another message than planned.
AT_ONCE = 4

#: For how long a dead process is presumed alive.
LEASE = timedelta(seconds=1)

Reach = Callable[[Point], None]


def effects_of(folder: Path, death: Death) -> Ledger:
    """Return the file with the effects of a death's services: uuid and JMSMessageID."""
    return Ledger(folder / f"{death.name}.effects")


def events_of(folder: Path) -> Ledger:
    """Return the file with the retrieval failure events: the trigger's name and the uuid."""
    return Ledger(folder / "events")


def make_trigger(folder: Path, history: str, death: Death, reach: Reach) -> Trigger[..., None]:
    """Make the trigger of one death; its service tells ``reach`` about the doomed message."""
    effects = effects_of(folder, death)
    # A Redis claims the next message with the completion of one: test_turns.py kills over that.
    prefetch = 1 if history.startswith("redis") else 10
    file = folder / "parked.sqlite3"

    @trigger(
        death.name, name=death.name, lease=LEASE, prefetch=prefetch, local_parking_file=file, journal=True
    )
    def work(message: Message, delivery: Delivery) -> None:
        tell: Reach = reach if delivery.uuid == DOOMED else _ignore
        tell(Inside.BEFORE_EFFECT)
        effects.note(delivery.uuid or "", message.message_id or "")
        tell(Inside.AFTER_EFFECT)
        if message.body == deaths.Path.FAILS:
            raise FatalError("this message makes no sense")

    return work


def die(folder: Path, provider: str, history: str, death: Death) -> None:
    """Consume until the doomed message has reached its point."""
    received = 0

    def reach(point: Point) -> None:
        nonlocal received
        received += point is Step.RECEIVED
        if received == DOOMED_PLACE and point == death.point:
            os.kill(os.getpid(), signal.SIGKILL)

    _note_events(folder)
    Consumer([make_trigger(folder, history, death, reach)], provider, history=history, observe=reach).run(
        until_idle=HOPELESS
    )


def kill_all(folder: Path, provider: str, history: str) -> list[str]:
    """Let one process die each death; return the names of the deaths that did not happen."""
    # Imports the drivers once for all of them; nothing is connected yet.
    drive(open_history(history).close())
    drive(open_provider(provider).close())
    return fork_all({death.name: partial(die, folder, provider, history, death) for death in DEATHS})


def fork_all(lives: Mapping[str, Callable[[], None]]) -> list[str]:
    """Live each life in a separate process; return the names of the lives that SIGKILL did not end."""
    children: dict[int, str] = {}
    survived: list[str] = []

    def bury() -> None:
        child, status = os.wait()
        name = children.pop(child)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            survived.append(name)

    for name, life in lives.items():
        if len(children) == AT_ONCE:
            bury()
        child = os.fork()
        if child == 0:
            _live(life)
        children[child] = name
    while children:
        bury()
    return survived


def _live(life: Callable[[], None]) -> NoReturn:
    """Run a forked child's life; it must not return into its parent's."""
    try:
        life()
    except BaseException:  # noqa: BLE001  (nobody above may see it)
        traceback.print_exc()
    finally:
        os._exit(1)


def finish(folder: Path, provider: str, history: str) -> None:
    """Consume the remaining messages of the killed processes, until SIGTERM."""
    _note_events(folder)
    triggers = [make_trigger(folder, history, death, _ignore) for death in DEATHS]
    Consumer(triggers, provider, history=history).run(signals=True)


def _note_events(folder: Path) -> None:
    events = events_of(folder)

    @on_retrieval_failure()
    def note(event: RetrievalFailureEvent) -> None:
        events.note(event.trigger_name, "" if event.message is None else event.message.uuid or "")


def _ignore(_point: Any) -> None:
    """Live on."""


if __name__ == "__main__":
    task, where, (provider_url, history_url) = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if task == "finish":
        finish(where, provider_url, history_url)
    elif survived := kill_all(where, provider_url, history_url):
        sys.exit(f"not killed: {survived}")
