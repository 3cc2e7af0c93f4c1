"""One process of the soak test: ``python -m benchmarks.soak_service PROVIDER HISTORY``, until SIGTERM.

Its service has an effect in a file, with moments before and after it to be killed in.
"""

import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path

from tests.fixtures.ledger import Ledger
from triggers import Delivery, Message, trigger
from triggers.consumer import Consumer

#: The name of the environment variable that names the file of effects: uuid, JMSMessageID and process.
EFFECTS = "SOAK_EFFECTS"

#: The trigger, and the stream that it receives from.
NAME = "soak"

#: The longest moment on either side of the effect, in seconds.
LONGEST_MOMENT = 0.004

#: For how long what was killed is presumed alive.
LEASE = timedelta(seconds=1)


@trigger(NAME, name=NAME, concurrency=4, lease=LEASE)
def work(message: Message, delivery: Delivery) -> None:
    """Have an effect that would show if it happened twice."""
    have_effect(message, delivery)


def have_effect(message: Message, delivery: Delivery, longest: float = LONGEST_MOMENT) -> None:
    """Note the message, with moments before and after it to be killed in, of so many seconds at most."""
    linger(longest)
    Ledger(Path(os.environ[EFFECTS])).note(delivery.uuid or "", message.message_id or "", str(os.getpid()))
    linger(longest)


def linger(longest: float = LONGEST_MOMENT) -> None:
    """Give whoever kills processes a moment to do so."""
    time.sleep(random.uniform(0, longest))  # noqa: S311  (no secret)


if __name__ == "__main__":
    provider, store = sys.argv[1:]
    Consumer([work], provider, history=store, parent=os.getppid()).run(signals=True)
