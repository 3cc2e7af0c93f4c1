"""The protocol of a provider: the messaging system that a trigger receives from.

A provider hands out one :class:`Receiver` per consumer, destination and subscription. What a receiver hands
over must be answered once: acknowledged, recovered or dead-lettered. As everywhere below the consumers, all
methods are coroutines that never suspend over a blocking driver.

What a receiver or a provider may do besides is a protocol of its own: :class:`TakingOver`,
:class:`KeepingOrder`, :class:`TakingFailures`, :class:`CountingRefusals`, :class:`SharingTransactions`,
:class:`Placing` and :class:`Limited` of receivers; :class:`DividingGroups`, :class:`TemporaryDestinations`,
:class:`Answering`, :class:`Remembering`, :class:`InDatabase`, :class:`Bounded`, :class:`GivingUp`,
:class:`TellingPermissions`, :class:`ServingMany`, :class:`Interruptible` and
:class:`~triggers.providers.backlog.TellingBacklog` of providers.
It is offered by having the methods. :func:`capabilities_of` finds out, once for each receiver or provider.
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

#: How long :meth:`Receiver.receive` waits for a first message when nobody says otherwise.
RECEIVE_WAIT = timedelta(seconds=1)

#: No delay: the message may be delivered again at once.
AT_ONCE = timedelta(0)


class ProviderUnavailableError(UnavailableError):
    """The provider did not answer; what it held for this consumer will be delivered again."""

    __module__ = "triggers"


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


@runtime_checkable
class KeepingOrder(Protocol):
    """A receiver of a provider that is :class:`DividingGroups`: for ordered triggers."""

    async def hand_out_in_order(self) -> None:
        """Have the next calls of ``receive`` hand out all that was recovered, in order, before what is new.

        Also where its delay is not over. What this receiver holds stays as it is.

        Raises:
            ProviderUnavailableError: call again.
        """
        ...

    def take_moved(self) -> bool:
        """Whether something that was handed over and not settled is another consumer's now; asked once.

        It may come back, and is handed out from its beginning then.
        """
        ...


#: Deliveries, and what became of each.
Answers = Sequence[tuple[Arrival, "Outcome"]]


@runtime_checkable
class TakingFailures(Protocol):
    """A receiver that has its own way with attempts that failed, such as one with redelivery of its own."""

    async def take_failed(self, answers: Answers) -> Answers:
        """Look after what failed and was rolled back; return the others, to be acknowledged or recovered.

        Raises:
            ProviderUnavailableError: what is not looked after will be delivered again.
        """
        ...


@runtime_checkable
class CountingRefusals(Protocol):
    """A receiver whose provider may refuse acknowledgements, and is told of it later."""

    def take_refusals(self) -> int:
        """Return how many were refused since it was last asked; such messages may come again."""
        ...


@runtime_checkable
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
class Placing(Protocol):
    """A receiver whose messages a history on the same server can acknowledge, in a call of its own."""

    async def is_beside(self, history: HistoryStore) -> bool:
        """Whether the history is in the same database of the same server.

        Raises:
            UnavailableError: one of the two is away, so that nobody knows.
        """
        ...

    def leave_at(self, received: Received) -> Place:
        """Return where one is acknowledged, by somebody else from now on: it is not kept alive any more."""
        ...

    def stay(self, received: Received) -> None:
        """Keep one alive again, because it is not acknowledged, or nobody knows."""
        ...


@runtime_checkable
class ServingMany(Protocol):
    """A provider of which one receiver can serve many tasks of an event loop."""

    async def open_for_many(self, destination: str, *, subscription: str, name: str) -> Receiver:
        """Open a receiver that is answered by some tasks while it receives for others.

        A call of it that fails takes nothing from the tasks that were not in it: what they hold is not handed
        out again.

        Raises:
            ConfigurationError: as :meth:`Provider.open_receiver`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trigger refuses whatever stands in it, so that a receiver need not decode it.

    ``max_body_size`` is in bytes, as they came.
    """

    max_body_size: int = sys.maxsize
    max_delivery_count: int = sys.maxsize

    def leaves_encoded(self, size: int, delivery_count: int) -> bool:
        """Whether a body is handed over as the bytes that it came as.

        That is what is larger than a body may be, and what was refused for its count before and came again:
        decoding it may be what the process died of.
        """
        return size > self.max_body_size or delivery_count > self.max_delivery_count + 1


#: Nothing is refused.
NO_LIMITS = Limits()


@runtime_checkable
class Limited(Protocol):
    """A receiver that can be told what its trigger refuses."""

    limits: Limits


@runtime_checkable
class DividingGroups(Protocol):
    """A provider that gives all messages of one group to one consumer at a time, in their order.

    So each consumer of an ordered trigger receives. Whoever has a group next gets what is not settled of it,
    in order, before what is new. Its receivers are :class:`KeepingOrder`.
    """

    def check_order(self) -> None:
        """Return where that is so as the provider is set.

        Raises:
            ConfigurationError: it is not.
        """
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
            ConfigurationError: it refuses us, whatever we ask for.
        """
        ...


