"""One process of the soak test: ``python -m benchmarks.soak_service PROVIDER HISTORY``, until SIGTERM.

Its service has an effect in a file, with moments before and after it to be killed in.

SIGUSR1 makes it fork: the child handles copies of the last messages again, as a pool of workers does that was
forked from a process at work, and ends.
"""

import os
import random
import signal
import sys
import time
from collections import deque
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.fixtures.ledger import Ledger
from triggers import Delivery, Message, Trigger, trigger
from triggers.consumer import Consumer

#: The environment variable that names the file of effects: uuid, JMSMessageID and process.
EFFECTS = "SOAK_EFFECTS"

#: The trigger, and the stream that it receives from.
NAME = "soak"

#: The environment variable with the longest pause on either side of the effect, in seconds.
MOMENT = "SOAK_MOMENT"

#: The last messages. A fork handles them again.
RECENT = deque[Message](maxlen=20)

#: The lease: a killed run is presumed alive for this time.
LEASE = timedelta(seconds=1)


@trigger(NAME, name=NAME, concurrency=4, lease=LEASE)
def work(message: Message, delivery: Delivery) -> None:
    """Have an effect that shows if it happens twice."""
    linger(message)
    Ledger(Path(os.environ[EFFECTS])).note(delivery.uuid or "", message.message_id or "", str(os.getpid()))
    linger(message)


def linger(message: Message) -> None:
    """Pause in the middle of a message, so that kills and forks can happen there."""
    if not RECENT or RECENT[-1] is not message:
        RECENT.append(message)
    time.sleep(random.uniform(0, float(os.environ[MOMENT])))  # noqa: S311  (no secret)


def run(work: Trigger[..., Any], provider: str, history: str) -> None:
    """Consume until a signal comes."""

    def fork(_signal: int, _frame: object) -> None:
        if os.fork() == 0:
            for message in tuple(RECENT):
                work.handle(message)
            os._exit(0)

    signal.signal(signal.SIGUSR1, fork)
    Consumer([work], provider, history=history, parent=os.getppid()).run(signals=True)


if __name__ == "__main__":
    run(work, *sys.argv[1:])
