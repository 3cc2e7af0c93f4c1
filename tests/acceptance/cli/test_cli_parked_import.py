"""``doubtless parked import``: dead letters of real brokers are parked whole, once, and run once."""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from history import Message, Uuid
from history.beside.kept import KeepsBeside
from history.beside.security import SecurityEvent
from history.bridge import drive
from history.store import ParkedKind
from tests.acceptance.in_process import InProcess
from tests.fixtures.beside import kept_in
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import AnyKafka, ApacheKafkaServer
from tests.fixtures.servers.artemis import ARTEMIS
from tests.fixtures.servers.artemis_server import FRAGILE, ArtemisServer
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.servers.sqs_server import SqsServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.rabbitmq_queues import raw
from triggers.providers import Provider, open_provider
from triggers.providers.contract.common import take

BODY = b'{"id": "N-1", "amount": 100200300400500.0123}'

SHOP = """
from pathlib import Path
from triggers import Message, trigger

@trigger({destination!r}, name="book")
def book(message: Message) -> None:
    with Path("done.txt").open("a") as file:
        file.write(f"{{message.uuid}}\\n")

@trigger("parcels", name="ship")
def ship(message: Message) -> None: ...
"""


@pytest.fixture
def name() -> str:
    return f"orders-{uuid4().hex[:8]}"


class Desk:
    """The command line and a module. The module's trigger ``book`` receives from a destination."""

    def __init__(self, doubtless: InProcess, history: str, provider: str, destination: str) -> None:
        self.doubtless, self.history, self.provider = doubtless, history, provider
        (doubtless.folder / "desk_shop.py").write_text(SHOP.format(destination=destination))

    def take_in(self, letters: str, *words: str, code: int = 0, idle: float = 3.0) -> dict[str, int]:
        """Import, and return how many letters were parked for each trigger."""
        told = ["parked", "import", "desk_shop", letters, "--provider", self.provider, *words]
        answer = self.doubtless.process(*told, "--until-idle", str(idle), "--history", self.history, "--json")
        assert answer.code == code, answer.err
        return {row["trigger"]: row["parked"] for row in answer.json}

    def run_all(self) -> list[dict[str, Any]]:
        answer = self.doubtless(
            "parked", "run", "desk_shop", "-t", "book", "--yes", "--json", "--history", self.history
        )
        assert answer.code == 0, answer.err
        found: list[dict[str, Any]] = answer.json
        return found

    @property
    def effects(self) -> list[str]:
        file = self.doubtless.folder / "done.txt"
        return sorted(file.read_text().split()) if file.exists() else []


def orders(*uuids: str) -> list[Message]:
    """Return orders with values that must arrive unchanged."""
    return [
        Message(body=BODY, uuid=Uuid(uuid), correlation_id="c-1", properties={"region": "EU"})
        for uuid in uuids
    ]


def whole(store: KeepsBeside) -> dict[str, Message]:
    """Return the parked messages by their uuids."""
    return {
        one.uuid: one.message
        for one in drive(store.parking.list())
        if one.message is not None and one.uuid is not None
    }


def check_they_run_once(
    desk: Desk, store: KeepsBeside, letters: str, uuids: Sequence[str], *words: str
) -> None:
    """Import letters twice, and run them. One of them has already run before."""
    ran_before, *others = uuids
    drive(store.complete("book", ran_before, drive(store.claim("book", [ran_before], "w"))[0].fence))

    first = desk.take_in(letters, *words)
    assert (first, desk.take_in(letters, *words)) == ({"book": len(uuids)}, {})
    parked = drive(store.parking.list())
    assert sorted(one.uuid or "" for one in parked) == sorted(uuids)
    assert {one.kind for one in parked} == {ParkedKind.REJECTED}
    for message in whole(store).values():
        assert (message.encoded(), message.correlation_id) == (BODY, "c-1")
        assert {key: value for key, value in message.properties.items() if key != "uuid"} == {"region": "EU"}
    rows = desk.run_all()
    assert all(row["closed"] for row in rows)
    assert [row["executed"] for row in rows if row["uuid"] == ran_before] == [False]
    assert desk.effects == sorted(others)
    log = kept_in(store).security_log
    assert SecurityEvent.IMPORT in {one.event for one in drive(log.read()).records}