@runtime_checkable
class Remembering(Protocol):
    """A provider that brings the history of its triggers, such as a link's watermark."""

    @property
    def history(self) -> HistoryStore:
        """The history of a trigger that names none; it is the provider's to close."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A provider that knows how many receivers there is room for."""

    async def check_room(self, receivers: int) -> None:
        """Return when so many can be open at a time, as far as is known.

        Raises:
            ConfigurationError: they never can, as a limit is set, which is named.
            ProviderUnavailableError: there is no answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class DeliveryLimit:
    """When a provider gives a message up by itself.

    ``deliveries`` is after how many; None where no limit was seen. ``then`` says what becomes of such a
    message, and ``is_kept`` whether it is somewhere still. ``unseen`` says what may limit as well and cannot
    be asked about from here, as a clause; empty where everything was seen.
    """

    deliveries: int | None
    then: str = ""
    is_kept: bool = False
    unseen: str = ""


@runtime_checkable
class GivingUp(Protocol):
    """A provider that may give a message up by itself, after so many deliveries, and tells no trigger."""

    async def delivery_limit(self, destination: str, subscription: str) -> DeliveryLimit | None:
        """Return when it does; None where it never does, or nothing is there yet.

        Nothing is made that is missing.

        Raises:
            ProviderUnavailableError: there is no answer.
        """
        ...


@runtime_checkable
class TellingPermissions(Protocol):
    """A provider that can be asked what its account may not do there."""

    async def refusals(self, destination: str, subscription: str | None) -> Sequence[Refusal]:
        """Return what is refused of receiving for a subscription, or of sending where that is None.

        Nothing is sent, received or made.

        Raises:
            ProviderUnavailableError: there is no answer.
            NotPermittedError: the account may not ask.
        """
        ...


class Sends(Protocol):
    """What sends in somebody's transaction."""

    async def asend_batch(self, destination: str, bodies: Sequence[Message]) -> object:
        """Send messages in order."""
        ...


@runtime_checkable
class InDatabase(Protocol):
    """A provider in a SQL database, which can send as a part of a transaction there."""

    def sending(self, connection: Any) -> Sends:
        """Return what sends in the transaction that ``connection`` has open."""
        ...

    async def identity(self) -> int:
        """Return the number of the database that it is in."""
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


@runtime_checkable
class Interruptible(Protocol):
    """A provider whose receivers may take long to open, such as those that wait for a share of a group."""

    def interrupt(self) -> None:
        """Have nobody wait any longer for a receiver to open: the consumer stops. Called from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a receiver or a provider can do besides its protocol; None is what it cannot."""

    taking_over: TakingOver | None = None
    keeping_order: KeepingOrder | None = None
    taking_failures: TakingFailures | None = None
    counting_refusals: CountingRefusals | None = None
    sharing_transactions: SharingTransactions | None = None
    placing: Placing | None = None
    limited: Limited | None = None
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


#: Of what can do nothing besides its protocol.
NO_CAPABILITIES = Capabilities()


def _members(protocol: type) -> frozenset[str]:
    names: set[str] = set()
    for base in protocol.__mro__[:-1]:  # the last is object
        names.update(vars(base), inspect.get_annotations(base))
    return frozenset(name for name in names if not name.startswith("_"))


#: The members of each capability's protocol: the first of what its field may hold.
_MEMBERS: Mapping[str, frozenset[str]] = {
    name: _members(get_args(hint)[0]) for name, hint in get_type_hints(Capabilities).items()
}


def capabilities_of(asked: object) -> Capabilities:
    """Return what a receiver or a provider can do besides its protocol, by the methods that it has.

    Also by those that its ``__getattr__`` hands out, which ``isinstance`` does not see since Python 3.12. A
    method that is None is not had. Ask once, when it is opened or made: it takes some ten microseconds, and
    the answer does not change.
    """
    had = {
        name: asked
        for name, members in _MEMBERS.items()
        if all(getattr(asked, member, None) is not None for member in members)
    }
    return Capabilities(**cast("dict[str, Any]", had))
