"""The task of every framework writes an effect to a file. A kill may hit it before or after the effect."""

import os
import random
import time
from datetime import timedelta
from pathlib import Path

from tests.fixtures.ledger import Ledger

#: The longest time of each half of a task, in seconds. A kill hits the task somewhere in it.
LONGEST = float(os.environ.get("LONGEST", "0.05"))

#: If a worker is killed, other workers leave its task alone for this time.
LEASE = timedelta(seconds=4)

HISTORY, BROKER, QUEUE = os.environ["HISTORY"], os.environ["BROKER"], os.environ["QUEUE"]

#: Whether the tasks of this process are guarded.
GUARDED = os.environ["GUARDED"] == "yes"

effects = Ledger(Path(os.environ["EFFECTS"]))


def work(order: str) -> str:
    time.sleep(random.uniform(0, LONGEST))  # noqa: S311  (no secret)
    effects.note(order, str(os.getpid()))
    time.sleep(random.uniform(0, LONGEST))  # noqa: S311  (no secret)
    return f"booked {order}"
