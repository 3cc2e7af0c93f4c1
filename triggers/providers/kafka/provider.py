"""Kafka: a topic is a destination, a consumer group is a subscription."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from history.bridge import drive
from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell, TaskShell, ThreadShell
from history.support.forks import at_fork
from history.support.references import dereferenced
from triggers.providers.backlog import Backlog, Place
from triggers.providers.brokers.push_receiver import Inbox, PushReceiver
from triggers.providers.brokers.sending import letter_for, named, refuse_later
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.kafka.codec import Consumed, KafkaRecord, encode, letter_of
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.consumer import GroupReceiver, KafkaConsumer, KnownBy, name_of
from triggers.providers.kafka.lag import lag_of
from triggers.providers.kafka.membership import Membership
from triggers.providers.kafka.publisher import Publisher
from triggers.providers.kafka.settings import KafkaSettings, consuming, dead_letters_of, sharing
from triggers.providers.kafka.share import ShareMember, check_driver
from triggers.providers.kafka.transactions import Publishers
from triggers.providers.provider import NO_LIMITS, DeliveryLimit, Limits, Received

if TYPE_CHECKING:  # it loads SQLAlchemy
    from history.sql.offsets.history import OffsetHistory
    from history.sql.offsets.rows import SqlOffsets


class Kafka:
    """Destinations in Kafka, over confluent-kafka; blocking or asyncio, safe between threads.

    A destination ``orders`` is the topic of that name, a subscription the consumer group
    ``orders:SUBSCRIPTION`` (or the setting ``group``). The brokers make a missing topic if they are set up to
    do so. A new group begins with the oldest message that the topic has (``start``). Dead letters of
    ``orders`` go to the topic ``DLQ.orders``, with the header ``dead-letter-reason``.

    Kafka counts no deliveries: JMSXDeliveryCount is -1, so every message is looked up in the document
    history. Messages are settled in any order. The group's offset is that of the first unsettled message.
    Messages that are settled beyond it are in the text beside the offset, and do not come again.

    A recovered message is handed out again by the consumer that has its partition, after the delay, and
    delays nothing else; if the partition moves, its new consumer gets the message. If a trigger asks for
    nothing and runs nothing for two seconds, its consumer leaves the group: others get its partitions.

    Messages of one JMSXGroupID, which is the record's key, are in one partition, and only one consumer has it
    at a time: so each consumer of an ordered trigger receives, and keeps the order of its keys.

    With ``share=true`` a subscription is a *share group* (KIP-932, Kafka 4.2). The brokers hand out messages
    one by one whatever their partition, count the deliveries, and give a message up after some, so
    ``max_delivery_count`` must be less than that. The count is a lower bound: 1 reads as -1. A consumer gets
    its next messages when all of its last ones are settled. A message is acknowledged by ACCEPT, even when it
    has a dead letter, and recovered by RELEASE.

    A message with a future delivery time is refused. ``send`` returns when all replicas in sync have the
    messages; messages of one JMSXGroupID go to one partition. With ``transactional_id`` each ``send`` is a
    transaction: consumers that read what is committed (ours do) get all of its messages or none. Dead letters
    are not part of a transaction.

    Args:
        url: hosts and account, see :class:`~triggers.providers.brokers.url.BrokerUrl`.
        settings: see :class:`~triggers.providers.kafka.settings.KafkaSettings`.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: each group gets
    every message until it is settled, as long as the topic keeps it: retention deletes what nobody has read,
    and a share group drops what it has delivered too often.
    """

    def __init__(
        self,
        url: BrokerUrl,
        settings: KafkaSettings,
        *,
        shell: Shell | None = None,
        publishers: Publishers | None = None,
    ) -> None:
        self._url = url
        self._settings = settings
        self._shell = shell or ThreadShell()
        self._publishers = publishers or Publishers(url, settings)
        self._joining: dict[int, Membership] = {}

    @classmethod
    def from_url(cls, url: str, *, offsets: "str | OffsetHistory | None" = None) -> "Kafka":
        """Make a provider for ``kafka://user:password@host:9092``; it does not connect yet.

        ``offsets``, here or in the URL, is the SQL database of the effects, or its URL. With it, the provider
        is a :class:`KafkaWithOffsets`.

        Raises:
            ConfigurationError: the URL cannot be used.
        """
        settings, read = KafkaSettings.from_url(url)
        offsets = settings.offsets if offsets is None else offsets
        return cls(read, settings) if offsets is None else KafkaWithOffsets(read, settings, offsets=offsets)

    def for_asyncio(self) -> "Kafka":
        """Return a provider of the same brokers for an event loop; close it separately."""
        return Kafka(self._url, self._settings, shell=TaskShell(), publishers=self._publishers)

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages, wait for the reports of delivery, and return their JMSMessageIDs."""
        refuse_later(messages)
        messages = [named(message) for message in messages]
        await self._send(destination, [encode(message) for message in messages], self._sending)
        return [message.message_id or "" for message in messages]

    async def _send(
        self, topic: str, records: Sequence[KafkaRecord], publisher: Callable[[], Publisher]
    ) -> None:
        if records:
            await self._shell.call("doubtless-kafka-send", partial(publisher().publish, topic, records))

    def _sending(self) -> Publisher:
        return self._publishers.sending(self)

    def _publishing(self) -> Publisher:
        return self._publishers.publishing(self)

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> PushReceiver:
        """Join the subscription's group."""
        group = self._settings.group_of(destination, subscription)
        consumer = KafkaConsumer(
            self._member_of(destination, group, name),
            self._settings.count_of,
            self._shell,
            known_by=self._known_by(group),
            joining=self._joining,
        )
        dead_letter = partial(self._dead_letter, dead_letters_of(destination))
        receiver = (
            PushReceiver(consumer, self._shell, dead_letter, name_of=name_of, check_limits=self._check_limits)
            if self._settings.share
            else GroupReceiver(consumer, self._shell, dead_letter)
        )
        await receiver.open()
        return receiver

    def interrupt(self) -> None:
        """Stop all consumers that wait for their share of a group."""
        for member in list(self._joining.values()):
            member.leave()

    def _member_of(self, topic: str, group: str, name: str) -> Callable[[Inbox], Membership]:
        """Return the factory of a group's member, of the kind that the URL says."""
        if self._settings.share:
            check_driver()
            driven = sharing(self._url, self._settings, group, name)
            return partial(ShareMember, driven, topic, lock_time=float(self._settings.record_lock))
        driven = consuming(self._url, self._settings, group, name)
        return partial(Member, driven, topic, start=self._settings.start)

    def _known_by(self, group: str) -> KnownBy | None:  # noqa: ARG002  (for some providers it is a part)
        """Return the function that identifies messages; None if they carry their identity."""
        return None

    def _check_limits(self, limits: Limits) -> None:
        if limits.max_delivery_count != NO_LIMITS.max_delivery_count:  # else no trigger set it
            self._settings.check_limit(limits.max_delivery_count)

    def check_order(self) -> None:
        """Return if one consumer at a time has all messages of a key, in order.

        Raises:
            ConfigurationError: a share group keeps no order.
        """
        if self._settings.share:
            raise ConfigurationError(
                "ordered",
                "a share group of Kafka keeps no order",
                "leave share=true out of the provider's URL: a consumer group keeps the order of each key",
            )

    async def _dead_letter(self, topic: str, received: Sequence[Received], reason: str) -> None:
        letters = [letter_for(delivery, reason, encode, letter_of) for delivery in received]
        # Not in a transaction: each consumer sends dead letters, and producers of one id lock each other out.
        await self._send(topic, letters, self._publishing)

    async def ping(self) -> None:
        """Return when a broker answers.

        Raises:
            ProviderUnavailableError: none does.
        """
        await self._shell.call("doubtless-kafka-ping", self._publishing().ping)

    async def delivery_limit(self, destination: str, subscription: str) -> DeliveryLimit | None:  # noqa: ARG002  (the brokers set it)
        """Return the brokers' limit of deliveries for a share group, as the URL says."""
        if not self._settings.share:
            return None
        return DeliveryLimit(
            self._settings.delivery_limit, "it stays in the topic, and the group skips it", is_kept=True
        )

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return the backlogs of these places' groups, with what is held; unknown for share groups."""
        if self._settings.share:
            return [Backlog(destination=topic, subscription=name) for topic, name in places]
        return [
            await self._shell.call("doubtless-kafka-lag", partial(self._backlog, *subscribed))
            for subscribed in places
        ]

    def _backlog(self, destination: str, subscription: str) -> Backlog:
        group = self._settings.group_of(destination, subscription)
        driven = consuming(self._url, self._settings, group, "doubtless-lag")
        lag = lag_of(driven, destination, self._settings.start)
        return Backlog(destination=destination, subscription=subscription, waiting=lag)

    async def close(self) -> None:
        """End the producer, unless its asyncio or blocking twin still uses it; close receivers before."""
        self._publishers.leave(self)


