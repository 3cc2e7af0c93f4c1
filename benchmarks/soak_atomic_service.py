"""One process of the atomic soak: ``python -m benchmarks.soak_atomic_service PROVIDER HISTORY``.

Its service has an effect in the history's own database, with moments before and after it to be killed in.
"""

import os
import sys

from sqlalchemy import Connection

from benchmarks.soak_effects import NOTE
from benchmarks.soak_service import NAME, linger, run
from triggers import Message, trigger


@trigger(NAME, name=NAME, concurrency=4, transacted=True)
def work(message: Message, connection: Connection) -> None:
    """Have an effect that shows if it happens twice."""
    linger(message)
    row = {"uuid": message.uuid, "message_id": message.message_id, "pid": str(os.getpid())}
    connection.execute(NOTE, row)
    linger(message)


if __name__ == "__main__":
    run(work, *sys.argv[1:])
