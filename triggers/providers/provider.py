"""The protocol of a provider: the messaging system that a trigger receives from.

A provider hands out one :class:`Receiver` per consumer, destination and subscription. Each delivery that a
receiver hands over must be settled once: acknowledged, recovered or dead-lettered. As everywhere below the
consumers, all methods are coroutines that never suspend over a blocking driver.

Each optional capability of a receiver or a provider is a protocol: :class:`TakingOver`,
:class:`KeepingOrder`, :class:`TakingFailures`, :class:`CountingRefusals`, :class:`SharingTransactions`,
:class:`Placing`, :class:`Limited`, :class:`FetchingAhead` and :class:`Pausing` of receivers;
:class:`DividingGroups`, :class:`TemporaryDestinations`, :class:`Answering`, :class:`Remembering`,
:class:`InDatabase`, :class:`Bounded`, :class:`GivingUp`, :class:`TellingPermissions`, :class:`ServingMany`,
:class:`Interruptible` and :class:`~triggers.providers.backlog.TellingBacklog` of providers. An object offers
a capability by having its methods. :func:`capabilities_of` finds out, once for each receiver or provider.
"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args, get_type_hints, runtime_checkable

from history.errors import UnavailableError
from history.message import Message
from history.store import HistoryStore
from history.store.inspection import Refusal
from history.store.turning import Place
from triggers.providers.backlog import TellingBacklog

if TYPE_CHECKING:
    from triggers.service.outcome import Outcome

#: How long :meth:`Receiver.receive` waits for a first message by default.
RECEIVE_WAIT = timedelta(seconds=1)

#: After how long the workers of a trigger that closes have ended their last call: twice as long as it waits.
LAST_CALLS = timedelta(seconds=1)

#: No delay: the message may be delivered again immediately.
AT_ONCE = timedelta(0)


class ProviderUnavailableError(UnavailableError):
    """The provider did not answer; what it held for this consumer will be delivered again."""

    __module__ = "triggers"


class DestinationGoneError(ProviderUnavailableError):
    """A temporary destination has ended although its receiver did not close it; another one may be opened."""


# Not frozen: each delivery makes one, and that would take four times as long.
@dataclass(slots=True)
class Arrival:
    """One delivery: a message that arrived, with the provider's handle to settle it."""

    message: Message
    handle: object


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One delivery that cannot be read as a message: its fields as they came, and what is wrong with them.

    ``delivery_id`` identifies the delivery, such as the id of an entry in its stream. It is the same when the
    delivery comes again, and differs for any other delivery, even of the same bytes. If the provider has no
    such id, each delivery gets a new one. Without any id, deliveries of the same bytes count as the same.
    """

    fields: dict[bytes, bytes]
    problem: str
    handle: object
    delivery_id: str | None = None


#: Everything that a receiver hands over and that must be settled.
Received = Arrival | Unreadable


class Receiver(Protocol):
    """One consumer's link to one destination, for one subscription.

    If ``receive`` or an answer raises ProviderUnavailableError, the worker drops all unsettled messages. So
    the receiver does not hold them any longer, and the provider delivers them again.

    Another thread (or task) may call ``keep_alive`` while ``receive`` waits. All other calls come from one
    thread at a time.
    """

    @property
    def keep_alive_interval(self) -> timedelta:
        """How often :meth:`keep_alive` must be called, so that others do not get unsettled messages."""
        ...

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries, or none; wait at most ``wait`` for the first one.

        Raises:
            ProviderUnavailableError: the connection is gone; call again, after a pause.
        """
        ...

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Tell the provider that these are processed. Doing it twice is harmless."""
        ...

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give these back for redelivery to any consumer of the subscription, not before ``delay``."""
        ...

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to the provider's dead-letter destination, whole, and acknowledge them, in one step."""
        ...

    async def keep_alive(self) -> None:
        """Tell the provider that all unsettled messages are still being worked on."""
        ...

    async def close(self) -> None:
        """Give back unsettled messages and leave."""
        ...


@runtime_checkable
class TakingOver(Protocol):
    """A receiver that can take what all others of its subscription held: for ordered triggers."""

    async def take_over_all(self) -> None:
        """Make the next calls of ``receive`` hand out everything unsettled, in order, before new messages.

        That is what the other consumers of this subscription hold, which are known to be dead. It is also
        what was recovered, even if its delay is not over. The messages of this receiver stay as they are. The
        delivery count grows as with any redelivery.

        Raises:
            ProviderUnavailableError: call again.
        """
        ...


@runtime_checkable
class KeepingOrder(Protocol):
    """A receiver of a provider that is :class:`DividingGroups`: for ordered triggers."""

    async def hand_out_in_order(self) -> None:
        """Make the next calls of ``receive`` hand out everything recovered, in order, before new messages.

        A delay that is not over does not matter. The messages of this receiver stay as they are.

        Raises:
            ProviderUnavailableError: call again.
        """
        ...

    def take_moved(self) -> bool:
        """Whether an unsettled message has moved to another consumer since the last call.

        It may come back, and is then handed out from its beginning.
        """
        ...


