"""One process of the chaos soak: ``python -m benchmarks.chaos.service PROVIDER HISTORY``, until SIGTERM.

SIGUSR1 makes it fork: the child handles copies of the last messages again, as a pool of workers does that was
forked from a process at work, and ends.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable

from benchmarks.soak_service import LEASE, NAME, have_effect
from triggers import Delivery, Message, trigger
from triggers.consumer import Consumer

#: How many of the last messages a fork handles again.
COPIES = 20

#: The longest moment on either side of the effect, in seconds: so that troubles, some of which take seconds,
#: happen to consumers at work.
LONGEST_MOMENT = 0.02


def forks_at_a_signal(handle: Callable[[Message], object]) -> deque[Message]:
    """Have SIGUSR1 fork a child that handles copies of the last messages; return where to note them."""
    recent: deque[Message] = deque(maxlen=COPIES)

    def fork(_signal: int, _frame: object) -> None:
        if os.fork() == 0:
            for message in tuple(recent):
                handle(message)
            os._exit(0)

    signal.signal(signal.SIGUSR1, fork)
    return recent


def main(provider: str, history: str) -> None:
    """Consume until a signal comes."""

    @trigger(NAME, name=NAME, history=history, concurrency=4, lease=LEASE)
    def work(message: Message, delivery: Delivery) -> None:
        recent.append(message)
        have_effect(message, delivery, LONGEST_MOMENT)

    recent = forks_at_a_signal(work.handle)
    Consumer([work], provider, parent=os.getppid()).run(signals=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
