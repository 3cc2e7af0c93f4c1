"""What a consumer needs of a trigger's pipeline, whichever of the two it is."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, Self

from history.message import Message
from history.shell import Shell
from history.store import HistoryStore
from history.store.parking import Parking
from triggers.pipeline.duplicates import Forward
from triggers.pipeline.execution import Pause
from triggers.pipeline.judge import Judge
from triggers.pipeline.sharing.turn import Turns
from triggers.providers.provider import Capabilities, Received, Receiver, Unreadable
from triggers.service.outcome import Outcome


class Pipeline(Protocol):
    """What a trigger does with its messages, over a blocking or an asyncio history."""

    @property
    def shell(self) -> Shell:
        """How it waits: in the thread that calls it, or in a task."""
        ...

    @property
    def store(self) -> HistoryStore | None:
        """The history that it claims in; None without one."""
        ...

    @property
    def parking(self) -> Parking | None:
        """Where it keeps messages aside, but for the local file."""
        ...

    @property
    def upkeep(self) -> Callable[[], Awaitable[None]] | None:
        """What is to be done from time to time, as often as the history forgets what has expired."""
        ...

    @property
    def turns(self) -> Turns | None:
        """What a worker knows of its message and of the next; None where each is handled by itself."""
        ...

    @property
    def at_once(self) -> int:
        """How many messages a worker is to deliver in its next call."""
        ...

    def turning(self, goes_on: Callable[[], bool]) -> Self:
        """Return the same pipeline for one worker, whose messages share calls or transactions.

        ``goes_on`` says whether another message may be begun.
        """
        ...

    def gathering(self) -> Self:
        """Return the same pipeline for many tasks, which share calls to the history where they can."""
        ...

    def at(self, index: int) -> Self:
        """Return the same pipeline for the messages of one of the trigger's destinations, by its index."""
        ...

    def waiting(self, pause: Pause) -> Self:
        """Return the same pipeline, waiting by ``pause`` between the tries of a message."""
        ...

    def forwarding(self, forward: Forward) -> Self:
        """Return the same pipeline, sending duplicates by ``forward`` where the trigger wants it."""
        ...

    def judged(self, by: Callable[[Judge], Judge]) -> Self:
        """Return the same pipeline under other judges, each made of the usual one."""
        ...

    async def deliver(
        self, receiver: Receiver, received: Sequence[Received], can: Capabilities | None = None
    ) -> Sequence[Outcome]:
        """Handle what a receiver handed over, and answer all of it."""
        ...

    async def handle(self, message: Message) -> Outcome:
        """Handle one message that no receiver waits for."""
        ...

    async def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Handle many messages, as if each came alone."""
        ...

    async def park_unreadable(self, unreadable: Unreadable) -> bool:
        """Keep a delivery that is no message, whole, and say so; False when nothing could take it."""
        ...

    async def close(self) -> None:
        """Stop renewing leases, and give back the connections that were opened for this pipeline."""
        ...
