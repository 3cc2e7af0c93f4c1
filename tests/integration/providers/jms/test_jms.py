"""JMS on a real ActiveMQ: what a Java client sends and reads, selectors, topics, replies, the end."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from history.bridge import drive
from tests.fixtures.servers.activemq import ACTIVEMQ, JavaPeer
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.spark import SHORT_LIVED
from tests.fixtures.waiting import PATIENCE, patience
from tests.hostile import over_jms
from tests.integration.helpers.consumers import Running
from tests.integration.helpers.jms_queues import depth
from triggers import ConfigurationError, Consumer, Message, Producer, ProviderUnavailableError, trigger
from triggers.providers import Arrival, Receiver
from triggers.providers.jms import JmsProvider
from triggers.providers.jms.codec import BODY

pytestmark = ACTIVEMQ

SOON = timedelta(seconds=PATIENCE)

#: The tests wait this long for a message that must not come.
A_WHILE = timedelta(milliseconds=200)


@pytest.fixture
def provider(activemq: ActiveMqServer) -> Iterator[JmsProvider]:
    provider = JmsProvider.from_url(activemq.url)
    yield provider
    drive(provider.close())


@pytest.fixture
def queue() -> str:
    return f"jms-{uuid4().hex[:12]}"


def opened(provider: JmsProvider, destination: str, subscription: str = "s") -> Receiver:
    return drive(provider.open_receiver(destination, subscription=subscription, name="a"))


def take(receiver: Receiver, count: int = 1) -> list[Arrival]:
    """Receive so many messages."""
    taken: list[Arrival] = []
    while len(taken) < count:
        received = drive(receiver.receive(count - len(taken), SOON))
        assert received, f"only {len(taken)} came"
        taken += [one for one in received if isinstance(one, Arrival)]
    return taken


def bodies(receiver: Receiver, count: int) -> list[Any]:
    """Receive and acknowledge so many messages, and return their bodies."""
    taken: list[Any] = []
    while len(taken) < count:
        arrived = take(receiver)
        drive(receiver.acknowledge(arrived))
        taken += [one.message.body for one in arrived]
    return taken


def nothing_comes(receiver: Receiver) -> bool:
    return list(drive(receiver.receive(1, A_WHILE))) == []


def test_every_kind_of_body_and_header_arrives_from_java(
    activemq: ActiveMqServer, provider: JmsProvider, queue: str, java_peer: JavaPeer
) -> None:
    java_peer(activemq, "kinds", queue)
    receiver = opened(provider, queue)

    arrived: list[Message] = []
    while len(arrived) < 5:  # they are of one group, and the broker keeps its order
        taken = take(receiver)
        arrived += [one.message for one in taken]
        drive(receiver.acknowledge(taken))

    drive(receiver.close())
    properties = {
        "yes": True,
        "byte": 8,
        "short": 16,
        "int": 32,
        "long": 2**62,
        "float": 0.25,
        "double": 3.0,
        "text": "été",
    }
    order = {"id": "order 17", "pieces": 5, "cents": 2**40, "rate": 0.5, "paid": True, "grade": "A"}
    assert {one.properties.get(BODY, type(one.body).__name__): one.body for one in arrived} == {
        "str": "grüße \N{SNOWMAN}",
        "bytes": b"\x00\xffA",
        "map": {**order, "seal": "AQI=", "nothing": None},
        "stream": ["first", 7, 1.5, False, "Aw=="],
        "none": None,
    }
    for one in arrived:
        told = {name: value for name, value in one.properties.items() if name not in {"uuid", BODY}}
        assert told == properties
        assert [type(value) for value in told.values()] == [type(properties[name]) for name in told]
        assert (one.correlation_id, one.type, one.reply_to) == (
            "correlation",
            "order.created",
            "topic:answers",
        )
        assert (one.persistent, one.priority, one.group_id, one.group_sequence) == (False, 7, "customer 5", 3)
        assert (one.destination, one.delivery_count, one.redelivered) == (queue, -1, False)
        assert one.uuid is not None
        assert one.uuid.startswith("java ActiveMQ")
        assert one.message_id is not None
        assert one.timestamp is not None
        assert one.expiration == one.timestamp + timedelta(hours=1)


def test_a_message_that_lives_longer_than_java_can_count_never_expires(
    activemq: ActiveMqServer, provider: JmsProvider, queue: str
) -> None:
    over_jms.send(
        activemq.url, queue, [lambda session: session.createTextMessage("x")], milliseconds=2**63 - 1
    )
    receiver = opened(provider, queue)

    [one] = take(receiver)
    drive(receiver.dead_letter([one], "because"))

    assert (one.message.body, one.message.expiration) == ("x", None)
    assert depth(activemq.url, f"DLQ.{queue}") == 1
    drive(receiver.close())


def test_java_reads_every_kind_of_body_and_header(
    activemq: ActiveMqServer, provider: JmsProvider, queue: str, java_peer: JavaPeer
) -> None:
    order = {"id": "order 17", "pieces": 5, "cents": 2**40, "rate": 0.5, "paid": True, "nothing": None}
    sent: list[tuple[Any, dict[str, Any]]] = [
        ("grüße \N{SNOWMAN}", {}),
        (b"\x00\xffA", {}),
        ({"deep": [1, None]}, {}),
        (order, {BODY: "map"}),
        (["first", 7, 1.5, False], {BODY: "stream"}),
        (None, {BODY: "none"}),
    ]
    expires = datetime.now(UTC) + timedelta(hours=1)
    headers: dict[str, Any] = {
        "correlation_id": "correlation",
        "type": "order.created",
        "reply_to": "topic:answers",
        "priority": 7,
        "persistent": False,
        "expiration": expires,
        "group_id": "customer 5",
        "group_sequence": 3,
    }
    own = {"yes": True, "int": 32, "long": 2**62, "double": 3.0, "text": "été", "nothing": None, "uuid": "u"}
    messages = [Message(body=body, properties={**own, **more}, **headers) for body, more in sent]

    drive(provider.send(queue, messages))
    lines = [line.split("\t") for line in java_peer(activemq, "read", queue, len(sent)).splitlines()]

    found = [
        [line for more, line in group if more]
        for first, group in itertools.groupby(_numbered(lines), key=lambda pair: pair[0])
        if first
    ]
    kinds = [{field: kind for field, kind, _ in one} for one in found]
    told = [{field: value for field, _, value in one} for one in found]
    for one, typed in zip(told, kinds, strict=True):
        assert {name: (typed[f"property {name}"], one[f"property {name}"]) for name in own} == {
            "yes": ("Boolean", "true"),
            "int": ("Integer", "32"),
            "long": ("Long", str(2**62)),
            "double": ("Double", "3.0"),
            "text": ("String", "été"),
            "nothing": ("null", "null"),
            "uuid": ("String", "u"),
        }
        assert (one["JMSCorrelationID"], one["JMSType"]) == ("correlation", "order.created")
        assert (one["JMSReplyTo"], one["JMSPriority"]) == ("topic://answers", "7")
        assert (one["JMSDeliveryMode"], one["expires"]) == ("1", "true")
        assert (one["property JMSXGroupID"], one["property JMSXGroupSeq"]) == ("customer 5", "3")
    content = [
        {
            (field, typed[field]): value
            for field, value in one.items()
            if field.startswith(("message", "body"))
        }
        for one, typed in zip(told, kinds, strict=True)
    ]
    assert content == [
        {("message", "String"): "ActiveMQTextMessage", ("body", "String"): "grüße \N{SNOWMAN}"},
        {("message", "String"): "ActiveMQBytesMessage", ("body", "byte[]"): "AP9B"},
        {("message", "String"): "ActiveMQTextMessage", ("body", "String"): '{"deep":[1,null]}'},
        {
            ("message", "String"): "ActiveMQMapMessage",
            ("body id", "String"): "order 17",
            ("body pieces", "Integer"): "5",
            ("body cents", "Long"): str(2**40),
            ("body rate", "Double"): "0.5",
            ("body paid", "Boolean"): "true",
            ("body nothing", "null"): "null",
        },
        {
            ("message", "String"): "ActiveMQStreamMessage",
            ("body 0", "String"): "first",
            ("body 1", "Integer"): "7",
            ("body 2", "Double"): "1.5",
            ("body 3", "Boolean"): "false",
        },
        {("message", "String"): "ActiveMQMessage"},
    ]


def _numbered(lines: list[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Return the number of the message for each line."""
    number = 0
    for line in lines:
        number += line[0] == "message"
        yield number, line


