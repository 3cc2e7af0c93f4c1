"""SQS, played by moto and ElasticMQ: refusals, order, time, other senders' messages, and dead letters."""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from history.bridge import drive
from tests.fixtures.network import Network
from tests.fixtures.ports import closed_port
from tests.fixtures.servers.elasticmq_server import ElasticMqServer
from tests.fixtures.servers.sqs import EACH_SQS
from tests.fixtures.servers.sqs_server import ACCOUNT, SqsServer
from triggers import ConfigurationError, Message, ProviderUnavailableError
from triggers.providers import Limits, Unreadable
from triggers.providers.contract.common import bodies, numbered, take
from triggers.providers.sqs import receiver as receiving
from triggers.providers.sqs.provider import Sqs
from triggers.providers.sqs.receiver import SqsReceiver

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("sqs")]

Open = Callable[..., SqsReceiver]


@pytest.fixture(scope="module", params=EACH_SQS)
def server(request: pytest.FixtureRequest) -> SqsServer:
    chosen: SqsServer = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def queue() -> str:
    return f"orders-{uuid4().hex[:8]}"


@pytest.fixture
def provider(server: SqsServer) -> Sqs:
    return provider_of(server)


def provider_of(server: SqsServer, options: str = "", path: str = "") -> Sqs:
    return Sqs.from_url(f"sqs://eu-west-1{path}?endpoint={server.address}{options}")


def open_receiver(provider: Sqs, queue: str) -> SqsReceiver:
    return drive(provider.open_receiver(queue, subscription="book", name="one"))


def send_by_hand(server: SqsServer, queue: str, body: str, **attributes: dict[str, Any]) -> None:
    client = server.client()
    address = client.get_queue_url(QueueName=queue)["QueueUrl"]
    client.send_message(QueueUrl=address, MessageBody=body, MessageAttributes=attributes)


def test_after_how_many_deliveries_a_redrive_policy_gives_up_can_be_asked(
    server: SqsServer, provider: Sqs, queue: str
) -> None:
    client = server.client()
    assert drive(provider.delivery_limit(queue, "book")) is None
    address = client.create_queue(QueueName=queue)["QueueUrl"]
    assert drive(provider.delivery_limit(queue, "book")) is None
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:eu-west-1:123456789012:{queue}", "maxReceiveCount": 5}

    client.set_queue_attributes(QueueUrl=address, Attributes={"RedrivePolicy": json.dumps(policy)})

    limit = drive(provider.delivery_limit(queue, "book"))
    assert limit is not None
    assert limit.deliveries == 5


