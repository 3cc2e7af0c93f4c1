"""One process of an atomic chaos soak: ``python -m benchmarks.chaos.atomic_service PROVIDER HISTORY``.

Its effects are in the history's own database. SIGUSR1 makes it fork, as :mod:`benchmarks.chaos.service` does.
"""

import os
import sys

from sqlalchemy import Connection

from benchmarks.chaos.service import LONGEST_MOMENT, forks_at_a_signal
from benchmarks.soak_effects import NOTE
from benchmarks.soak_service import NAME, linger
from triggers import Message, trigger
from triggers.consumer import Consumer


def main(provider: str, history: str) -> None:
    """Consume until a signal comes."""

    @trigger(NAME, name=NAME, history=history, concurrency=4, transacted=True)
    def work(message: Message, connection: Connection) -> None:
        recent.append(message)
        linger(LONGEST_MOMENT)
        row = {"uuid": message.uuid, "message_id": message.message_id, "pid": str(os.getpid())}
        connection.execute(NOTE, row)
        linger(LONGEST_MOMENT)

    recent = forks_at_a_signal(work.handle)
    Consumer([work], provider, parent=os.getppid()).run(signals=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
