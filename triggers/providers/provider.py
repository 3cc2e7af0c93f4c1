"""The protocol of a provider: the messaging system that a trigger receives from.

A provider hands out one :class:`Receiver` per consumer, destination and subscription. What a receiver hands
over must be answered once: acknowledged, recovered or dead-lettered. As everywhere below the consumers, all
methods are coroutines that never suspend over a blocking driver.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from history.errors import UnavailableError
from history.message import Message
from history.store import HistoryStore

if TYPE_CHECKING:
    from triggers.service.outcome import Outcome

#: How long :meth:`Receiver.receive` waits for a first message when nobody says otherwise.
RECEIVE_WAIT = timedelta(seconds=1)

#: No delay: the message may be delivered again at once.
AT_ONCE = timedelta(0)


class ProviderUnavailableError(UnavailableError):
    """The provider did not answer; what it held for this consumer will be delivered again."""


class DestinationGoneError(ProviderUnavailableError):
    """A temporary destination has ended without its receiver's doing; another one may be opened."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One delivery: a message that arrived, with the provider's handle to answer it."""

    message: Message
    handle: object


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One delivery that is no message: its fields as they came, and what is wrong with them.

    ``delivery_id`` is the delivery's own, such as an entry's in its stream: the same when it is delivered
    again, another for any other delivery, even of the same bytes. Where the provider has no such id, it is
    another each time. Without one, deliveries of the same bytes are taken for the same.
    """

    fields: dict[bytes, bytes]
    problem: str
    handle: object
    delivery_id: str | None = None


#: Anything that a receiver hands over and wants answered.
Received = Arrival | Unreadable


class Receiver(Protocol):
    """One consumer's link to one destination, for one subscription.

    ``keep_alive`` may be called from another thread (or task) while ``receive`` waits; everything else comes
    from one thread at a time.
    """

    @property
    def keep_alive_interval(self) -> timedelta:
        """How often :meth:`keep_alive` must be called, so that nothing unanswered is given to others."""
        ...

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries, waiting at most ``wait`` for a first one; maybe none.

        Raises:
            ProviderUnavailableError: the connection is gone; call again, after a pause.
        """
        ...

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Tell the provider that these are done. Doing it twice is harmless."""
        ...

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give these back for redelivery to any consumer of the subscription, not before ``delay``."""
        ...

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to the provider's dead-letter destination, whole, and acknowledge them, in one step."""
        ...

    async def keep_alive(self) -> None:
        """Tell the provider that everything handed over and not answered yet is still being worked on."""
        ...

    async def close(self) -> None:
        """Give back what is not answered yet and leave."""
        ...


@runtime_checkable
class TakingOver(Protocol):
    """A receiver that can have what all others of its subscription held: for ordered triggers."""

    async def take_over_all(self) -> None:
        """Have the next calls of ``receive`` hand out all that is not answered, in order, before what is new.

        That is what other consumers of this subscription hold, who are known to be dead, and what was
        recovered, also where its delay is not over. What this receiver holds stays as it is. The delivery
        count grows as with any redelivery.

        Raises:
            ProviderUnavailableError: call again.
        """
        ...


#: Deliveries, and what became of each.
Answers = Sequence[tuple[Arrival, "Outcome"]]


class TakingFailures(Protocol):
    """A receiver that has its own way with attempts that failed, such as one with redelivery of its own."""

    async def take_failed(self, answers: Answers) -> Answers:
        """Look after what failed and was rolled back; return the others, to be acknowledged or recovered.

        Raises:
            ProviderUnavailableError: what is not looked after will be delivered again.
        """
        ...


class SharingTransactions(Protocol):
    """A receiver whose messages can be taken out in the transaction of a trigger's effects."""

    async def shares(self, history: HistoryStore) -> bool:
        """Whether the transactions of this history reach the provider's database."""
        ...

    async def acknowledge_inside(self, transaction: Any, received: Sequence[Received]) -> bool:
        """Take these out on the connection that a transaction has open; it is committed or rolled back later.

        False where some of them are not this receiver's any more: then nothing may be committed.
        """
        ...

    def note_acknowledged(self, received: Sequence[Received]) -> None:
        """Note that the transaction which took these out is committed."""
        ...


@runtime_checkable
class TemporaryDestinations(Protocol):
    """A provider that can make a destination which ends with its one receiver: for replies."""

    async def open_temporary(self, purpose: str) -> tuple[str, Receiver]:
        """Make a destination and open its receiver; ``purpose`` is for those who read its name."""
        ...


@runtime_checkable
class Answering(Protocol):
    """A provider that can be asked whether it is there."""

    async def ping(self) -> None:
        """Return when the provider answers.

        Raises:
            ProviderUnavailableError: it does not.
        """
        ...


@runtime_checkable
class Remembering(Protocol):
    """A provider that brings the history of its triggers, such as a link's watermark."""

    @property
    def history(self) -> HistoryStore:
        """The history of a trigger that names none; it is the provider's to close."""
        ...


class Provider(Protocol):
    """A messaging system: destinations to send to and to receive from."""

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages in order and return their JMSMessageIDs.

        A message whose ``delivery_time`` is ahead is not delivered before it, and holds nothing up.

        Raises:
            ConfigurationError: one of them can never be sent so, such as a delayed one where nothing delays.
            ProviderUnavailableError: it is unknown which of them arrived. Send them again under the same
                uuids: the document history drops the second copies.
        """
        ...

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> Receiver:
        """Open a receiver. Each subscription gets every message, each of its consumers a share of them.

        Raises:
            ConfigurationError: a living consumer of this subscription has the same name.
        """
        ...

    def for_asyncio(self) -> "Provider":
        """Return the same provider through an asyncio driver, or itself where nothing waits."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...
