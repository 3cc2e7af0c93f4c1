"""A consumer under load: ``loaded_consumer FOLDER PROVIDER HISTORY FORM``.

Two triggers of concurrency 4 note each run in a ledger. The log goes to standard error; SIGTERM ends it.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

# Import the code of the local parking file early, so that loading it does not count as growth.
import history.sql.history  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.fixtures.ledger import Ledger
from triggers import AsyncConsumer, Consumer, Message, Trigger, trigger

#: The streams, and the names of their triggers.
DESTINATIONS = ("orders", "invoices")

CONCURRENCY = 4

#: Without renewals, others presume a run alive for this time. They wait before they take its message.
LEASE = timedelta(seconds=5)

#: How long a run takes after its effect, in seconds: the server dies with some of them in flight.
WORK = 0.005


def effects_of(folder: Path) -> Ledger:
    """Where the runs are noted, by uuid."""
    return Ledger(folder / "effects")


def parking_file(folder: Path) -> Path:
    """The file that parks messages while no server can store them."""
    return folder / "parked.sqlite3"


def make_trigger(folder: Path, destination: str, *, blocking: bool) -> Trigger[..., Any]:
    effects = effects_of(folder)
    made = trigger(
        destination,
        name=destination,
        concurrency=CONCURRENCY,
        lease=LEASE,
        local_parking_file=parking_file(folder),
    )

    def work(message: Message) -> None:
        effects.note(message.uuid or "")
        time.sleep(WORK)

    async def work_in_a_task(message: Message) -> None:
        effects.note(message.uuid or "")
        await asyncio.sleep(WORK)

    return made(work) if blocking else made(work_in_a_task)


def main(folder: Path, provider: str, history: str, form: str) -> None:
    """Consume until a signal comes: in threads (blocking), or in tasks (asyncio)."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    blocking = form == "blocking"
    triggers = [make_trigger(folder, destination, blocking=blocking) for destination in DESTINATIONS]
    if blocking:
        Consumer(triggers, provider, history=history).run(signals=True)
    else:
        asyncio.run(_consume(triggers, provider, history))


async def _consume(triggers: Sequence[Trigger[..., Any]], provider: str, history: str) -> None:
    await AsyncConsumer(triggers, provider, history=history).run(signals=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5])
