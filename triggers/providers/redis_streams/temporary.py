"""A stream that ends with its only consumer."""

from triggers.providers.redis_streams.keys import later_of
from triggers.providers.redis_streams.receiver import StreamReceiver

#: The prefix of such a stream; sending there does not create it again.
TEMPORARY = "doubtless:temporary:"

#: How long the stream outlives a consumer that died, in milliseconds: one hour.
AFTERLIFE = 3_600_000


class TemporaryReceiver(StreamReceiver):
    """The consumer of a temporary stream: it trims acknowledged entries, and at last deletes the stream."""

    async def open(self) -> None:
        """Create the stream, and let it expire unless it is kept alive."""
        await super().open()
        await self._outlive()

    async def keep_alive(self) -> None:
        """As any consumer; it also puts off the end of the stream."""
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
