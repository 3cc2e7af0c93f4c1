"""A carrier over any provider: an address is a destination, and to delete is to acknowledge."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from history.message import Message
from triggers.providers.provider import Arrival, Provider, Received, Receiver, Unreadable

#: How many messages one reading of an inbox fetches at most.
READ_AT_ONCE: Final = 200

#: One reading does not wait for more.
NO_WAIT: Final = timedelta(milliseconds=1)


class ProviderCarrier:
    """Messages through Redis Streams or any other provider; one agent receives for an address.

    A message that was read and not deleted comes again, once the agent has left or is known to be dead.

    Guarantee: none by itself; the provider's guarantee, as far as it keeps what it was sent.
    """

    def __init__(self, provider: Provider, *, name: str) -> None:
        self._provider = provider
        self._name = name
        self._receivers: dict[str, Receiver] = {}
        self._held: dict[str, dict[str, Received]] = {}
        self._count = 0

    async def put(self, address: str, data: bytes) -> None:
        """Send a message."""
        await self._provider.send(address, [Message(body=data)])

    async def list(self, address: str) -> Sequence[str]:
        """Fetch what has arrived, and return the names of everything that is not deleted."""
        receiver = self._receivers.get(address)
        if receiver is None:
            receiver = self._receivers[address] = await self._provider.open_receiver(
                address, subscription="doubtless-link", name=self._name
            )
        unanswered = self._held.setdefault(address, {})
        await receiver.keep_alive()
        for delivery in await receiver.receive(READ_AT_ONCE, NO_WAIT):
            self._count += 1
            unanswered[f"{self._count:012}"] = delivery
        return list(unanswered)

    async def get(self, address: str, name: str) -> bytes:
        """Return a message; if the provider could not read it, its fields."""
        match self._held.get(address, {})[name]:
            case Arrival(message=message):
                body = message.body
                return body if isinstance(body, bytes) else str(body).encode("utf-8", "surrogatepass")
            case Unreadable(fields=fields):
                return b"".join(fields.values())

    async def delete(self, address: str, names: Iterable[str]) -> None:
        """Acknowledge messages."""
        unanswered = self._held.get(address, {})
        deletable = [name for name in names if name in unanswered]
        if deletable:
            await self._receivers[address].acknowledge([unanswered[name] for name in deletable])
        for name in deletable:
            unanswered.pop(name, None)

    async def close(self) -> None:
        """Give back everything that is not deleted, and leave the provider."""
        for receiver in self._receivers.values():
            await receiver.close()
        self._receivers.clear()
        self._held.clear()
        await self._provider.close()
