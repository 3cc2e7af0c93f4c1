"""Over AMQP 1.0, too, RabbitMQ 4 keeps messages until they are due; what cannot be kept is refused."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from history.message import Message, Uuid
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.integration.helpers.rabbitmq_queues import later
from triggers.providers.amqp.connection import Connection
from triggers.providers.amqp.provider import Amqp
from triggers.providers.contract.common import A_WHILE, arrivals, bodies, take
from triggers.providers.rabbitmq.provider import RabbitMQ

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("rabbitmq")]


@pytest.fixture
def provider(amqp_url: str) -> Iterator[Amqp]:
    made = Amqp.from_url(amqp_url)
    yield made
    drive(made.close())


def test_both_protocols_wait_in_the_same_queues(provider: Amqp, rabbitmq4_server: RabbitmqServer) -> None:
    classic = RabbitMQ.from_url(f"rabbitmq://{rabbitmq4_server.address}/")
    receiver = drive(classic.open_receiver("both", subscription="s", name="a"))
    due = datetime.now(UTC) + timedelta(seconds=1)
    # A text of AMQP 1.0 is a typed value, which RabbitMQ hands on to the older protocol as its bytes.
    order = Message(body=b"order-1", uuid=Uuid("order-1"), delivery_time=due)
    another = Message(body=b"order-2", uuid=Uuid("order-2"), delivery_time=due)
    drive(provider.send("both", [order]))
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


def test_each_slot_gives_its_link_back(provider: Amqp) -> None:
    drive(drive(provider.open_receiver("slots", subscription="s", name="a")).close())
    drive(provider.send("slots", [later("order-1", 1)]))
    connection = provider._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (it counts them)
    assert connection is not None
    links = len(connection.links)

    drive(provider.send("slots", [later(f"order-{slot}", slot) for slot in range(2, 6)]))

    assert len(connection.links) == links


def test_what_is_too_far_ahead_is_refused_before_anything_is_sent(provider: Amqp) -> None:
    receiver = drive(provider.open_receiver("far", subscription="s", name="a"))

    with pytest.raises(ConfigurationError, match=r"^delivery_time: "):
        drive(provider.send("far", [Message(body="now"), later("order-1", 86_400 * 365)]))

    assert list(drive(receiver.receive(1, A_WHILE))) == []
    drive(receiver.close())


def test_nothing_waits_for_a_destination_that_nobody_has_declared(provider: Amqp) -> None:
    for nowhere in ("nowhere", "queue:nowhere"):
        with pytest.raises(ConfigurationError, match="declare it, or start its consumer first"):
            drive(provider.send(nowhere, [later("order-1", 1)]))


def test_a_temporary_queue_may_be_gone_by_then(provider: Amqp) -> None:
    name, receiver = drive(provider.open_temporary("replies"))

    with pytest.raises(ConfigurationError, match=r"^delivery_time: "):
        drive(provider.send(name, [later("order-1", 1)]))

    drive(receiver.close())


def test_another_broker_would_deliver_at_once(provider: Amqp, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
    # What RabbitMQ says of itself, as another broker would.
    monkeypatch.setattr(Connection, "is_rabbitmq", False)

    with pytest.raises(ConfigurationError, match=r"^delivery_time: "):
        drive(provider.send("orders", [Message(body="now"), later("order-1", 1)]))

    monkeypatch.undo()
    assert list(drive(receiver.receive(2, A_WHILE))) == []
    drive(receiver.close())
