"""Ordered triggers on Kafka: messages of one key run in their order, in any consumer."""

import random
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from history.bridge import drive
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, Running, parked_in
from tests.integration.helpers.ordering import Diary, Failing, numbered
from triggers import ConfigurationError, Consumer, Message, TransientError, trigger
from triggers.providers import Receiver, capabilities_of
from triggers.providers.contract.common import bodies, take
from triggers.providers.contract.common import numbered as numbered_bodies
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.provider import Kafka

#: More partitions than the consumers of any test.
PARTITIONS = 4

GROUPS, LENGTH = 20, 20


@pytest.fixture
def topic(kafka: AnyKafka) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    kafka.create(name, PARTITIONS)
    return name


@pytest.fixture
def chance() -> random.Random:
    """Return a source of randomness; it starts from the seed that pytest prints."""
    return random.Random(random.randrange(2**32))  # noqa: S311  (no secret)


def send(kafka: AnyKafka, topic: str, messages: Sequence[Message]) -> None:
    provider = Kafka.from_url(kafka.url)
    drive(provider.send(topic, messages))
    drive(provider.close())


def opened(url: str, topic: str) -> Receiver:
    return drive(Kafka.from_url(url).open_receiver(topic, subscription="s", name="a"))


def done_in(*consumers: Running, topic: str) -> int:
    """Count the messages that ran, and the duplicates."""
    return sum(one.counts[topic].get("ok", 0) for one in consumers)


def test_keys_keep_their_order_when_messages_are_rolled_back(
    lane: Lane, kafka: AnyKafka, topic: str, tmp_path: Path, chance: random.Random
) -> None:
    diary, failing = Diary(), Failing(GROUPS, LENGTH, 0.1, chance)
    history = f"sqlite:///{tmp_path}/history.sqlite3"

    def work(message: Message) -> None:
        diary.write(message, fails=failing.fails(message))

    orders = lane.trigger(topic, work, ordered=True, concurrency=8, transacted=True)
    send(kafka, topic, numbered(GROUPS, LENGTH, chance))

    with lane.run([orders], kafka.patient_url, history=history) as running:
        eventually(lambda: done_in(running, topic=topic) == GROUPS * LENGTH)

    diary.check(GROUPS, LENGTH)
    # Messages that waited behind a failed message were not given back with it.
    assert running.counts[topic]["recovered"] == failing.total
    assert kafka.depth(topic, f"{topic}:{topic}") == 0
    assert parked_in(history, topic) == []


@pytest.mark.prove
def test_keys_keep_their_order_while_their_partitions_move(
    kafka: AnyKafka, topic: str, tmp_path: Path, chance: random.Random
) -> None:
    """A second consumer joins in the middle, so that half of the partitions move, and leaves again."""
    diary, failing = Diary(), Failing(GROUPS, LENGTH, 0.1, chance)
    history = f"sqlite:///{tmp_path}/history.sqlite3"
    threads: set[str] = set()
    going_on = threading.Event()

    def work(message: Message) -> None:
        if diary.total >= GROUPS * LENGTH // 4:
            going_on.wait(PATIENCE)  # the other messages wait for the second consumer
        diary.write(message, fails=failing.fails(message))

    def consumer(name: str) -> Running:
        @trigger(topic, name=topic, ordered=True, concurrency=4, transacted=True)
        def orders(message: Message) -> None:
            if name == "second":
                going_on.set()
            threads.add(name)
            work(message)

        return Running(Consumer([orders], kafka.url, history=history))

    messages = numbered(GROUPS, LENGTH, chance)
    half = len(messages) // 2
    send(kafka, topic, messages[:half])
    with consumer("first") as first:
        eventually(lambda: diary.total >= half // 2)
        with consumer("second") as second:
            send(kafka, topic, messages[half:])  # a partition may have no more messages
            assert going_on.wait(PATIENCE)
            eventually(lambda: diary.total >= GROUPS * LENGTH * 3 // 4)
        eventually(lambda: done_in(first, second, topic=topic) >= GROUPS * LENGTH)

    diary.check(GROUPS, LENGTH)
    assert threads == {"first", "second"}
    assert parked_in(history, topic) == []


def test_binary_keys_are_groups_too(kafka: AnyKafka, topic: str, tmp_path: Path) -> None:
    ran: list[bytes] = []
    failed: list[bytes] = []

    @trigger(topic, name=topic, ordered=True, concurrency=4, transacted=True)
    def orders(body: bytes) -> None:
        if body == b"0" and not failed:
            failed.append(body)
            raise TransientError("for now")
        ran.append(body)

    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for number in range(10):
        producer.produce(topic, b"%d" % number, b"\xff\xfe")
    assert producer.flush(30) == 0

    with Running(Consumer([orders], kafka.patient_url, history=f"sqlite:///{tmp_path}/history.sqlite3")):
        eventually(lambda: len(ran) == 10)

    assert ran == [b"%d" % number for number in range(10)]


def test_what_was_recovered_comes_in_order_before_what_is_new(kafka: AnyKafka) -> None:
    topic = f"one-{uuid4().hex[:8]}"
    kafka.create(topic, 1)
    provider = Kafka.from_url(kafka.patient_url)
    drive(provider.send(topic, numbered_bodies(9)))
    receiver = opened(kafka.patient_url, topic)
    keeping = capabilities_of(receiver).keeping_order
    assert keeping is not None
    got = drive(take(receiver, 5))
    drive(receiver.recover([got[3]], timedelta(seconds=PATIENCE)))
    drive(receiver.recover([got[0], got[1]]))

    drive(keeping.hand_out_in_order())

    assert bodies(drive(take(receiver, 7))) == ["0", "1", "3", "5", "6", "7", "8"]
    assert not keeping.take_moved()
    drive(receiver.close())
    drive(provider.close())


def test_messages_stay_in_order_if_a_receive_ends_while_they_come(
    kafka: AnyKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"one-{uuid4().hex[:8]}"
    kafka.create(topic, 1)
    provider = Kafka.from_url(kafka.patient_url)
    drive(provider.send(topic, numbered_bodies(9)))
    take_one: Callable[[Member, Any], None] = vars(Member)["_take_one"]

    def take_between_two_receives(member: Member, message: Any) -> None:
        if message.error() is None and message.offset() % 2:
            member.want(9)
        else:
            member.stop_soon()
        take_one(member, message)

    monkeypatch.setattr(Member, "_take_one", take_between_two_receives)
    receiver = opened(kafka.patient_url, topic)

    assert bodies(drive(take(receiver, 9))) == [str(number) for number in range(9)]
    drive(receiver.close())
    drive(provider.close())


def test_a_share_group_is_refused_with_the_remedy(kafka: AnyKafka, topic: str) -> None:
    @trigger(topic, name=topic, ordered=True, max_delivery_count=4)
    def orders(body: str) -> None: ...

    with pytest.raises(ConfigurationError, match=r"a share group of Kafka keeps no order.*leave share"):
        Consumer([orders], f"kafka://{kafka.address}?share=true", history="memory://").run(until_idle=1)
