"""A process that sends with a client-side queue until it is killed.

``sender_process PROVIDER QUEUE LEDGER NAME FIRST LAST`` sends ``<name>-<n>`` to the
stream ``orders-<name>``, and notes each in the ledger once ``send`` has returned. Then it drains until
nothing waits.
"""

import sys
from datetime import timedelta
from pathlib import Path

from tests.fixtures.ledger import Ledger
from triggers import Producer, Retry


def main(provider: str, queue: str, ledger: str, name: str, numbers: range) -> None:
    noted = Ledger(Path(ledger))
    retry = Retry(max_attempts=1, interval=timedelta(milliseconds=10))
    with Producer(provider, queue=queue, retry=retry) as producer:
        noted.note("begun", name)
        for number in numbers:
            uuid = f"{name}-{number:05}"
            producer.send(f"orders-{name}", {"number": number}, uuid=uuid)
            noted.note(uuid)
        while producer.drain().left:
            pass


if __name__ == "__main__":
    where, queue_file, ledger_file, who, first, last = sys.argv[1:]
    main(where, queue_file, ledger_file, who, range(int(first), int(last)))
