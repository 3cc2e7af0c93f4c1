"""Kafka: a topic is a destination, a consumer group is a subscription."""

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell, TaskShell, ThreadShell
from history.support.forks import at_fork, keep
from triggers.providers.backlog import Backlog, Place
from triggers.providers.brokers.push_receiver import Inbox, PushReceiver
from triggers.providers.brokers.sending import dead_copy, named, refuse_later
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.kafka.codec import Record, encode, letter_of
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.consumer import KafkaConsumer
from triggers.providers.kafka.lag import lag_of
from triggers.providers.kafka.membership import Membership
from triggers.providers.kafka.publisher import PATIENCE, Publisher
from triggers.providers.kafka.receiver import GroupReceiver, name_of
from triggers.providers.kafka.settings import (
    KafkaSettings,
    consuming,
    dead_letters_of,
    producing,
    sharing,
    transacting,
)
from triggers.providers.kafka.share import ShareMember, check_driver
from triggers.providers.kafka.transactions import TransactionalPublisher
from triggers.providers.provider import NO_LIMITS, Arrival, Limits, Received


class Kafka:
    """Destinations in Kafka, over confluent-kafka; blocking or asyncio, safe between threads.

    A destination ``orders`` is the topic of that name, a subscription the consumer group
    ``orders:SUBSCRIPTION`` (or the one that ``group`` names). The brokers make a topic that is missing where
    they are set to. A group that is new begins with the oldest message that the topic has (``start``). Dead
    letters of ``orders`` go to the topic ``DLQ.orders``, with the header ``dead-letter-reason``.

    Kafka counts no deliveries: JMSXDeliveryCount is -1, so the document history is always asked. Messages
    are settled in any order. The group's offset is that of the first message which is not settled; what is
    settled beyond it stands in the text that Kafka keeps beside the offset, and is not delivered again.

    A recovered message is handed out again by the consumer that has its partition, after the delay, and holds
    nothing else up; another consumer has it when the partition moves. A consumer whose trigger asks for
    nothing and runs nothing for two seconds leaves its group, so that its partitions are not idle.

    Messages of one JMSXGroupID, which is the record's key, stand in one partition, and one consumer has it
    at a time: so each consumer of an ordered trigger receives, and keeps the order of its keys.

    With ``share=true`` a subscription is a *share group* (KIP-932, Kafka 4.2): the brokers hand out messages
    one by one whatever their partition, count the deliveries, and give a message up after some, so
    ``max_delivery_count`` must be less than that. The count is a lower bound: 1 reads as -1. A consumer gets
    its next messages when all of its last ones are answered. A message is acknowledged by ACCEPT, recovered
    by RELEASE, and rejected by REJECT when it has a dead letter.

    A message with a delivery time ahead is refused. What is sent is reported as delivered by all replicas in
    sync before ``send`` returns; messages of one JMSXGroupID go to one partition. With ``transactional_id``
    each ``send`` is a transaction: consumers that read what is committed (those here do) get all of its
    messages or none. Dead letters are no part of any.

    Args:
        url: hosts and account, see :class:`~triggers.providers.brokers.url.BrokerUrl`.
        settings: see :class:`~triggers.providers.kafka.settings.KafkaSettings`.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: each group gets
    every message until it is settled, as long as the topic keeps it: retention deletes what nobody has read,
    and a share group drops what it has delivered too often.
    """

    def __init__(self, url: BrokerUrl, settings: KafkaSettings, *, shell: Shell | None = None) -> None:
        self._url = url
        self._settings = settings
        self._shell = shell or ThreadShell()
        self._lock = threading.Lock()
        self._publisher: Publisher | None = None
        self._transactional: TransactionalPublisher | None = None
        self._process = os.getpid()
        at_fork(self, _in_child)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Make a provider for ``kafka://user:password@host:9092``; nothing is connected yet.

        Raises:
            ConfigurationError: the URL cannot be used.
        """
        settings, read = KafkaSettings.from_url(url)
        return cls(read, settings)

    def for_asyncio(self) -> "Kafka":
        """Return a provider of the same brokers for an event loop; it must be closed by itself."""
        return Kafka(self._url, self._settings, shell=TaskShell())

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send messages, wait for the reports of delivery, and return their JMSMessageIDs."""
        refuse_later(messages)
        messages = [named(message) for message in messages]
        await self._send(destination, [encode(message) for message in messages], self._sending)
        return [message.message_id or "" for message in messages]

    async def _send(self, topic: str, records: Sequence[Record], publisher: Callable[[], Publisher]) -> None:
        if records:
            await self._shell.call("doubtless-kafka-send", partial(publisher().publish, topic, records))

    def _sending(self) -> Publisher:
        """Return what sends messages of a program: in transactions, where these have an id."""
        if self._settings.transactional_id is None:
            return self._publishing()
        with self._lock:
            if self._transactional is None:
                settings = transacting(self._url, self._settings, PATIENCE)
                self._transactional = TransactionalPublisher(settings)
            return self._transactional

    def _publishing(self) -> Publisher:
        with self._lock:
            if self._publisher is None or not self._publisher.usable:
                self._publisher = Publisher(producing(self._url, self._settings, PATIENCE))
            return self._publisher

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> PushReceiver:
        """Join the subscription's group."""
        group = self._settings.group_of(destination, subscription)
        consumer = KafkaConsumer(
            self._member_of(destination, group, name),
            partial(self._dead_letter, dead_letters_of(destination)),
            self._settings.count_of,
            self._shell,
        )
        receiver = (
            PushReceiver(consumer, self._shell, name_of=name_of, check_limits=self._check_limits)
            if self._settings.share
            else GroupReceiver(consumer, self._shell)
        )
        await receiver.open()
        return receiver

    def _member_of(self, topic: str, group: str, name: str) -> Callable[[Inbox], Membership]:
        """Return what makes a member of a group, of the kind that the URL says."""
        if self._settings.share:
            check_driver()
            driven = sharing(self._url, self._settings, group, name)
            return partial(ShareMember, driven, topic, lock_time=float(self._settings.record_lock))
        return partial(Member, consuming(self._url, self._settings, group, name), topic)

    def _check_limits(self, limits: Limits) -> None:
        if limits.max_delivery_count != NO_LIMITS.max_delivery_count:  # else it is no trigger's
            self._settings.check_limit(limits.max_delivery_count)

    def check_order(self) -> None:
        """Return where one consumer at a time has all messages of a key, in order.

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
        letters = [
            encode(dead_copy(delivery.message, reason))
            if isinstance(delivery, Arrival)
            else letter_of(delivery.fields, reason)
            for delivery in received
        ]
        # In no transaction: each consumer writes its own, and those of one id would lock each other out.
        await self._send(topic, letters, self._publishing)

    async def ping(self) -> None:
        """Return when a broker answers.

        Raises:
            ProviderUnavailableError: none does.
        """
        await self._shell.call("doubtless-kafka-ping", self._publishing().ping)

    async def delivery_limit(self, destination: str, subscription: str) -> int | None:  # noqa: ARG002  (the brokers' own)
        """Return after how many deliveries the brokers give up a share group's message, as the URL says."""
        return self._settings.delivery_limit if self._settings.share else None

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return what waits for the groups of these places, with what is held; nothing of share groups."""
        if self._settings.share:
            return [Backlog(destination=topic, subscription=name) for topic, name in places]
        return [
            await self._shell.call("doubtless-kafka-lag", partial(self._backlog, *place)) for place in places
        ]

    def _backlog(self, destination: str, subscription: str) -> Backlog:
        group = self._settings.group_of(destination, subscription)
        lag = lag_of(consuming(self._url, self._settings, group, "doubtless-lag"), destination)
        return Backlog(destination=destination, subscription=subscription, waiting=lag)

    def leave_to_parent(self) -> None:
        """In a forked child: begin anew, and leave the producer to the parent, whose thread it needs."""
        keep(self._publisher, self._transactional)
        self._publisher, self._transactional, self._lock = None, None, threading.Lock()

    async def close(self) -> None:
        """End the producer; everything that was sent has been reported. Receivers are to be closed before."""
        with self._lock:
            self._publisher = self._transactional = None


def _in_child(provider: Kafka) -> None:
    provider.leave_to_parent()
