"""Share groups of Kafka: what their delivery counts prove, and how a message is parked before it is lost."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

import pytest

from history import ConfigurationError, Message, Uuid
from history.bridge import drive
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import AnyKafka, ApacheKafkaServer
from tests.fixtures.servers.kafka_server import KafkaServer, ends_of
from tests.fixtures.waiting import eventually
from triggers import Consumer, ProviderUnavailableError, trigger
from triggers.providers import Arrival, Limits, Receiver, capabilities_of
from triggers.providers.contract.common import arrivals, numbered, take
from triggers.providers.kafka import share
from triggers.providers.kafka.provider import Kafka

#: In this group a killed member's messages soon go to another member.
SHORT = {"share_session_timeout_ms": "3000", "share_record_lock_duration_ms": "3000"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer(brokers=2) as server:
        server.lock_for(600)
        server.deliver_at_most(1000)
        yield server


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    kafka.create(name, 1)
    return name


def opened(url: str, topic: str) -> Receiver:
    return drive(Kafka.from_url(url).open_receiver(topic, subscription="s", name="a"))


def send(kafka: AnyKafka, topic: str, messages: list[Message]) -> Kafka:
    """Send messages, and return the provider. When it closes, this broker takes all messages back."""
    provider = Kafka.from_url(kafka.share_url)
    drive(provider.send(topic, messages))
    return provider


def first_of(receiver: Receiver) -> Arrival:
    [arrival] = drive(take(receiver, 1))
    return arrival


def test_a_first_delivery_has_no_count_that_could_prove_anything(kafka: KafkaServer, topic: str) -> None:
    sender = send(kafka, topic, numbered(1))
    receiver = opened(f"kafka://{kafka.address}?share=true&record_lock=600", topic)

    first = first_of(receiver)
    drive(receiver.recover([first]))
    second = first_of(receiver)

    assert (first.message.delivery_count, first.message.redelivered) == (-1, False)
    assert (second.message.delivery_count, second.message.redelivered) == (2, True)
    drive(receiver.close())
    drive(sender.close())


@APACHE_KAFKA
class TestApacheKafka:
    """Tests that need a real broker: dead letters, and the wait of a group's first member."""

    @pytest.fixture
    def topic(self, apache_kafka: ApacheKafkaServer) -> str:
        name = f"orders-{uuid4().hex[:8]}"
        apache_kafka.create(name, 1)
        apache_kafka.set_group(f"{name}:s", share_auto_offset_reset="earliest", **SHORT)
        return name

    def test_the_brokers_write_no_second_dead_letter(
        self, apache_kafka: ApacheKafkaServer, topic: str
    ) -> None:
        theirs = f"dlq.{topic}"  # the prefix that brokers ask for by default
        apache_kafka.create(theirs, 1, errors_deadletterqueue_group_enable="true")
        apache_kafka.create(f"DLQ.{topic}", 1)
        apache_kafka.set_group(f"{topic}:s", errors_deadletterqueue_topic_name=theirs)
        sender = send(apache_kafka, topic, numbered(3))
        receiver = opened(apache_kafka.share_url, topic)
        given_up, late, last = drive(take(receiver, 3))
        drive(receiver.dead_letter([given_up], "no such customer"))
        drive(receiver.acknowledge([given_up]))
        for _ in range(4):
            drive(receiver.acknowledge([last]))
            drive(receiver.recover([late]))
            late = first_of(receiver)
        assert ends_of(apache_kafka.address, theirs) == (0, 0)
        drive(receiver.recover([late]))  # over the limit of the brokers, who write a dead letter

        eventually(lambda: ends_of(apache_kafka.address, theirs) == (0, 1))
        assert ends_of(apache_kafka.address, f"DLQ.{topic}") == (0, 1)
        drive(receiver.close())
        drive(sender.close())

    def test_the_first_member_of_a_group_is_not_idle_before_it_has_partitions(
        self, apache_kafka: ApacheKafkaServer, topic: str
    ) -> None:
        """The broker has its default heartbeat interval."""
        ran: list[str] = []

        @trigger(topic, name="book", max_delivery_count=4, history="memory://")
        def book(message: Message) -> None:
            ran.append(message.uuid or "")

        apache_kafka.set_group(
            f"{topic}:book", share_auto_offset_reset="earliest", share_heartbeat_interval_ms="5000"
        )
        sender = send(apache_kafka, topic, numbered(3))

        Consumer([book], f"kafka://{apache_kafka.address}?share=true").run(until_idle=0.5)

        assert ran == ["u0", "u1", "u2"]
        drive(sender.close())


