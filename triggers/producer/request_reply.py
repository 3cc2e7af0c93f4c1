"""Requests that wait for a reply: one destination for the replies of a producer, and one listener on it.

:func:`first_reply` answers a duplicate request with the result of the service for the first one.

Source: webMethods ``pub.jms:sendAndWait`` with a dedicated listener. A reply belongs to the request with
its JMSCorrelationID as the uuid.
"""

import logging
import re
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from pydantic_core import to_jsonable_python

from history.errors import ConfigurationError, UnavailableError
from history.message import Message
from history.shell import Flag, Shell
from history.support.outage import Outage
from triggers.providers.outgoing import Body, correlation_of
from triggers.providers.provider import (
    Arrival,
    DestinationGoneError,
    Provider,
    Received,
    Receiver,
    capabilities_of,
)

if TYPE_CHECKING:
    from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)

#: How long the listener waits for replies before it checks whether it must end.
_LISTEN = timedelta(milliseconds=500)

#: How many replies it fetches at a time.
_FETCH = 100


class WaitingRequest:
    """One request that waits for its reply."""

    def __init__(self, flag: Flag) -> None:
        self._flag = flag
        self._reply: Message | None = None

    def give(self, reply: Message) -> None:
        """Pass the reply on."""
        self._reply = reply
        self._flag.set()

    async def wait(self, patience: timedelta) -> Message | None:
        """Return the reply; None if it has not come in time."""
        await self._flag.wait(patience.total_seconds())
        return self._reply


class Replies:
    """The destination of the replies to one producer, and the waiting requests; opened by the first request.

    It is a temporary destination, if the provider has any; else one with a unique name, which stays.
    """

    def __init__(self, provider: Provider, shell: Shell, alias: str) -> None:
        self._provider = provider
        self._shell = shell
        self._alias = alias
        self._waiting: dict[str, WaitingRequest] = {}
        self._lock = threading.Lock()
        self._opening = shell.lock()
        self._destination: str | None = None

    async def open(self) -> str:
        """Return the destination for replies; it exists, and the listener runs.

        Raises:
            ProviderUnavailableError: it cannot be made now.
        """
        if self._destination is None:
            async with self._opening:
                if self._destination is None:
                    destination, receiver = await self._make()
                    self._shell.spawn(f"doubtless-replies-{self._alias}", lambda: self._listen(receiver))
                    self._destination = destination
        return self._destination

    async def _make(self) -> tuple[str, Receiver]:
        temporary = capabilities_of(self._provider).temporary_destinations
        if temporary is not None:
            return await temporary.open_temporary(f"replies:{self._alias}")
        # Only characters that every broker takes; SQS takes 75 of them.
        alias = re.sub("[^A-Za-z0-9_-]", "-", self._alias)[:20]
        destination = f"doubtless-replies-{alias}-{uuid4().hex}"
        return destination, await self._provider.open_receiver(
            destination, subscription="replies", name="owner"
        )

    @contextmanager
    def expecting(self, request: Message) -> Generator[WaitingRequest]:
        """Expect the reply to a request while entered; a reply that comes later is dropped.

        Raises:
            ConfigurationError: another request with the same identity waits already.
        """
        correlation = correlation_of(request)
        waiting = WaitingRequest(self._shell.flag())
        with self._lock:
            if correlation in self._waiting:
                raise ConfigurationError(
                    "uuid", f"a request {correlation!r} waits for its reply already", "give another uuid"
                )
            self._waiting[correlation] = waiting
        try:
            yield waiting
        finally:
            with self._lock:
                del self._waiting[correlation]

    async def _listen(self, receiver: Receiver) -> None:
        """Hand out replies until the shell is over; then give the destination back."""
        outage, alive_due = self._outage(), 0.0
        while not self._shell.over.is_set():
            try:
                received = await receiver.receive(_FETCH, _LISTEN)
                self._hand_out(received)
                await receiver.acknowledge(received)
                if time.monotonic() >= alive_due:
                    await receiver.keep_alive()
                    alive_due = time.monotonic() + receiver.keep_alive_interval.total_seconds()
                outage.end()
            except DestinationGoneError as error:
                # The next request opens another one; the waiting requests get no reply any more.
                _log.warning(
                    "producer %s: replies that were under way are lost, and their requests time out: %s",
                    self._alias,
                    error,
                    extra={"alias": self._alias},
                )
                self._destination = None
                break
            except Exception as error:  # noqa: BLE001  (nobody else listens: the requests would wait for ever)
                await self._shell.over.wait(outage.note(error))
        with suppress(UnavailableError, ConfigurationError):
            await receiver.close()

    def _outage(self) -> Outage:
        fails, works = "replies cannot be received", "replies are received again"
        about = f"producer {self._alias}"
        return Outage(_log, f"{about}: {fails}", f"{about}: {works}", {"alias": self._alias})

    def _hand_out(self, received: Sequence[Received]) -> None:
        for delivery in received:
            if not isinstance(delivery, Arrival):
                _log.warning(
                    "producer %s: dropped a reply that cannot be read: %s",
                    self._alias,
                    delivery.problem,
                    extra={"alias": self._alias},
                )
                continue
            reply = delivery.message
            with self._lock:
                waiting = self._waiting.get(reply.correlation_id or "")
            if waiting is None:
                _log.info(
                    "producer %s: dropped the reply %s: nobody waits for the answer to %s any more",
                    self._alias,
                    reply.uuid,
                    reply.correlation_id,
                    extra={"alias": self._alias, "uuid": reply.uuid},
                )
            else:
                waiting.give(reply)


def first_reply(request: Message, outcome: "Outcome") -> Body | None:
    """Return what the first run of a request returned; None if there is nothing to reply."""
    if request.reply_to is None:
        return None
    result = outcome.result
    if not outcome.result_kept or result is None:
        why = "its service returned nothing" if outcome.result_kept else "no result of the first is kept"
        extra = {"uuid": request.uuid}
        _log.warning("%s: a duplicate request has no reply: %s", request.uuid, why, extra=extra)
        return None
    return result if isinstance(result, bytes | str) else to_jsonable_python(result)
