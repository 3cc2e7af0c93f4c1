"""Sending to Kafka in transactions: either all messages of a call are there, or none.

The tests of consumers run on Apache Kafka and on noida-db, because the mock cluster shows aborted messages to
everybody. The tests of failing brokers run on the mock cluster.
"""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError

from history.bridge import drive
from history.contract.forks import DONE, ended, fork
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.noida_server import NoidaServer
from triggers import ConfigurationError, Message, Producer, ProviderUnavailableError, Retry
from triggers.providers import Provider
from triggers.providers.contract.common import SOON, arrivals, take
from triggers.providers.kafka import transactions
from triggers.providers.kafka.provider import Kafka
from triggers.providers.kafka.transactions import TransactionalPublisher

#: The servers that can abort transactions.
Transacting = NoidaServer | ApacheKafkaServer

#: Kafka's numbers of the requests of a transaction.
INIT_PRODUCER_ID, END_TXN = 22, 26

#: One body is too large for the broker, and one is too large for the client.
TOO_LARGE, FAR_TOO_LARGE = "x" * 2_000_000, "x" * 10_000_001


@pytest.fixture(scope="module", params=["noida", pytest.param("apache", marks=APACHE_KAFKA)])
def kafka(request: pytest.FixtureRequest) -> Iterator[Transacting]:
    if request.param == "apache":
        yield request.getfixturevalue("apache_kafka")
        return
    with NoidaServer() as server:
        yield server


@pytest.fixture
def mock() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server


@pytest.fixture
def topic(kafka: Transacting) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    kafka.create(name, 1)
    return name


def an_id() -> str:
    return f"shop-{uuid4().hex[:8]}"


def send(provider: Provider, topic: str, *bodies: str) -> None:
    drive(provider.send(topic, [Message(body=body) for body in bodies]))