#: Deliveries, each with its outcome.
Answers = Sequence[tuple[Arrival, "Outcome"]]


@runtime_checkable
class TakingFailures(Protocol):
    """A receiver that treats failed attempts in its own way, for example with its own redelivery."""

    async def take_failed(self, answers: Answers) -> Answers:
        """Take care of what failed and was rolled back; return the others, to be acknowledged or recovered.

        Raises:
            ProviderUnavailableError: what is not taken care of will be delivered again.
        """
        ...


@runtime_checkable
class CountingRefusals(Protocol):
    """A receiver of a provider that may refuse acknowledgements, and reports it later."""

    def take_refusals(self) -> int:
        """Return how many were refused since the last call; such messages may come again."""
        ...


@runtime_checkable
class FetchingAhead(Protocol):
    """A receiver that fetches messages while its caller works, because no other consumer could have them."""

    def take_fetched(self, limit: int) -> Sequence[Received]:
        """Return up to ``limit`` deliveries that are here already, as :meth:`Receiver.receive` does.

        It does not wait, and does not raise: if the connection is gone, the next ``receive`` tells.
        """
        ...


@runtime_checkable
class Pausing(Protocol):
    """A receiver to which the provider pushes messages, although nobody asks for more: not if suspended."""

    async def pause(self) -> None:
        """Let the provider push nothing until the next ``receive``, and give back what was not handed over.

        Unsettled messages stay as they are. It may be called again.

        Raises:
            ProviderUnavailableError: nothing is held any more.
        """
        ...


@runtime_checkable
class SharingTransactions(Protocol):
    """A receiver that can acknowledge its messages in the transaction of a trigger's effects."""

    async def shares(self, history: HistoryStore) -> bool:
        """Whether the transactions of this history reach the provider's database."""
        ...

    async def acknowledge_inside(self, transaction: Any, received: Sequence[Received]) -> bool:
        """Acknowledge these in an open transaction, which is committed or rolled back later.

        False if some of them no longer belong to this receiver: then nothing may be committed.
        """
        ...

    def note_acknowledged(self, received: Sequence[Received]) -> None:
        """Note that the transaction which acknowledged these is committed."""
        ...


@runtime_checkable
class Placing(Protocol):
    """A receiver that lets a history on the same server acknowledge its messages, in a separate call."""

    async def is_beside(self, history: HistoryStore) -> bool:
        """Whether the history is in the same database of the same server.

        Raises:
            UnavailableError: one of the two does not answer, so the place is unknown.
        """
        ...

    def leave_at(self, received: Received) -> Place:
        """Return where the history acknowledges this delivery; it is not kept alive here any more."""
        ...

    def stay(self, received: Received) -> None:
        """Keep a delivery alive again, because it is not acknowledged, or nobody knows."""
        ...


@runtime_checkable
class ServingMany(Protocol):
    """A provider that can open a receiver for many tasks of an event loop."""

    async def open_for_many(self, destination: str, *, subscription: str, name: str) -> Receiver:
        """Open a receiver that some tasks settle with while it receives for others.

        A call that fails affects only its own tasks: what other tasks hold is not handed out again.

        Raises:
            ConfigurationError: as :meth:`Provider.open_receiver`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Messages that a trigger refuses without reading the body, so that a receiver need not decode it.

    ``max_body_size`` is in bytes, as they came.
    """

    max_body_size: int = sys.maxsize
    max_delivery_count: int = sys.maxsize

    def leaves_encoded(self, size: int, delivery_count: int) -> bool:
        """Whether a body is handed over as the bytes that it came as.

        This holds for a body that is too large, and for a message that was refused for its count and came
        again: perhaps the process died because it decoded it.
        """
        return size > self.max_body_size or delivery_count > self.max_delivery_count + 1


#: Nothing is refused.
NO_LIMITS = Limits()


@runtime_checkable
class Limited(Protocol):
    """A receiver that accepts the limits of its trigger."""

    limits: Limits


@runtime_checkable
class DividingGroups(Protocol):
    """A provider that gives all messages of one group to one consumer at a time, in their order.

    So each consumer of an ordered trigger receives. The next consumer of a group gets its unsettled messages,
    in order, before new ones. Its receivers are :class:`KeepingOrder`.
    """

    def check_order(self) -> None:
        """Return if the provider is set up to divide groups.

        Raises:
            ConfigurationError: it is not.
        """
        ...


@runtime_checkable
class TemporaryDestinations(Protocol):
    """A provider that can make a destination which ends with its one receiver: for replies."""

    async def open_temporary(self, purpose: str) -> tuple[str, Receiver]:
        """Make a destination and open its receiver; ``purpose`` is for people who read its name."""
        ...


@runtime_checkable
class Answering(Protocol):
    """A provider that can be pinged."""

    async def ping(self) -> None:
        """Return when the provider answers.

        Raises:
            ProviderUnavailableError: it does not.
            ConfigurationError: it refuses us, whatever we ask for.
        """
        ...