def test_a_selector_is_the_brokers_work(provider: JmsProvider, queue: str) -> None:
    sent = [
        Message(body=str(number), properties={"region": "EU" if number % 2 else "US"}) for number in range(4)
    ]
    drive(provider.send(queue, sent))
    selector = quote("region = 'EU'")
    eu = opened(provider, f"{queue}?selector={selector}")
    all_of_them = opened(provider, queue)

    assert bodies(eu, 2) == ["1", "3"]
    assert nothing_comes(eu)
    assert bodies(all_of_them, 2) == ["0", "2"]

    drive(eu.close())
    drive(all_of_them.close())


@pytest.mark.parametrize("session", ["client", "transacted"])
def test_a_message_that_comes_back_often_is_not_hidden_among_the_brokers_dead_letters(
    activemq: ActiveMqServer, queue: str, session: str
) -> None:
    provider = JmsProvider.from_url(f"{activemq.url}&session={session}")
    drive(provider.send(queue, [Message(body="again and again")]))
    receiver = opened(provider, queue)

    for times in range(2, 12):
        drive(receiver.recover(take(receiver)))
        [arrival] = take(receiver)
        drive(receiver.recover([arrival]))

        assert arrival.message.delivery_count == 2 * times - 2

    assert bodies(receiver, 1) == ["again and again"]
    drive(receiver.close())
    drive(provider.close())


