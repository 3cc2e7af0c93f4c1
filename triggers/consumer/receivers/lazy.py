"""DUPS_OK_ACKNOWLEDGE: acknowledgements are gathered and sent at intervals; a crash repeats some messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from triggers.providers.provider import AT_ONCE, RECEIVE_WAIT, Received, Receiver

#: How many acknowledgements are gathered at most.
MOST_GATHERED = 100


@dataclass(slots=True)
class LazyReceiver:
    """A receiver that sends gathered acknowledgements before a receive, when they are many, and at close."""

    receiver: Receiver
    _done: list[Received] = field(default_factory=list[Received])

    @property
    def keep_alive_interval(self) -> timedelta:
        """The inner receiver's interval."""
        return self.receiver.keep_alive_interval

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Acknowledge what has gathered, then receive."""
        await self._flush()
        return await self.receiver.receive(limit, wait)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Gather finished messages."""
        self._done += received
        if len(self._done) >= MOST_GATHERED:
            await self._flush()

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Recover immediately."""
        await self.receiver.recover(received, delay)

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move to the dead-letter destination immediately."""
        await self.receiver.dead_letter(received, reason)

    async def keep_alive(self) -> None:
        """Keep everything alive that the provider does not know to be done."""
        await self.receiver.keep_alive()

    async def close(self) -> None:
        """Acknowledge what has gathered, then close."""
        try:
            await self._flush()
        finally:
            await self.receiver.close()

    async def _flush(self) -> None:
        if self._done:
            await self.receiver.acknowledge(self._done)
            self._done = []