class TestRefusals:
    def test_nobody_there_is_an_outage(self, server: SqsServer) -> None:
        del server  # the fixture sets the account
        provider = Sqs.from_url(f"sqs://eu-west-1?endpoint=http://127.0.0.1:{closed_port()}")
        with pytest.raises(ProviderUnavailableError):
            drive(provider.ping())
        with pytest.raises(ProviderUnavailableError):
            drive(provider.send("orders", numbered(1)))

    def test_without_an_account_it_says_where_one_belongs(
        self, server: SqsServer, queue: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ACCOUNT:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        with pytest.raises(ConfigurationError, match="AWS_ACCESS_KEY_ID"):
            drive(provider_of(server).send(queue, numbered(1)))

    def test_a_queue_that_none_may_make_is_missed(self, server: SqsServer, queue: str) -> None:
        provider = provider_of(server, "&create=false")
        with pytest.raises(ConfigurationError, match="no queue"):
            drive(provider.send(queue, numbered(1)))
        with pytest.raises(ConfigurationError, match="no queue"):
            open_receiver(provider, queue)

    def test_a_message_that_is_too_large_is_refused(self, provider: Sqs, queue: str) -> None:
        with pytest.raises(ConfigurationError, match="1048576"):
            drive(provider.send(queue, [Message(body="x" * 1_048_577)]))

    def test_a_message_that_only_the_server_finds_too_large_is_refused(
        self, elasticmq: ElasticMqServer, queue: str
    ) -> None:
        with pytest.raises(ConfigurationError) as caught:
            drive(provider_of(elasticmq).send(queue, [Message(body="x" * 300_000)]))
        assert caught.value.setting == "message"

    def test_messages_that_are_too_large_together_go_separately(self, provider: Sqs, queue: str) -> None:
        receiver = open_receiver(provider, queue)

        drive(provider.send(queue, [Message(body=f"{number}" * 200_000) for number in range(3)]))

        assert {str(one.message.body)[0] for one in drive(take(receiver, 3))} == {"0", "1", "2"}

    def test_a_delay_that_is_too_long_is_refused(self, provider: Sqs, queue: str) -> None:
        later = datetime.now(UTC) + timedelta(minutes=16)
        with pytest.raises(ConfigurationError, match=r"^delivery_time: .*900 at most"):
            drive(provider.send(queue, [Message(body="x", delivery_time=later)]))

    def test_a_fifo_queue_delays_no_single_message(self, provider: Sqs, queue: str) -> None:
        later = datetime.now(UTC) + timedelta(minutes=1)
        with pytest.raises(ConfigurationError, match="FIFO"):
            drive(provider.send(f"{queue}.fifo", [Message(body="x", delivery_time=later)]))

    def test_a_url_with_a_queue_is_for_that_one(self, server: SqsServer, queue: str) -> None:
        provider = provider_of(server, path=f"/{queue}")
        drive(provider.send(queue, numbered(1)))
        assert bodies(drive(take(open_receiver(provider, queue), 1))) == ["0"]
        with pytest.raises(ConfigurationError, match="is not the queue"):
            drive(provider.send("others", numbered(1)))


class TestOrder:
    def test_a_fifo_queue_keeps_the_order_of_each_group(self, provider: Sqs, queue: str) -> None:
        fifo = f"{queue}.fifo"
        receiver = open_receiver(provider, fifo)
        sent = [Message(body=f"{group}{n}", group_id=group) for n in range(3) for group in ("a", "b")]
        drive(provider.send(fifo, sent))

        arrived = drive(take(receiver, 6))

        for group in ("a", "b"):
            of_group = [one.message.body for one in arrived if one.message.group_id == group]
            assert of_group == [f"{group}{n}" for n in range(3)]
        drive(receiver.acknowledge(arrived))

    def test_what_is_sent_twice_comes_twice(self, provider: Sqs, queue: str) -> None:
        fifo = f"{queue}.fifo"
        receiver = open_receiver(provider, fifo)
        for _ in range(2):
            drive(provider.send(fifo, [Message(body="x", uuid="order-1", group_id="a")]))

        assert [one.message.uuid for one in drive(take(receiver, 2))] == ["order-1"] * 2


class TestTime:
    def test_a_silent_consumers_message_goes_to_another_one(self, server: SqsServer, queue: str) -> None:
        receiver = open_receiver(provider_of(server, "&visibility=3"), queue)
        drive(provider_of(server).send(queue, numbered(1)))
        drive(take(receiver, 1))

        [again] = drive(take(open_receiver(provider_of(server), queue), 1))

        assert (again.message.delivery_count, again.message.redelivered) == (-1, True)

    def test_what_was_held_for_twelve_hours_is_let_go_with_a_warning(
        self, provider: Sqs, queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(receiving, "LONGEST_HOLD", 10)  # less than the visibility
        receiver = open_receiver(provider, queue)
        drive(provider.send(queue, numbered(1)))
        drive(take(receiver, 1))

        with caplog.at_level(logging.WARNING):
            drive(receiver.keep_alive())

        assert "held for twelve hours" in caplog.text


class TestOutages:
    def test_what_a_consumer_held_goes_to_others(self, server: SqsServer, queue: str) -> None:
        with Network("127.0.0.1", server.port) as network:
            url = f"sqs://eu-west-1?endpoint={network.url(server.address)}&visibility=3"
            receiver = open_receiver(Sqs.from_url(url), queue)
            drive(provider_of(server).send(queue, numbered(2)))
            first, _ = drive(take(receiver, 2))
            network.take_down()

            with pytest.raises(ProviderUnavailableError):
                drive(receiver.acknowledge([first]))
            drive(receiver.keep_alive())  # it holds nothing, and so asks nothing

        assert len(drive(take(open_receiver(provider_of(server), queue), 2))) == 2


class TestCounts:
    def test_the_guess_is_told_when_it_is_more_than_the_trigger_allows(
        self, provider: Sqs, queue: str
    ) -> None:
        receiver = open_receiver(provider, queue)
        receiver.limits = Limits(max_delivery_count=2)
        drive(provider.send(queue, numbered(1)))
        counts: list[int] = []
        for _ in range(3):
            arrived = drive(take(receiver, 1))
            counts.append(arrived[0].message.delivery_count)
            drive(receiver.recover(arrived))

        assert counts == [-1, -1, 3]


class TestForeign:
    def test_attributes_are_properties_and_the_body_is_text(
        self, server: SqsServer, provider: Sqs, queue: str
    ) -> None:
        receiver = open_receiver(provider, queue)
        send_by_hand(
            server,
            queue,
            '{"Type": "Notification"}',
            colour={"DataType": "String", "StringValue": "red"},
            size={"DataType": "Number", "StringValue": "5"},
            rate={"DataType": "Number.float", "StringValue": "0.5"},
            raw={"DataType": "Binary", "BinaryValue": b"\xff\x00"},
        )

        [arrival] = drive(take(receiver, 1))

        message = arrival.message
        assert message.body == '{"Type": "Notification"}'
        assert dict(message.properties) == {"colour": "red", "size": 5, "rate": 0.5, "raw": "ff00"}
        assert (message.message_id or "").startswith("ID:")
        assert (message.uuid, message.delivery_count) == (message.message_id, -1)

    def test_a_uuid_attribute_is_its_identity(self, server: SqsServer, provider: Sqs, queue: str) -> None:
        receiver = open_receiver(provider, queue)
        send_by_hand(server, queue, "x", uuid={"DataType": "String", "StringValue": "order-1"})

        assert drive(take(receiver, 1))[0].message.uuid == "order-1"

    def test_what_cannot_be_read_comes_whole_and_so_does_its_letter(
        self, server: SqsServer, provider: Sqs, queue: str
    ) -> None:
        receiver = open_receiver(provider, queue)
        kind = {"content-type": {"DataType": "String", "StringValue": "application/json"}}
        send_by_hand(server, queue, "{ cut", colour={"DataType": "String", "StringValue": "red"}, **kind)

        [delivery] = drive(receiver.receive(1, timedelta(seconds=5)))

        assert isinstance(delivery, Unreadable)
        assert (delivery.fields[b"body"], delivery.fields[b"colour"]) == (b"{ cut", b"red")
        drive(receiver.dead_letter([delivery], "not JSON"))
        [letter] = drive(open_receiver(provider, f"DLQ-{queue}").receive(1, timedelta(seconds=5)))
        assert isinstance(letter, Unreadable)
        assert letter.fields[b"dead-letter-reason"] == b"not JSON"
        assert server.depth(queue) == 0

    def test_a_queue_that_is_deleted_is_made_again(
        self, server: SqsServer, provider: Sqs, queue: str
    ) -> None:
        drive(provider.send(queue, numbered(1)))
        client = server.client()
        client.delete_queue(QueueUrl=client.get_queue_url(QueueName=queue)["QueueUrl"])

        drive(provider.send(queue, [Message(body="after")]))

        assert bodies(drive(take(open_receiver(provider, queue), 1))) == ["after"]
