"""A stream that ends with its one consumer."""

from triggers.providers.redis_streams.keys import later_of
from triggers.providers.redis_streams.receiver import StreamReceiver

#: How the name of such a stream begins: what is sent there does not make it again.
TEMPORARY = "doubtless:temporary:"

#: How long the stream outlives a consumer that died, in milliseconds: one hour.
AFTERLIFE = 3_600_000


class TemporaryReceiver(StreamReceiver):
    """The consumer of a temporary stream: what is acknowledged is trimmed, and the stream deleted at last."""

    async def open(self) -> None:
        """Create the stream, and let it expire unless it is kept alive."""
        await super().open()
        await self._outlive()

    async def keep_alive(self) -> None:
        """As any consumer does; and put the end of the stream off."""
        await super().keep_alive()
        if not self._closed:
            await self._outlive()

    async def close(self) -> None:
        """Leave, and delete the stream."""
        if self._closed:
            return
        await super().close()
        stream = self._keys.stream
        await self._link.call("deleting a temporary stream", "DEL", stream, later_of(stream))

    async def _outlive(self) -> None:
        await self._link.call("keeping a temporary stream", "PEXPIRE", self._keys.stream, AFTERLIFE)
