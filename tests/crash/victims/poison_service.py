"""A service that kills its process when a "poison" arrives: ``TRIGGER PROVIDER HISTORY EVENTS``."""

import os
import signal
import sys
from pathlib import Path

from sqlalchemy import Connection

from tests.fixtures.ledger import Ledger
from triggers import Consumer, Message, RetrievalFailureEvent, on_retrieval_failure, trigger

#: After so many deliveries a message is rejected.
LIMIT = 3

#: After so many seconds without a message the consumer ends by itself.
IDLE = 1.5


# Without a lease: each wait for the end of a lease would count as a delivery.
@trigger("replayed", name="replayed", max_delivery_count=LIMIT, in_doubt="execute", prefetch=1, lease=None)
def replayed(message: Message) -> None:
    """Run again after a crash, as the trigger says that it may."""
    _survive(message)


@trigger("atomic", name="atomic", max_delivery_count=LIMIT, transacted=True, prefetch=1)
def atomic(message: Message, connection: Connection) -> None:
    """Run again after a crash: the first run was rolled back."""
    _survive(message)


@trigger(
    "unremembered", name="unremembered", max_delivery_count=LIMIT, transacted=True, prefetch=1, history=None
)
def unremembered(message: Message) -> None:
    """Run again after a crash: without a history, the first run is forgotten."""
    _survive(message)


TRIGGERS = {trigger.name: trigger for trigger in (replayed, atomic, unremembered)}


def _survive(message: Message) -> None:
    if message.body == "poison":
        os.kill(os.getpid(), signal.SIGKILL)


def main(name: str, provider: str, history: str, events: str) -> None:
    """Consume until nothing comes any more."""
    told = Ledger(Path(events))

    @on_retrieval_failure()
    def note(event: RetrievalFailureEvent) -> None:
        told.note(event.trigger_name, event.cause.name, str(event.delivery_count))

    Consumer([TRIGGERS[name]], provider, history=history).run(until_idle=IDLE)


if __name__ == "__main__":
    main(*sys.argv[1:])