def test_a_trigger_that_would_go_on_after_the_brokers_gave_up_is_refused(
    kafka: KafkaServer, topic: str
) -> None:
    @trigger(topic, name="five", max_delivery_count=5)
    def five(body: str) -> None: ...

    with pytest.raises(ConfigurationError, match=r"max_delivery_count: is 5.*set it to 4 or less"):
        Consumer([five], f"kafka://{kafka.address}?share=true", history="memory://").run(until_idle=1)

    limited = capabilities_of(opened(kafka.share_url + "&delivery_limit=6", topic)).limited
    assert limited is not None
    limited.limits = Limits(max_delivery_count=5)
    assert limited.limits.max_delivery_count == 5


def test_a_group_that_cannot_be_joined_is_named_with_what_it_needs(
    topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def is_named() -> bool:
        assert list(drive(receiver.receive(1, timedelta(milliseconds=100)))) == []
        return f"not a member of the share group {topic}:s" in caplog.text

    for patience in ("PUZZLING", "_SHARING"):
        monkeypatch.setattr(share, patience, 0.1)
    with KafkaServer() as server:
        server.create(topic, 1)
        server.know_no_share_groups()
        receiver = opened(server.share_url, topic)

        eventually(is_named)

        assert "Kafka 4.2 or later" in caplog.text
        drive(receiver.close())


def test_messages_of_two_partitions_go_back_at_once(kafka: KafkaServer) -> None:
    """Two messages have the same offset and the same due time, so neither sorts before the other."""
    topic = f"orders-{uuid4().hex[:8]}"
    kafka.create(topic, 2)
    url = f"kafka://{kafka.address}"
    receiver = opened(url, topic)
    provider = Kafka.from_url(url)
    sent = [Message(body="x", uuid=Uuid(f"u{number}"), group_id=f"g{number}") for number in range(16)]
    drive(provider.send(topic, sent))

    drive(receiver.recover(drive(take(receiver, 16)), timedelta(milliseconds=1)))
    again = arrivals(drive(take(receiver, 16)))

    assert {delivery.message.uuid for delivery in again} == {message.uuid for message in sent}
    assert all(delivery.message.redelivered for delivery in again)
    drive(receiver.close())
    drive(provider.close())


@pytest.mark.prove  # the client needs five seconds to say so, and the broker four to forget the old member
def test_a_broker_that_was_away_is_found_again(topic: str) -> None:
    def is_unavailable() -> bool:
        try:
            drive(receiver.receive(1, timedelta(milliseconds=100)))
        except ProviderUnavailableError:
            return True
        return False

    def received() -> Sequence[Arrival]:
        with suppress(ProviderUnavailableError):
            return arrivals(drive(receiver.receive(1, timedelta(milliseconds=100))))
        return []

    with KafkaServer() as server:
        server.create(topic, 1)
        server.forget_after(4)
        receiver = opened(server.share_url, topic)
        assert not is_unavailable()

        server.go_away()
        eventually(is_unavailable)
        server.come_back()
        sender = send(server, topic, numbered(1))
        found = eventually(received)

        assert [delivery.message.uuid for delivery in found] == ["u0"]
        drive(receiver.close())
        drive(sender.close())
