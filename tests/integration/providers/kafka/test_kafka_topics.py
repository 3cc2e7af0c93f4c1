"""If a topic does not exist yet or any more, a consumer waits for it, as for a broker that is away."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from history import MemoryHistory
from history.bridge import drive
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Running
from triggers import Consumer, Message, trigger
from triggers.providers.brokers.push_receiver import Inbox
from triggers.providers.kafka import membership
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.errors import NoTopicError
from triggers.providers.kafka.provider import Kafka
from triggers.providers.kafka.settings import KafkaSettings, consuming


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server


@pytest.fixture
def topic(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a topic that does not exist. A consumer waits a moment for it to appear."""
    monkeypatch.setattr(membership, "_APPEARING", 0.1)
    name = f"orders-{uuid4().hex[:8]}"
    kafka.hide(name)
    return name


def test_a_consumer_says_once_that_there_is_no_topic_and_begins_when_there_is(
    kafka: KafkaServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[object] = []

    @trigger(topic, name="book", history=MemoryHistory())
    def book(message: Message) -> None:
        ran.append(message.body)

    missing = f"Kafka has no topic '{topic}' (create it, or correct its name)"
    with Running(Consumer([book], provider=kafka.url)) as running:
        [gate] = running.gates
        eventually(lambda: gate.away is not None)
        kafka.show(topic)
        provider = Kafka.from_url(kafka.url)
        drive(provider.send(topic, [Message(body="x")]))
        eventually(lambda: ran)
        drive(provider.close())

    assert ran == ["x"]
    assert caplog.text.count(missing) == 1


def test_a_topic_that_is_deleted_ends_a_membership_as_a_broker_does_that_is_away(
    kafka: KafkaServer, topic: str
) -> None:
    kafka.show(topic)
    settings, url = KafkaSettings.from_url(kafka.url)
    often = {"topic.metadata.refresh.interval.ms": 100, "topic.metadata.propagation.max.ms": 100}
    member = Member(consuming(url, settings, "g", "a") | often, topic, Inbox())
    member.start()
    member.ready.result(PATIENCE)

    kafka.hide(topic)
    eventually(lambda: member.ended_by is not None)
    member.leave().result(PATIENCE)

    assert isinstance(member.ended_by, NoTopicError)
