"""One process of the crash test of joins: ``joining_service FOLDER PROVIDER HISTORY``.

Its service has an effect in a file, with moments before and after it to be killed in.
"""

import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path

from tests.fixtures.ledger import Ledger
from triggers import Consumer, Delivery, Joined, Trigger, trigger
from triggers.consumer import crew as sweeper
from triggers.pipeline.joining import joins

#: The trigger, and the streams that it joins.
NAME = "ship"
DESTINATIONS = ("orders", "payments", "stocks")

#: The longest moment on either side of the effect, in seconds.
LONGEST_MOMENT = 0.015

#: For how long a killed process is presumed alive.
LEASE = timedelta(seconds=1)


def effects_of(folder: Path) -> Ledger:
    """Return the file with the effects: activation, the uuids of the parts, uuid of the join, process."""
    return Ledger(folder / "effects")


def make_trigger(folder: Path) -> Trigger[..., None]:
    effects = effects_of(folder)

    @trigger(DESTINATIONS, name=NAME, join="all", lease=LEASE, local_parking_file=folder / "parked.sqlite3")
    def ship(joined: Joined, delivery: Delivery) -> None:
        _linger()
        uuids = ",".join(message.uuid or "" for message in joined.values())
        effects.note(joined.activation, uuids, delivery.uuid or "", str(os.getpid()))
        _linger()

    return ship


def _linger() -> None:
    time.sleep(random.uniform(0, LONGEST_MOMENT))  # noqa: S311  (no secret)


if __name__ == "__main__":
    # A process that was killed counts as dead soon, so that the test need not wait.
    joins.HOLD = timedelta(seconds=1.5)
    sweeper.KEEP_INTERVAL = timedelta(seconds=0.3)
    folder, provider, history = sys.argv[1:]
    Consumer([make_trigger(Path(folder))], provider, history=history, parent=os.getppid()).run(signals=True)