def read(kafka: Transacting, topic: str, isolation: str = "read_committed") -> Sequence[str]:
    """Return the bodies that a consumer of the topic gets until it has to wait."""
    settings = {"bootstrap.servers": kafka.address, "group.id": uuid4().hex, "enable.partition.eof": True}
    start = {"auto.offset.reset": "earliest", "isolation.level": isolation}
    consumer = Consumer(settings | start)
    consumer.subscribe([topic])
    found: list[str] = []
    try:
        while True:
            message = consumer.poll(SOON)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001  (librdkafka's own)
                return found
            found.append((message.value() or b"").decode()[:10])
    finally:
        consumer.close()


def test_what_one_call_sends_is_received_whole(kafka: Transacting, topic: str) -> None:
    provider = Kafka.from_url(kafka.transactional_url(an_id()))

    send(provider, topic, "one", "two")
    send(provider, topic, "three")

    receiver = drive(provider.open_receiver(topic, subscription="s", name="a"))
    received = arrivals(drive(take(receiver, 3)))
    assert [delivery.message.body for delivery in received] == ["one", "two", "three"]
    drive(receiver.close())
    drive(provider.close())


@pytest.mark.parametrize("large", [TOO_LARGE, FAR_TOO_LARGE], ids=["broker", "client"])
def test_nothing_of_a_call_is_there_when_one_message_of_it_is_refused(
    kafka: Transacting, topic: str, large: str
) -> None:
    provider = Kafka.from_url(kafka.transactional_url(an_id()))

    with pytest.raises(ConfigurationError, match="message: Kafka refuses it"):
        send(provider, topic, "small", large)

    assert read(kafka, topic) == []
    send(provider, topic, "next")
    assert read(kafka, topic) == ["next"]
    drive(provider.close())


def test_a_call_that_failed_holds_up_nothing_of_other_senders(kafka: Transacting, topic: str) -> None:
    failing, plain = (
        Kafka.from_url(kafka.transactional_url(an_id())),
        Kafka.from_url(f"kafka://{kafka.address}"),
    )

    with pytest.raises(ConfigurationError):
        send(failing, topic, "small", TOO_LARGE)
    send(plain, topic, "after it")

    assert read(kafka, topic) == ["after it"]
    drive(failing.close())
    drive(plain.close())


@pytest.mark.crash
def test_nothing_is_there_of_a_producer_that_was_killed_before_its_commit_and_the_next_one_goes_on(
    kafka: Transacting, topic: str
) -> None:
    url = kafka.transactional_url(an_id())
    sender = [sys.executable, "-m", "tests.integration.providers.kafka.dying_sender", url, topic]

    ended = subprocess.run([*sender, "one", "two"], check=False, timeout=SOON)

    assert ended.returncode == -signal.SIGKILL
    assert read(kafka, topic, "read_uncommitted") == ["one", "two"]
    assert read(kafka, topic) == []
    provider = Kafka.from_url(url)
    send(provider, topic, "three")
    assert read(kafka, topic) == ["three"]
    drive(provider.close())


def test_who_is_locked_out_by_another_of_its_id_says_so_and_can_begin_anew(
    kafka: Transacting, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = an_id()
    first, second = (Kafka.from_url(kafka.transactional_url(name)) for _ in range(2))
    send(first, topic, "one")
    send(second, topic, "two")

    with pytest.raises(ProviderUnavailableError, match=f"has taken over the transactional_id '{name}'"):
        send(first, topic, "lost", "lost, too")

    assert "give each process that sends an id of its own" in caplog.text
    send(first, topic, "three")
    assert read(kafka, topic) == ["one", "two", "three"]
    drive(first.close())
    drive(second.close())


async def test_blocking_and_asyncio_callers_of_one_producer_share_its_id(
    kafka: Transacting, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(kafka.transactional_url(an_id()), retry=Retry(max_attempts=0))

    for number in range(2):
        await producer.asend(topic, f"a{number}")
        await asyncio.to_thread(producer.send, topic, f"b{number}")
    await asyncio.gather(
        *(producer.asend(topic, f"c{number}") for number in range(3)),
        *(asyncio.to_thread(producer.send, topic, f"d{number}") for number in range(3)),
    )
    producer.close()
    await producer.asend(topic, "e")

    assert "has taken over" not in caplog.text
    found = await asyncio.to_thread(read, kafka, topic)
    await producer.aclose()
    assert sorted(found) == ["a0", "a1", "b0", "b1", "c0", "c1", "c2", "d0", "d1", "d2", "e"]


def test_producers_of_two_ids_leave_each_other_alone(kafka: Transacting, topic: str) -> None:
    first, second = (Kafka.from_url(kafka.transactional_url(an_id())) for _ in range(2))

    send(first, topic, "one")
    send(second, topic, "two")
    send(first, topic, "three")

    assert read(kafka, topic) == ["one", "two", "three"]
    drive(first.close())
    drive(second.close())


def test_dead_letters_of_one_process_lock_no_other_out(kafka: Transacting, topic: str) -> None:
    name = an_id()
    sender, consumer = (Kafka.from_url(kafka.transactional_url(name)) for _ in range(2))
    kafka.create(f"DLQ.{topic}", 1)
    send(sender, topic, "poison")
    receiver = drive(consumer.open_receiver(topic, subscription="s", name="a"))

    drive(receiver.dead_letter(arrivals(drive(take(receiver, 1))), "no sense"))
    send(sender, topic, "next")

    assert read(kafka, f"DLQ.{topic}") == ["poison"]
    assert read(kafka, topic) == ["poison", "next"]
    drive(receiver.close())
    drive(consumer.close())
    drive(sender.close())


def test_a_program_sends_many_messages_in_one_transaction(kafka: Transacting, topic: str) -> None:
    with Producer(kafka.transactional_url(an_id())) as producer:
        with pytest.raises(ConfigurationError):
            producer.send_batch(topic, [Message(body="one"), Message(body=TOO_LARGE)])
        producer.send_batch(topic, [Message(body="two"), Message(body="three")])

    assert read(kafka, topic) == ["two", "three"]


async def test_a_forked_child_and_its_parent_lock_each_other_out_and_lose_nothing(
    kafka: Transacting, topic: str
) -> None:
    async def send_in_child() -> None:
        send(provider, topic, "two")

    provider = Kafka.from_url(kafka.transactional_url(an_id()))
    send(provider, topic, "one")

    assert await ended([fork(send_in_child, blocking=True)]) == [DONE]

    with pytest.raises(ProviderUnavailableError, match="has taken over"):
        send(provider, topic, "lost")
    send(provider, topic, "three")
    assert read(kafka, topic) == ["one", "two", "three"]
    await provider.close()


async def test_an_event_loop_sends_in_transactions_too(kafka: Transacting, topic: str) -> None:
    provider = Kafka.from_url(kafka.transactional_url(an_id())).for_asyncio()

    with pytest.raises(ConfigurationError):
        await provider.send(topic, [Message(body="one"), Message(body=TOO_LARGE)])
    await provider.send(topic, [Message(body="two")])

    assert read(kafka, topic) == ["two"]
    await provider.close()


def test_a_commit_without_an_answer_is_an_outage_and_the_next_one_goes_on(
    mock: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Kafka.from_url(f"{mock.url}&transactional_id=shop")
    publishing: Any = TransactionalPublisher
    commit = publishing._commit  # noqa: SLF001  (the moment before it)

    def go_away(publisher: TransactionalPublisher, topic: str) -> None:
        mock.go_away()
        commit(publisher, topic)

    monkeypatch.setattr(transactions, "PATIENCE", 1.0)
    monkeypatch.setattr(publishing, "_commit", go_away)

    with pytest.raises(ProviderUnavailableError, match="sending to 'orders'"):
        send(provider, "orders", "one")

    mock.come_back()
    monkeypatch.undo()
    send(provider, "orders", "one")
    drive(provider.close())


def test_brokers_that_know_no_transactions_are_named(mock: KafkaServer) -> None:
    mock.know_no_transactions()
    provider = Kafka.from_url(f"{mock.url}&transactional_id=shop")

    with pytest.raises(ConfigurationError, match="transactional_id: these brokers know no transactions"):
        send(provider, "orders", "one")

    drive(provider.close())


def test_an_id_that_the_account_may_not_use_is_named(mock: KafkaServer) -> None:
    mock.refuse(INIT_PRODUCER_ID, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    provider = Kafka.from_url(f"{mock.url}&transactional_id=shop")

    with pytest.raises(ConfigurationError, match="transactional_id: Kafka does not let us use it"):
        send(provider, "orders", "one")

    send(provider, "orders", "one")  # the account now has the permission
    drive(provider.close())


def test_a_commit_that_is_refused_as_another_producers_says_who_it_was(mock: KafkaServer) -> None:
    mock.refuse(END_TXN, KafkaError.PRODUCER_FENCED)
    provider = Kafka.from_url(f"{mock.url}&transactional_id=shop")

    with pytest.raises(ProviderUnavailableError, match="has taken over the transactional_id 'shop'"):
        send(provider, "orders", "one")

    send(provider, "orders", "one")
    drive(provider.close())
