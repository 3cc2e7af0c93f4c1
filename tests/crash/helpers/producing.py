"""A producer that sends the orders of the crash tests, despite all failures of its provider."""

import time
from collections.abc import Callable, Sequence

from history.bridge import drive
from tests.crash.helpers.books import MESSAGES, ORDERS
from tests.crash.victims.booking_service import NAME
from triggers import Message, UnavailableError, open_provider
from triggers.providers import Provider

#: How many are sent in one call; a fifth of them again with the next batch.
BATCH = 50


def produce(url: str, has_room: Callable[[], bool] = lambda: True) -> None:
    """Send everything, a fifth of it twice; send messages that may be lost again, with the same uuids.

    Before each batch wait until ``has_room``: some servers for tests get slow with long queues.
    """
    provider = open_provider(url)
    copies: Sequence[str] = []
    for first in range(0, MESSAGES + 1, BATCH):  # the last batch has only copies
        uuids = ORDERS[first : first + BATCH]
        batch = [Message(uuid=uuid, body={"id": int(uuid[6:])}) for uuid in [*uuids, *copies]]
        while not has_room():
            time.sleep(0.05)
        while not _arrived(provider, batch):
            time.sleep(0.1)
        copies = uuids[: BATCH // 5]
    drive(provider.close())


def _arrived(provider: Provider, batch: Sequence[Message]) -> bool:
    try:
        drive(provider.send(NAME, batch))
    except UnavailableError:
        return False
    return True