@runtime_checkable
class Remembering(Protocol):
    """A provider that brings the history of its triggers, such as a link's watermark."""

    @property
    def history(self) -> HistoryStore:
        """The history of a trigger that names none; the provider closes it."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A provider that knows how many receivers can be open."""

    async def check_room(self, receivers: int) -> None:
        """Return if so many can be open at a time, as far as is known.

        Raises:
            ConfigurationError: a limit that is set forbids it; the error names the limit.
            ProviderUnavailableError: the provider does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class DeliveryLimit:
    """When a provider gives a message up by itself.

    ``deliveries`` is the number of deliveries after which it does so; None if no limit was found. ``then``
    says what happens to such a message, and ``is_kept`` whether it still exists somewhere. ``unseen`` is a
    clause about further limits that cannot be read from here; empty if everything was read.
    """

    deliveries: int | None
    then: str = ""
    is_kept: bool = False
    unseen: str = ""


@runtime_checkable
class GivingUp(Protocol):
    """A provider that may give a message up by itself, after so many deliveries, and tells no trigger."""

    async def delivery_limit(self, destination: str, subscription: str) -> DeliveryLimit | None:
        """Return the limit; None if it never gives up, or the destination does not exist yet.

        The call creates nothing.

        Raises:
            ProviderUnavailableError: the provider does not answer.
        """
        ...


@runtime_checkable
class TellingPermissions(Protocol):
    """A provider that can report what its account may not do."""

    async def refusals(self, destination: str, subscription: str | None) -> Sequence[Refusal]:
        """Return what is refused for receiving for a subscription, or for sending if that is None.

        The call sends, receives and creates nothing.

        Raises:
            ProviderUnavailableError: the provider does not answer.
            NotPermittedError: the account may not ask.
        """
        ...


class Sends(Protocol):
    """An object that sends in a caller's transaction."""

    async def asend_batch(self, destination: str, bodies: Sequence[Message]) -> object:
        """Send messages in order."""
        ...


@runtime_checkable
class InDatabase(Protocol):
    """A provider in a SQL database, which can send as a part of a transaction there."""

    def sending(self, connection: Any) -> Sends:
        """Return an object that sends in the transaction that ``connection`` has open."""
        ...

    async def identity(self) -> int:
        """Return the number of the database that it is in."""
        ...


class Provider(Protocol):
    """A messaging system: destinations to send to and to receive from."""

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages in order and return their JMSMessageIDs.

        A message with a future ``delivery_time`` is not delivered before it, and does not delay others.

        Raises:
            ConfigurationError: one of them can never be sent so, such as a delayed message over a provider
                without delays.
            ProviderUnavailableError: it is unknown which of them arrived. Send them again under the same
                uuids: the document history drops the second copies.
        """
        ...

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> Receiver:
        """Open a receiver. Each subscription gets every message, each of its consumers a share of them.

        Raises:
            ConfigurationError: a running consumer of this subscription has the same name.
        """
        ...

    def for_asyncio(self) -> "Provider":
        """Return the same provider through an asyncio driver, or itself if no call waits."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


@runtime_checkable
class Interruptible(Protocol):
    """A provider with receivers that may take long to open, because they wait for a share of a group."""

    def interrupt(self) -> None:
        """Stop every wait for a receiver to open, because the consumer stops. Called from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The optional capabilities of a receiver or a provider; None marks a missing one."""

    taking_over: TakingOver | None = None
    keeping_order: KeepingOrder | None = None
    taking_failures: TakingFailures | None = None
    counting_refusals: CountingRefusals | None = None
    sharing_transactions: SharingTransactions | None = None
    placing: Placing | None = None
    limited: Limited | None = None
    fetching_ahead: FetchingAhead | None = None
    pausing: Pausing | None = None
    dividing_groups: DividingGroups | None = None
    temporary_destinations: TemporaryDestinations | None = None
    answering: Answering | None = None
    remembering: Remembering | None = None
    in_database: InDatabase | None = None
    bounded: Bounded | None = None
    giving_up: GivingUp | None = None
    telling_permissions: TellingPermissions | None = None
    serving_many: ServingMany | None = None
    interruptible: Interruptible | None = None
    telling_backlog: TellingBacklog | None = None


#: For objects without optional capabilities.
NO_CAPABILITIES = Capabilities()


def _members(protocol: type) -> frozenset[str]:
    names: set[str] = set()
    for base in protocol.__mro__[:-1]:  # the last is object
        names.update(vars(base), inspect.get_annotations(base))
    return frozenset(name for name in names if not name.startswith("_"))


#: The members of each capability's protocol: the first type that its field may hold.
_MEMBERS: Mapping[str, frozenset[str]] = {
    name: _members(get_args(hint)[0]) for name, hint in get_type_hints(Capabilities).items()
}


def capabilities_of(asked: object) -> Capabilities:
    """Return the optional capabilities of a receiver or a provider, by the methods that it has.

    Methods that its ``__getattr__`` hands out count, although ``isinstance`` does not see them since Python
    3.12. A method that is None does not count. Call it once, when the object is opened or made: it takes
    about ten microseconds, and the answer does not change.
    """
    had = {
        name: asked
        for name, members in _MEMBERS.items()
        if all(getattr(asked, member, None) is not None for member in members)
    }
    return Capabilities(**cast("dict[str, Any]", had))
