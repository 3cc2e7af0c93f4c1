"""While the caller works, the receiver fetches the next messages, until it loses their partition."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition

from history.bridge import drive
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import Message
from triggers.providers.brokers.push_receiver import Inbox
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.provider import Kafka
from triggers.providers.kafka.settings import KafkaSettings, consuming
from triggers.providers.provider import Arrival, ProviderUnavailableError, Received


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    """Return a topic of one partition with five messages."""
    name = f"orders-{uuid4().hex[:8]}"
    kafka.create(name, 1)
    provider = Kafka.from_url(kafka.url)
    drive(provider.send(name, [Message(body=str(number)) for number in range(5)]))
    drive(provider.close())
    return name


def bodies(received: Iterable[Received]) -> list[object]:
    return [delivery.message.body for delivery in received if isinstance(delivery, Arrival)]


def open_receiver(provider: Kafka, topic: str) -> Any:
    return drive(provider.open_receiver(topic, subscription="s", name="a"))


def inbox_of(receiver: Any) -> Inbox:
    inbox: Inbox = receiver._inbox  # noqa: SLF001
    return inbox


def test_the_next_messages_come_while_the_first_is_worked_on(kafka: KafkaServer, topic: str) -> None:
    provider = Kafka.from_url(kafka.url)
    receiver = open_receiver(provider, topic)

    came: list[Received] = [*drive(receiver.receive(1))]
    while len(came) < 5:
        eventually(lambda: inbox_of(receiver).size == 1)
        came.extend(receiver.take_fetched(1))

    assert bodies(came) == ["0", "1", "2", "3", "4"]
    assert list(receiver.take_fetched(1)) == []
    drive(receiver.acknowledge(came[:3]))
    drive(receiver.close())
    again = open_receiver(provider, topic)
    assert bodies(drive(again.receive(1))) == ["3"]
    drive(again.close())
    drive(provider.close())


def test_messages_are_decoded_while_the_first_are_worked_on(kafka: KafkaServer, topic: str) -> None:
    provider = Kafka.from_url(kafka.url)
    receiver = open_receiver(provider, topic)
    drive(receiver.receive(1))

    eventually(lambda: inbox_of(receiver).size == 1)
    [(_, ahead)] = inbox_of(receiver).take(1)

    assert bodies([ahead]) == ["1"]
    drive(receiver.close())
    drive(provider.close())


def test_nothing_is_taken_from_a_session_that_is_over(kafka: KafkaServer, topic: str) -> None:
    provider = Kafka.from_url(kafka.url)
    receiver = open_receiver(provider, topic)
    drive(receiver.receive(1))
    eventually(lambda: inbox_of(receiver).size == 1)

    inbox_of(receiver).lose(ProviderUnavailableError("Kafka", "receiving"))

    assert list(receiver.take_fetched(1)) == []
    drive(receiver.close())
    assert list(receiver.take_fetched(1)) == []
    drive(provider.close())


def test_messages_that_wait_go_with_their_partition(kafka: KafkaServer, topic: str) -> None:
    settings, url = KafkaSettings.from_url(kafka.url)
    inbox = Inbox()
    member = Member(consuming(url, settings, "g", "a"), topic, inbox)
    member.start()
    member.ready.result(PATIENCE)
    member.want(3)
    eventually(lambda: inbox.size == 3)
    member.stopped().result(PATIENCE)

    member._forget([TopicPartition(topic, 0)])  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    assert inbox.size == 0
    assert member.take_moved()
    member.leave().result(PATIENCE)