class KafkaWithOffsets(Kafka):
    """Consumer groups with offsets in a SQL database, stored in the transaction of the effects.

    Instead of an entry for each message there is one row for each partition, in the table
    ``doubtless_offsets``: it says what is settled. A consumer begins where the row says, whatever the group
    has committed to Kafka. The group still commits there, for tools that show how far it is.

    Its triggers are atomic: ``transacted=True`` and a ``Connection`` or ``Session``. They name no history,
    because they use :attr:`history`. A row belongs to the group: another group begins again, with all
    effects.

    **Only topic, partition and offset identify a message.** If a publisher sends something twice, that is two
    messages. The uuid in the headers does not matter (``sent_uuid`` of the message), and ``uuid=`` of a
    trigger is refused. If publishers send twice, keep entries: leave ``offsets`` out.

    Args:
        url: hosts and account, see :class:`~triggers.providers.brokers.url.BrokerUrl`.
        settings: see :class:`~triggers.providers.kafka.settings.KafkaSettings`.
        offsets: the database, or its URL.

    Raises:
        ConfigurationError: it is not a SQL database in a file or on a server; or a share group has no
            offsets.

    Guarantee: atomic: the effects and the offset are committed together. With an older copy of the database,
    the messages that it lacks run again. A recreated topic is refused as long as it is shorter than it was:
    forget its rows (:func:`forget_offsets`) whenever a topic is deleted.
    """

    def __init__(
        self,
        url: BrokerUrl,
        settings: KafkaSettings,
        *,
        offsets: "str | OffsetHistory",
        shell: Shell | None = None,
        publishers: Publishers | None = None,
    ) -> None:
        if settings.share:
            raise ConfigurationError(
                "offsets",
                "a share group has none",
                "leave share=true out of the provider's URL, or offsets= and give the trigger a history",
            )
        super().__init__(url, settings, shell=shell, publishers=publishers)
        self._begin()
        at_fork(self, KafkaWithOffsets._begin)
        self._history = _opened(offsets) if isinstance(offsets, str) else offsets
        self._rows: SqlOffsets | None = None

    def _begin(self) -> None:
        #: Guards the opening of :attr:`_rows`.
        self._lock = threading.Lock()

    @property
    def history(self) -> "OffsetHistory":
        """The history of its triggers."""
        return self._history

    def for_asyncio(self) -> "KafkaWithOffsets":
        """Return a provider of the same brokers and database for an event loop; close it separately."""
        return KafkaWithOffsets(
            self._url,
            self._settings,
            offsets=self._history,
            shell=TaskShell(),
            publishers=self._publishers,
        )

    def _member_of(self, topic: str, group: str, name: str) -> Callable[[Inbox], Membership]:
        from triggers.providers.kafka.positions import Positions  # noqa: PLC0415  (it loads SQLAlchemy)

        with self._lock:
            if self._rows is None:
                self._rows = self._history.offsets()
        driven = consuming(self._url, self._settings, group, name)
        positions = Positions(self._rows, self._history.seen, group=group, start=self._settings.start)
        return partial(Member, driven, topic, positions=positions)

    def _known_by(self, group: str) -> KnownBy:
        from history.sql.offsets.history import OffsetIdentity  # noqa: PLC0415  (as above)
        from history.sql.offsets.seen import Place as Row  # noqa: PLC0415  (as above)

        def identity(consumed: Consumed) -> str:
            return OffsetIdentity(Row(group, consumed.topic, consumed.partition), consumed.offset).uuid

        return identity

    async def close(self) -> None:
        """End the producer, and close the database. Close the receivers before."""
        await super().close()
        rows, self._rows = self._rows, None
        if rows is not None:
            await rows.close()
        if not self._history.is_for_asyncio:
            await self._history.close()


def _opened(url: str) -> "OffsetHistory":
    from history.sql.offsets.history import OffsetHistory  # noqa: PLC0415  (it loads SQLAlchemy)

    return OffsetHistory.from_url(dereferenced(url, "offsets"))


def forget_offsets(url: str, *, group: str, topic: str) -> int:
    """Forget the settled offsets of a topic in the database at ``url``; return how many partitions had a row.

    Call it after a topic was deleted, before another one of its name is read. Stop the group's consumers
    first: they begin where the group has committed to Kafka, and may run messages again.

    Raises:
        HistoryUnavailableError: the database does not answer.
    """
    rows = _opened(url).offsets()
    try:
        return drive(rows.forget(group, topic))
    finally:
        drive(rows.close())
