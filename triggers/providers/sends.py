"""What the service of a transacted trigger sends: it leaves once the service has succeeded, and not before.

A try that fails has sent nothing. A message that is given no uuid has one that follows from the trigger, the
delivery's uuid and the number of the message in this run. So a try after a crash sends the same messages
again, and whoever detects duplicates downstream runs each of them once.
"""

import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

#: The uuids of what services send are made in this namespace.
_SENT = uuid5(NAMESPACE_URL, "urn:doubtless:sent")

#: Sends what was kept; is given the connection of the service's transaction, None where it has none.
Leave = Callable[[Any], Awaitable[object]]


class Sends:
    """What one run of a service has sent so far, in order.

    Args:
        trigger: its name.
        uuids: of the messages that it runs for; several in a batch.
    """

    def __init__(self, trigger: str, uuids: Sequence[str]) -> None:
        self._source = [trigger, *uuids]
        self._numbers = count(1)
        self._kept: list[Leave] = []

    def fresh_uuid(self) -> str:
        """Return the uuid of the next message that has none: the same in each run for the same delivery."""
        return str(uuid5(_SENT, json.dumps([*self._source, next(self._numbers)])))

    def keep(self, leave: Leave) -> None:
        """Have something sent once the service has succeeded."""
        self._kept.append(leave)

    async def leave(self, connection: Any) -> None:
        """Send all that was kept, in order.

        Raises:
            Exception: what a provider raised; the run has failed, and what has left already has its uuid.
        """
        for leave in self._kept:
            await leave(connection)


_RUNNING: ContextVar[Sends | None] = ContextVar("doubtless_sends", default=None)


def running_sends() -> Sends | None:
    """Return what the running service of a transacted trigger has sent; None outside of one."""
    return _RUNNING.get()


@contextmanager
def sending(sends: Sends) -> Generator[None]:
    """Keep what is sent for as long as the block takes: in its thread or task, and in those it starts."""
    outer = _RUNNING.set(sends)
    try:
        yield
    finally:
        _RUNNING.reset(outer)


def fresh_uuid() -> str:
    """Return the uuid of a message that is given none: derived in a transacted service, else random."""
    sends = _RUNNING.get()
    return str(uuid4()) if sends is None else sends.fresh_uuid()
