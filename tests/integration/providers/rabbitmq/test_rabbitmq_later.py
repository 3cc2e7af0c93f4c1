"""RabbitMQ keeps messages until they are due, over both protocols, and even if it is killed meanwhile."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pika.exceptions import ChannelClosedByBroker

from history import ConfigurationError, Message, Uuid
from history.bridge import drive
from tests.fixtures.servers.rabbitmq import new_rabbitmq
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.rabbitmq_queues import later, raw
from triggers import ProviderUnavailableError, open_provider
from triggers.providers.amqp.connection import AmqpConnection
from triggers.providers.amqp.provider import Amqp
from triggers.providers.contract.common import A_WHILE, arrivals, bodies, take
from triggers.providers.rabbitmq.later import DelaySlot
from triggers.providers.rabbitmq.provider import RabbitMQ

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("rabbitmq")]

#: A quorum queue survives a kill of its broker if it was declared so many seconds before.
SETTLING = 3.0


@pytest.fixture
def provider(rabbitmq_url: str) -> Iterator[RabbitMQ]:
    made = RabbitMQ.from_url(rabbitmq_url)
    yield made
    drive(made.close())


def test_a_queue_of_others_gets_its_messages_when_they_are_due(
    provider: RabbitMQ, rabbitmq_server: RabbitmqServer
) -> None:
    connection = raw(rabbitmq_server)
    connection.channel().queue_declare("theirs", durable=True)
    connection.close()
    sent = later("order-1", 1)
    drive(provider.send("queue:theirs", [sent]))
    receiver = drive(provider.open_receiver("queue:theirs", subscription="s", name="a"))

    assert list(drive(receiver.receive(1, A_WHILE))) == []
    [arrival] = drive(take(receiver, 1))

    assert sent.delivery_time is not None
    assert datetime.now(UTC) >= sent.delivery_time
    assert dict(arrival.message.properties) == {"uuid": "order-1"}
    drive(receiver.acknowledge([arrival]))
    drive(receiver.close())


@pytest.mark.parametrize("wire", ["rabbitmq_url", "amqp_url"])
def test_nothing_waits_for_a_destination_that_nobody_has_declared(
    wire: str, request: pytest.FixtureRequest
) -> None:
    provider = open_provider(request.getfixturevalue(wire))
    for nowhere in ("nowhere", "queue:nowhere"):
        with pytest.raises(ConfigurationError, match="declare it, or start its consumer first"):
            drive(provider.send(nowhere, [later("order-1", 1)]))
    drive(provider.close())


def test_what_a_policy_of_the_broker_expelled_says_so_as_ever(
    provider: RabbitMQ, rabbitmq_server: RabbitmqServer
) -> None:
    connection = raw(rabbitmq_server)
    channel = connection.channel()
    channel.queue_declare("expelled", durable=True)
    words = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "expelled", "x-message-ttl": 1}
    channel.queue_declare("policed", durable=True, arguments=words)
    channel.basic_publish("", "policed", b"x")
    connection.close()
    receiver = drive(provider.open_receiver("queue:expelled", subscription="s", name="a"))

    [arrival] = drive(take(receiver, 1))

    assert arrival.message.properties["x-first-death-queue"] == "policed"
    drive(receiver.acknowledge([arrival]))
    drive(receiver.close())


@pytest.mark.prove
def test_what_waits_outlives_a_killed_broker(tmp_path: Path) -> None:
    with new_rabbitmq(tmp_path) as server:
        provider = RabbitMQ.from_url(f"rabbitmq://{server.address}/")
        receiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
        drive(receiver.close())
        waiting = [later("order-1", 10), later("order-2", 12)]
        drive(provider.send("orders", waiting))
        time.sleep(SETTLING)
        server.kill()
        server.start()
        drive(provider.close())

        again = RabbitMQ.from_url(f"rabbitmq://{server.address}/")
        receiver = drive(again.open_receiver("orders", subscription="s", name="a"))
        arrived = drive(take(receiver, 2))

        assert sorted(bodies(arrived)) == ["order-1", "order-2"]  # on a slow start both are due
        assert waiting[1].delivery_time is not None
        assert datetime.now(UTC) >= waiting[1].delivery_time
        drive(receiver.acknowledge(arrived))
        drive(receiver.close())
        drive(again.close())


@pytest.mark.prove
def test_a_queue_that_has_had_its_time_goes_away(
    provider: RabbitMQ, rabbitmq_server: RabbitmqServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.providers.rabbitmq.later._MARGIN", 1000)
    receiver = drive(provider.open_receiver("passing", subscription="s", name="a"))
    sent = later("order-1", 0.5)
    assert sent.delivery_time is not None
    queue = DelaySlot.of(sent.delivery_time, datetime.now(UTC)).queue("passing")
    drive(provider.send("passing", [sent]))
    assert depth_of(rabbitmq_server, queue) == 1
    assert bodies(drive(take(receiver, 1))) == ["order-1"]

    eventually(lambda: depth_of(rabbitmq_server, queue) is None)
    drive(receiver.close())


def depth_of(server: RabbitmqServer, queue: str) -> int | None:
    """Count the messages that wait in a queue. Return None if the queue does not exist."""
    connection = raw(server)
    try:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)
    except ChannelClosedByBroker:
        return None
    finally:
        connection.close()


@pytest.fixture
def amqp(amqp_url: str) -> Iterator[Amqp]:
    """A provider of RabbitMQ 4, over AMQP 1.0."""
    made = Amqp.from_url(amqp_url)
    yield made
    drive(made.close())


def test_both_protocols_wait_in_the_same_queues(amqp: Amqp, rabbitmq4_server: RabbitmqServer) -> None:
    classic = RabbitMQ.from_url(f"rabbitmq://{rabbitmq4_server.address}/")
    receiver = drive(classic.open_receiver("both", subscription="s", name="a"))
    due = datetime.now(UTC) + timedelta(seconds=1)
    # In AMQP 1.0 a text is a typed value. RabbitMQ passes its bytes on to the older protocol.
    order = Message(body=b"order-1", uuid=Uuid("order-1"), delivery_time=due)
    another = Message(body=b"order-2", uuid=Uuid("order-2"), delivery_time=due)
    drive(amqp.send("both", [order]))
    drive(classic.send("both", [another]))

    early = arrivals(drive(receiver.receive(2, A_WHILE)))
    assert not early or datetime.now(UTC) >= due
    arrived = early + drive(take(receiver, 2 - len(early)))

    assert datetime.now(UTC) >= due
    assert bodies(arrived) == [b"order-1", b"order-2"]
    assert not [name for one in arrived for name in one.message.properties if "death" in name]
    drive(receiver.acknowledge(arrived))
    drive(receiver.close())
    drive(classic.close())


def test_each_slot_gives_its_link_back(amqp: Amqp) -> None:
    drive(drive(amqp.open_receiver("slots", subscription="s", name="a")).close())
    drive(amqp.send("slots", [later("order-1", 1)]))
    connection = drive(amqp._connection.opened())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (it counts them)
    links = len(connection.links)

    drive(amqp.send("slots", [later(f"order-{slot}", slot) for slot in range(2, 6)]))

    assert len(connection.links) == links


def test_so_does_one_that_takes_no_message(amqp: Amqp, rabbitmq4_server: RabbitmqServer) -> None:
    drive(drive(amqp.open_receiver("full", subscription="s", name="a")).close())
    one = later("order-1", 60)
    drive(amqp.send("full", [one]))
    connection = drive(amqp._connection.opened())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (as above)
    links = len(connection.links)
    rabbitmq4_server.control(
        "set_policy", "full", r"^doubtless\.later\..*\.full$", '{"max-length": 1}', "--apply-to", "queues"
    )

    def is_refused() -> bool:
        try:
            drive(amqp.send("full", [one]))
        except ProviderUnavailableError:
            return True
        return False

    assert eventually(is_refused)
    rabbitmq4_server.control("clear_policy", "full")

    assert eventually(lambda: len(connection.links) == links)


def test_what_is_too_far_ahead_is_refused_before_anything_is_sent(amqp: Amqp) -> None:
    receiver = drive(amqp.open_receiver("far", subscription="s", name="a"))

    with pytest.raises(ConfigurationError, match=r"^delivery_time: "):
        drive(amqp.send("far", [Message(body="now"), later("order-1", 86_400 * 365)]))

    assert list(drive(receiver.receive(1, A_WHILE))) == []
    drive(receiver.close())


def test_a_temporary_queue_may_be_gone_by_then(amqp: Amqp) -> None:
    name, receiver = drive(amqp.open_temporary("replies"))

    with pytest.raises(ConfigurationError, match=r"^delivery_time: "):
        drive(amqp.send(name, [later("order-1", 1)]))

    drive(receiver.close())


def test_another_broker_would_deliver_at_once(amqp: Amqp, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = drive(amqp.open_receiver("orders", subscription="s", name="a"))
    # Pretend that the broker does not identify itself as RabbitMQ.
    monkeypatch.setattr(AmqpConnection, "is_rabbitmq", False)

    with pytest.raises(ConfigurationError, match=r"^delivery_time: "):
        drive(amqp.send("orders", [Message(body="now"), later("order-1", 1)]))

    monkeypatch.undo()
    assert list(drive(receiver.receive(2, A_WHILE))) == []
    drive(receiver.close())