def test_a_durable_subscriber_gets_what_was_sent_while_it_was_away(provider: JmsProvider, queue: str) -> None:
    topic = f"topic:{queue}"
    for subscription in ("one", "two"):
        drive(opened(provider, topic, subscription).close())

    drive(provider.send(topic, [Message(body=str(number)) for number in range(3)]))

    for subscription in ("one", "two"):
        receiver = opened(provider, topic, subscription)
        [first] = take(receiver)
        assert nothing_comes(receiver), "one at a time"
        drive(receiver.recover([first]))
        [again] = take(receiver)
        assert (first.message.body, again.message.body) == ("0", "0")
        assert (again.message.delivery_count, again.message.destination) == (2, topic)
        drive(receiver.acknowledge([again]))
        assert bodies(receiver, 2) == ["1", "2"]
        assert nothing_comes(receiver)
        drive(receiver.close())


def test_a_durable_subscription_has_one_consumer_and_another_process_waits_for_it(
    activemq: ActiveMqServer, provider: JmsProvider, queue: str
) -> None:
    receiver = opened(provider, f"topic:{queue}")
    elsewhere = JmsProvider.from_url(activemq.url)

    with pytest.raises(ConfigurationError, match="set concurrency=1"):
        opened(provider, f"topic:{queue}")
    with pytest.raises(ProviderUnavailableError, match="its client id is another connection's"):
        opened(elsewhere, f"topic:{queue}")
    drive(receiver.close())
    drive(opened(elsewhere, f"topic:{queue}").close())


def test_a_subscriber_that_is_not_durable_gets_what_is_sent_while_it_listens(
    provider: JmsProvider, queue: str
) -> None:
    drive(provider.send(f"topic:{queue}", [Message(body="before")]))
    listeners = [opened(provider, f"topic:{queue}?durable=false", name) for name in ("one", "two")]

    drive(provider.send(f"topic:{queue}", [Message(body="now"), Message(body="then")]))

    assert [bodies(one, 2) for one in listeners] == [["now", "then"]] * 2
    for one in listeners:
        drive(one.close())