@pytest.mark.xdist_group("rabbitmq")
class TestRabbitMQ:
    def test_letters_of_a_dead_letter_exchange_run_once(
        self,
        doubtless: InProcess,
        store: KeepsBeside,
        redis_url: str,
        rabbitmq_server: RabbitmqServer,
        name: str,
    ) -> None:
        url, letters = f"rabbitmq://{rabbitmq_server.address}/", f"{name}-dead"
        with closing(raw(rabbitmq_server)) as connection:
            channel = connection.channel()
            channel.queue_declare(letters, durable=True)
            told = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
            channel.queue_declare(name, durable=True, arguments=told)
            send(url, f"queue:{name}", orders("u1", "u2", "u3"))
            for _ in range(3):
                tag = eventually(lambda: channel.basic_get(name)[0]).delivery_tag
                channel.basic_reject(tag, requeue=False)
        desk = Desk(doubtless, redis_url, url, f"queue:{name}")

        check_they_run_once(desk, store, f"queue:{letters}", ["u1", "u2", "u3"])

    def test_letters_of_doubtless_go_to_the_trigger_that_they_name(
        self, doubtless: InProcess, store: KeepsBeside, redis_url: str, rabbitmq_url: str, name: str
    ) -> None:
        desk = Desk(doubtless, redis_url, rabbitmq_url, name)
        dead_letter(rabbitmq_url, name, orders("u1", "u2"))

        assert desk.take_in(f"DLQ.{name}", "--by", "ana") == {"book": 2}
        assert {one.reason for one in drive(store.parking.list())} == {
            f"DEAD LETTER from DLQ.{name}: no such customer"
        }
        assert {one.destination for one in drive(store.parking.list())} == {name}

    def test_letters_of_no_known_trigger_stay_where_they_are(
        self,
        doubtless: InProcess,
        store: KeepsBeside,
        redis_url: str,
        rabbitmq_server: RabbitmqServer,
        name: str,
    ) -> None:
        url = f"rabbitmq://{rabbitmq_server.address}/"
        with closing(raw(rabbitmq_server)) as connection:
            channel = connection.channel()
            channel.queue_declare(name, durable=True)
            channel.basic_publish("", name, b"whose is it")
            desk = Desk(doubtless, redis_url, url, "orders")

            taken = desk.take_in(f"queue:{name}", code=1)
            of_ship = desk.take_in(f"queue:{name}", "--trigger", "ship")

            assert (taken, of_ship) == ({}, {"ship": 1})
            assert channel.queue_declare(name, passive=True).method.message_count == 0
        assert [one.trigger_name for one in drive(store.parking.list())] == ["ship"]


@pytest.mark.xdist_group("sqs")
class TestSqs:
    def test_letters_of_a_redrive_policy_run_once(
        self, doubtless: InProcess, store: KeepsBeside, redis_url: str, sqs_server: SqsServer, name: str
    ) -> None:
        url, letters, client = (
            f"sqs://eu-west-1?endpoint={sqs_server.address}",
            f"{name}-dead",
            sqs_server.client(),
        )
        dead = client.create_queue(QueueName=letters)["QueueUrl"]
        wanted = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
        policy = json.dumps({"deadLetterTargetArn": wanted["QueueArn"], "maxReceiveCount": "1"})
        queue = client.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
        send(url, name, orders("u1", "u2", "u3"))

        def are_dead() -> bool:
            client.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=0)
            told = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])
            return bool(told["Attributes"]["ApproximateNumberOfMessages"] == "3")

        eventually(are_dead)
        desk = Desk(doubtless, redis_url, url, name)

        # A dead letter of SQS does not name its queue.
        check_they_run_once(desk, store, letters, ["u1", "u2", "u3"], "--trigger", "book")


