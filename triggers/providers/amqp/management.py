"""Declares and reads queues and exchanges of RabbitMQ over AMQP 1.0: a pair of links that speak HTTP's words.

Source: RabbitMQ's "HTTP over AMQP 1.0" management node, ``/management``.
"""

from concurrent.futures import Future
from typing import Any, cast
from urllib.parse import quote

from history.shell import fail, fulfil
from triggers.providers.amqp.connection import AmqpConnection, AmqpError, Link
from triggers.providers.amqp.driver import driver

_NODE = "/management"

#: A body with the value null, as AMQP 1.0 writes it.
_NULL = b"\x00\x53\x77\x40"

#: The meaning of an answer's status, in the words of AMQP's conditions.
_CONDITIONS = {
    "400": "amqp:precondition-failed",
    "403": "amqp:unauthorized-access",
    "404": "amqp:not-found",
    "405": "amqp:resource-locked",
    "409": "amqp:precondition-failed",
}


class Management(Link):
    """A pair of links, one for requests and one for answers."""

    def __init__(self, connection: AmqpConnection) -> None:
        super().__init__(connection, _NODE, lambda _: None)
        self._requests: Any = None
        self._waiting: dict[str, Future[Any]] = {}
        self._queue: list[bytes] = []
        self._number = 0

    def make(self, session: Any, name: str) -> Any:
        """Return the receiver; keep the sender as well."""
        answers, self._requests = session.receiver(name), session.sender(name)
        for link in (answers, self._requests):
            link.source.address = link.target.address = _NODE
            link.snd_settle_mode = driver.Link.SND_SETTLED
            link.properties = driver.PropertyDict({driver.symbol("paired"): True})
        self._requests.open()
        return answers

    def owns(self, link: Any) -> bool:
        """Whether an event belongs to one of the two links."""
        return link in (self.proton, self._requests)

    def opened(self) -> None:
        """Allow answers to come."""
        if self.proton.credit == 0:
            self.proton.flow(100)
        super().opened()

    def flowed(self) -> None:
        """Send as much as the credit allows."""
        while self._queue and self._requests.credit > 0:
            delivery = self._requests.delivery(str(self._number))
            self._requests.stream(self._queue.pop(0))
            self._requests.advance()
            delivery.settle()

    def delivered(self, delivery: Any) -> None:
        """Pass an answer to the caller that waits for it."""
        if not (delivery.readable and not delivery.partial):
            return
        answer = driver.Message()
        answer.decode(bytes(self.proton.recv(delivery.pending) or b""))
        self.proton.advance()
        delivery.settle()
        self.proton.flow(1)
        future, status = self._waiting.pop(str(answer.correlation_id)), str(answer.subject)
        if status.startswith("2"):
            fulfil(future, answer.body)
        else:
            fail(future, AmqpError(_CONDITIONS.get(status, status), str(answer.body)))

    async def request(self, method: str, path: str, body: Any) -> Any:
        """Ask, and return the answer's body.

        Raises:
            ConfigurationError: RabbitMQ refuses it.
            ProviderUnavailableError: it does not answer.
        """

        def work(future: "Future[Any]") -> None:
            self._number += 1
            self._waiting[str(self._number)] = future
            message = driver.Message(
                id=str(self._number), subject=method, address=path, reply_to="$me", body=body, inferred=False
            )
            # proton omits a body that is None; RabbitMQ requires an explicit null.
            self._queue.append(cast("bytes", message.encode()) + (_NULL if body is None else b""))
            self.flowed()

        return await self.ask(f"{method} {path}", work)

    async def declare_queue(self, name: str, arguments: dict[str, Any], *, exclusive: bool = False) -> None:
        """Declare a durable queue; doing it again is harmless."""
        settings: dict[str, Any] = {
            "durable": True,
            "exclusive": exclusive,
            "auto_delete": False,
            "arguments": arguments,
        }
        await self.request("PUT", queue_address(name), settings)

    async def queue_type(self, name: str) -> str:
        """Return "quorum", "classic" or "stream"."""
        return str((await self._queue_named(name)).get("type"))

    async def queue_arguments(self, name: str) -> dict[str, Any]:
        """Return the arguments with which a queue was declared, including its type."""
        queue = await self._queue_named(name)
        return {**(queue.get("arguments") or {}), "x-queue-type": str(queue.get("type"))}

    async def counts_of(self, name: str) -> tuple[int, int]:
        """Return how many messages of a queue no consumer has received yet, and how many consumers it has."""
        queue = await self._queue_named(name)
        return int(queue["message_count"]), int(queue["consumer_count"])

    async def _queue_named(self, name: str) -> dict[str, Any]:
        return cast("dict[str, Any]", await self.request("GET", queue_address(name), None))

    async def declare_fanout(self, exchange: str) -> None:
        """Declare a durable fanout exchange."""
        settings: dict[str, Any] = {
            "durable": True,
            "type": "fanout",
            "auto_delete": False,
            "internal": False,
            "arguments": {},
        }
        await self.request("PUT", exchange_address(exchange), settings)

    async def bind(self, exchange: str, queue: str) -> None:
        """Let a queue receive what is sent to an exchange."""
        binding: dict[str, Any] = {
            "source": exchange,
            "destination_queue": queue,
            "binding_key": "",
            "arguments": {},
        }
        await self.request("POST", "/bindings", binding)


def queue_address(name: str) -> str:
    """Return a queue's address in RabbitMQ 4."""
    return f"/queues/{quote(name, safe='')}"


def exchange_address(name: str) -> str:
    """Return an exchange's address in RabbitMQ 4."""
    return f"/exchanges/{quote(name, safe='')}"
