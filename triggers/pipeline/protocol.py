"""The methods of a trigger's pipeline that a consumer needs; both pipelines have them."""

from collections.abc import Callable, Sequence
from typing import Protocol, Self

from history.beside.parking import Parking
from history.message import Message
from history.shell import Shell
from history.store import HistoryStore
from triggers.pipeline.completion import HoldTrigger
from triggers.pipeline.duplicates import Forward
from triggers.pipeline.execution import Pause
from triggers.pipeline.judge import Judge
from triggers.pipeline.parking.lot import ParkingLot
from triggers.pipeline.sharing.turn import Turns
from triggers.providers.provider import Capabilities, Received, Receiver, Unreadable
from triggers.service.outcome import Outcome


class Pipeline(Protocol):
    """The processing of a trigger's messages, over a blocking or an asyncio history."""

    @property
    def shell(self) -> Shell:
        """How it waits: in the thread that calls it, or in a task."""
        ...

    @property
    def store(self) -> HistoryStore | None:
        """The history in which it claims; None without one."""
        ...

    @property
    def parking(self) -> Parking | None:
        """Where it parks messages, except in the local file."""
        ...

    @property
    def lot(self) -> ParkingLot:
        """Where it parks messages, with the local file."""
        ...

    @property
    def turns(self) -> Turns | None:
        """The worker's knowledge of its message and the next one; None if each is handled separately."""
        ...

    @property
    def at_once(self) -> int:
        """How many messages a worker delivers in its next call."""
        ...

    def turning(self, goes_on: Callable[[], bool]) -> Self:
        """Return the same pipeline for one worker. The messages of the worker share calls or transactions.

        ``goes_on`` returns whether another message may begin.
        """
        ...

    def gathering(self) -> Self:
        """Return the same pipeline for many tasks, which share calls to the history if possible."""
        ...

    def at(self, index: int) -> Self:
        """Return the same pipeline for the messages of one of the trigger's destinations, by its index."""
        ...

    def waiting(self, pause: Pause) -> Self:
        """Return the same pipeline, which waits with ``pause`` between the tries of a message."""
        ...

    def forwarding(self, forward: Forward) -> Self:
        """Return the same pipeline, which sends duplicates with ``forward`` if the trigger wants that."""
        ...

    def holding(self, hold: HoldTrigger) -> Self:
        """Return the same pipeline, which calls ``hold`` before a fatal failure is recorded that suspends."""
        ...

    def judged(self, by: Callable[[Judge], Judge]) -> Self:
        """Return the same pipeline with other judges, each made of the usual judge."""
        ...

    async def deliver(
        self, receiver: Receiver, received: Sequence[Received], can: Capabilities | None = None
    ) -> Sequence[Outcome]:
        """Handle all messages that a receiver handed over, and answer them."""
        ...

    async def handle(self, message: Message) -> Outcome:
        """Handle one message that no receiver waits for."""
        ...

    async def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Handle many messages, each as if it were the only one."""
        ...

    async def park_unreadable(self, unreadable: Unreadable) -> bool:
        """Park a delivery that is not a message, whole, and log it; False if nothing could park it."""
        ...

    async def close(self) -> None:
        """Stop renewing leases, and close the connections that were opened for this pipeline."""
        ...