class OnKafka:
    """Dead letters in the formats of Spring's ``DeadLetterPublishingRecoverer`` and Kafka Connect."""

    server: AnyKafka

    def test_letters_get_back_the_identity_of_their_first_record(
        self, doubtless: InProcess, store: KeepsBeside, redis_url: str, name: str
    ) -> None:
        letters = f"{name}-dlt"
        for topic in (name, letters):
            self.server.create(topic, 1)
        sent = 1_700_000_000_000
        spring = {
            "kafka_dlt-original-topic": name.encode(),
            "kafka_dlt-original-partition": (0).to_bytes(4),
            "kafka_dlt-original-offset": (200).to_bytes(8),
            "kafka_dlt-original-timestamp": sent.to_bytes(8),
            "kafka_dlt-exception-fqcn": b"java.lang.IllegalStateException",
            "kafka_dlt-exception-message": b"no price",
            "kafka_dlt-exception-stacktrace": b"at shop.Book.book(Book.java:12)",
        }
        connect = {
            "__connect.errors.topic": name.encode(),
            "__connect.errors.partition": b"0",
            "__connect.errors.offset": b"7",
            "__connect.errors.exception.message": b"no price",
        }
        producer = Producer({"bootstrap.servers": self.server.address, "log_level": 0})
        for headers in (spring, connect):
            told: list[tuple[str, str | bytes | None]] = [
                *headers.items(),
                ("region", b"EU"),
                ("JMSCorrelationID", b"c-1"),
            ]
            producer.produce(letters, BODY, headers=told, timestamp=sent)
        assert producer.flush(60) == 0
        desk = Desk(doubtless, redis_url, self.server.url, name)

        uuids = [f"ID:{name}:0:200:{sent}", f"ID:{name}:0:7:{sent}"]
        check_they_run_once(desk, store, letters, uuids)

    def test_letters_of_doubtless_keep_their_uuids(
        self, doubtless: InProcess, store: KeepsBeside, redis_url: str, name: str
    ) -> None:
        for topic in (name, f"DLQ.{name}"):
            self.server.create(topic, 1)
        dead_letter(self.server.url, name, orders("u1", "u2", "u3"))
        desk = Desk(doubtless, redis_url, self.server.url, name)

        check_they_run_once(desk, store, f"DLQ.{name}", ["u1", "u2", "u3"])


class TestKafkaMock(OnKafka):
    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with KafkaServer() as server:
            self.server = server
            yield


@APACHE_KAFKA
class TestApacheKafka(OnKafka):
    @pytest.fixture(autouse=True)
    def _server(self, apache_kafka: ApacheKafkaServer) -> None:
        self.server = apache_kafka


@ARTEMIS
class TestJmsOnArtemis:
    def test_letters_of_a_dead_letter_address_run_once(
        self, doubtless: InProcess, store: KeepsBeside, redis_url: str, artemis: ArtemisServer, name: str
    ) -> None:
        queue = f"{FRAGILE}.{name}"
        with opened(artemis.url) as provider:
            drive(provider.send(queue, orders("u1", "u2", "u3")))
            receiver = drive(provider.open_receiver(queue, subscription="book", name="w"))
            for _ in range(3):
                drive(receiver.recover(drive(take(receiver, 1))))
            drive(receiver.close())
        desk = Desk(doubtless, redis_url, artemis.url, queue)

        check_they_run_once(desk, store, f"{FRAGILE}-letters", ["u1", "u2", "u3"])


@ACTIVEMQ
class TestJmsOnActiveMqClassic:
    def test_letters_of_the_brokers_own_queue_run_once(
        self, doubtless: InProcess, store: KeepsBeside, redis_url: str, activemq: ActiveMqServer, name: str
    ) -> None:
        # ActiveMQ's client gives a message up only in a transacted session.
        told = "session=transacted&jms.redeliveryPolicy.maximumRedeliveries=0"
        with opened(f"{activemq.url}&{told}") as provider:
            drive(provider.send(name, orders("u1", "u2", "u3", "last")))
            receiver = drive(provider.open_receiver(name, subscription="book", name="w"))
            for _ in range(3):
                drive(receiver.recover(drive(take(receiver, 1))))
            (last,) = drive(take(receiver, 1))
            drive(receiver.acknowledge([last]))
            drive(receiver.close())
        desk = Desk(doubtless, redis_url, activemq.url, name)

        check_they_run_once(desk, store, "ActiveMQ.DLQ", ["u1", "u2", "u3"])


def send(url: str, destination: str, messages: Sequence[Message]) -> None:
    with opened(url) as provider:
        drive(provider.send(destination, messages))


def dead_letter(url: str, destination: str, messages: Sequence[Message]) -> None:
    """Send messages, and give them up like a consumer of doubtless."""
    with opened(url) as provider:
        receiver = drive(provider.open_receiver(destination, subscription="book", name="w"))
        drive(provider.send(destination, messages))
        drive(receiver.dead_letter(drive(take(receiver, len(messages))), "no such customer"))
        drive(receiver.close())


@contextmanager
def opened(url: str) -> Generator[Provider]:
    """Open a provider, and close it at the end."""
    provider = open_provider(url)
    try:
        yield provider
    finally:
        drive(provider.close())