def test_a_queue_of_a_virtual_topic_is_shared_by_the_consumers_of_a_subscription(
    provider: JmsProvider, queue: str
) -> None:
    ones = [opened(provider, f"Consumer.one.VirtualTopic.{queue}") for _ in range(2)]
    two = opened(provider, f"Consumer.two.VirtualTopic.{queue}")

    drive(provider.send(f"topic:VirtualTopic.{queue}", [Message(body="a"), Message(body="b")]))

    assert [bodies(one, 1) for one in ones] == [["a"], ["b"]]
    assert bodies(two, 2) == ["a", "b"]
    for one in (*ones, two):
        drive(one.close())


def test_a_provider_that_sends_unasked_keeps_the_order_one_message_at_a_time(
    activemq: ActiveMqServer, queue: str
) -> None:
    provider = JmsProvider.from_url(f"{activemq.url}&factory.prefetchPolicy.all=5")
    drive(provider.send(queue, [Message(body=str(number)) for number in range(6)]))
    receiver = opened(provider, queue)

    [first] = take(receiver)
    assert nothing_comes(receiver)
    drive(receiver.recover([first]))
    arrived = bodies(receiver, 6)

    assert arrived == [str(number) for number in range(6)]
    drive(receiver.close())
    drive(provider.close())


def test_a_request_is_answered_at_a_temporary_queue(activemq: ActiveMqServer, queue: str) -> None:
    @trigger(queue, name=queue)
    def answer(message: Message) -> None:
        with Producer(activemq.url) as replying:
            replying.reply(message, ["answer", message.uuid])

    consumer = Consumer([answer], activemq.url, history="memory://")
    with Running(consumer), Producer(activemq.url) as asking:
        replies = [asking.request(queue, "?", uuid=f"u{number}", timeout=SOON) for number in range(3)]

    told = [one.body for one in replies if one is not None]
    assert told == [["answer", f"u{number}"] for number in range(3)]


#: A process that ends in the middle: with connections open, and threads that wait in Java.
ENDING = """
import os, signal, sys, threading, time
from datetime import timedelta
from history.bridge import drive
from triggers.providers.opening import open_provider
signal.signal(signal.SIGTERM, lambda *_: print("python was told", flush=True))
provider = open_provider(sys.argv[1])
drive(provider.ping())
receiver = drive(provider.open_receiver("nothing-comes", subscription="s", name="a"))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.5)
drive(receiver.receive(1, timedelta(seconds=0.5)))  # Java has not ended
waiting = threading.Thread(target=lambda: drive(receiver.receive(1, timedelta(minutes=5))), daemon=True)
waiting.start()
time.sleep(0.1)
print("the end", flush=True)
"""


def test_a_process_ends_although_a_thread_waits_in_java_and_signals_are_pythons(
    activemq: ActiveMqServer,
) -> None:
    words = [sys.executable, "-c", ENDING, activemq.url]

    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert (ended.returncode, ended.stdout.splitlines()) == (0, ["python was told", "the end"]), ended.stderr


#: A JMS client and a Spark session in one process.
SPARK = """
import sys
from history.bridge import drive
from history.message import Message
from triggers.providers.opening import open_provider
provider = open_provider(sys.argv[1])
drive(provider.send("beside-spark", [Message(body="before")]))
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.getOrCreate()
rows = spark.sql("SELECT 100 AS rows").first()["rows"]
drive(provider.send("beside-spark", [Message(body=str(rows))]))
receiver = drive(provider.open_receiver("beside-spark", subscription="s", name="a"))
received = list(drive(receiver.receive(2)))
drive(receiver.acknowledge(received))
spark.stop()
print([one.message.body for one in received])
"""


@pytest.mark.prove
def test_jms_and_spark_share_a_process(activemq: ActiveMqServer) -> None:
    words, environment = (
        [sys.executable, "-c", SPARK, activemq.url],
        os.environ | {"JDK_JAVA_OPTIONS": SHORT_LIVED},
    )

    ended = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=patience(100), check=False
    )

    assert ended.stdout.splitlines() == ["['before', '100']"], ended.stderr
