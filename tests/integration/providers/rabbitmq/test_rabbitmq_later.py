"""RabbitMQ keeps messages until they are due: through its own death, for others' queues, out of order."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pika.exceptions import ChannelClosedByBroker

from history.bridge import drive
from history.errors import ConfigurationError
from tests.fixtures.servers.rabbitmq import new_rabbitmq
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.rabbitmq_queues import later, raw
from triggers.providers.contract.common import A_WHILE, bodies, take
from triggers.providers.rabbitmq.later import Slot
from triggers.providers.rabbitmq.provider import RabbitMQ

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("rabbitmq")]

#: A quorum queue is safe from a kill of its broker so long after it was declared, in seconds.
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


def test_what_is_due_first_comes_first_whatever_was_sent_first(provider: RabbitMQ) -> None:
    receiver = drive(provider.open_receiver("sooner", subscription="s", name="a"))
    for body, seconds in (("third", 1.5), ("first", 0.5), ("second", 1.0)):
        drive(provider.send("sooner", [later(body, seconds)]))

    assert bodies(drive(take(receiver, 3))) == ["first", "second", "third"]
    drive(receiver.close())


def test_nothing_waits_for_a_destination_that_nobody_has_declared(provider: RabbitMQ) -> None:
    for nowhere in ("nowhere", "queue:nowhere"):
        with pytest.raises(ConfigurationError, match="declare it, or start its consumer first"):
            drive(provider.send(nowhere, [later("order-1", 1)]))


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

        assert sorted(bodies(arrived)) == ["order-1", "order-2"]  # both were due if it took long to start
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
    queue = Slot.of(sent.delivery_time, datetime.now(UTC)).queue("passing")
    drive(provider.send("passing", [sent]))
    assert depth_of(rabbitmq_server, queue) == 1
    assert bodies(drive(take(receiver, 1))) == ["order-1"]

    eventually(lambda: depth_of(rabbitmq_server, queue) is None)
    drive(receiver.close())


def depth_of(server: RabbitmqServer, queue: str) -> int | None:
    """Count what waits in a queue; None where there is no such queue."""
    connection = raw(server)
    try:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)
    except ChannelClosedByBroker:
        return None
    finally:
        connection.close()
