"""ActiveMQ delays messages where its scheduler is on, through a crash of it; elsewhere it is refused."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from history.message import Message
from tests.fixtures.servers.activemq import ACTIVEMQ, need_activemq
from tests.fixtures.servers.activemq_server import ActiveMqServer
from triggers.providers.contract.common import take
from triggers.providers.jms import JmsProvider
from triggers.providers.provider import ProviderUnavailableError, Receiver

pytestmark = ACTIVEMQ

SOON = timedelta(seconds=1)


@pytest.fixture
def provider(activemq: ActiveMqServer) -> Iterator[JmsProvider]:
    provider = JmsProvider.from_url(activemq.url)
    yield provider
    drive(provider.close())


def later(delay: timedelta = SOON, **fields: object) -> Message:
    return Message.model_validate({"body": "later", "delivery_time": datetime.now(UTC) + delay, **fields})


def opened(provider: JmsProvider, destination: str) -> Receiver:
    return drive(provider.open_receiver(destination, subscription="s", name="a"))


def test_a_later_message_expires_when_its_sender_said(provider: JmsProvider) -> None:
    destination = f"expires-{uuid4().hex}"
    receiver = opened(provider, destination)
    expires = datetime.now(UTC) + timedelta(hours=1)

    drive(provider.send(destination, [later(timedelta(seconds=2), expiration=expires)]))
    [arrival] = drive(take(receiver, 1))
    drive(receiver.close())

    expiration = arrival.message.expiration
    assert expiration is not None
    assert abs(expiration - expires) < timedelta(seconds=1)  # without care, two seconds later


def test_the_mark_of_the_scheduler_is_no_property_and_is_refused(provider: JmsProvider) -> None:
    destination = f"marked-{uuid4().hex}"
    receiver = opened(provider, destination)

    with pytest.raises(ConfigurationError, match="scheduledJobId"):
        drive(provider.send(destination, [later(properties={"scheduledJobId": "x"})]))
    drive(provider.send(destination, [later(properties={"own": 1})]))
    [arrival] = drive(take(receiver, 1))
    drive(receiver.close())

    assert arrival.message.properties == {"own": 1}


@pytest.mark.prove
def test_a_broker_without_its_scheduler_is_sent_nothing_that_must_wait(tmp_path: Path) -> None:
    need_activemq()
    with ActiveMqServer(tmp_path / "activemq", scheduler=False) as server:
        provider = JmsProvider.from_url(server.url)
        receiver = opened(provider, "orders")

        with pytest.raises(ConfigurationError, match="schedulerSupport"):
            drive(provider.send("orders", [Message(body="before"), later()]))
        drive(provider.send("orders", [Message(body="now")]))
        [arrival] = drive(take(receiver, 1))
        drive(receiver.close())
        drive(provider.close())

        assert arrival.message.body == "now"


@pytest.mark.prove
def test_what_waits_survives_a_crash_of_the_broker(private_activemq: ActiveMqServer) -> None:
    provider = JmsProvider.from_url(private_activemq.url)
    due = datetime.now(UTC) + timedelta(seconds=3)
    drive(provider.send("orders", [Message(body=number, delivery_time=due) for number in range(20)]))

    private_activemq.kill()
    private_activemq.start()
    receiver = opened(provider, "orders")
    arrived = drive(take(receiver, 20))

    assert datetime.now(UTC) >= due
    assert [arrival.message.body for arrival in arrived] == list(range(20))
    drive(receiver.close())
    drive(provider.close())


@pytest.mark.prove
def test_it_is_asked_again_after_the_connection_was_lost(tmp_path: Path) -> None:
    need_activemq()
    with ActiveMqServer(tmp_path / "activemq") as server:
        provider = JmsProvider.from_url(server.url)
        drive(provider.send("orders", [later()]))

        server.stop()
        server.set_scheduler(on=False)
        server.start()

        with pytest.raises((ConfigurationError, ProviderUnavailableError)):
            drive(provider.send("orders", [later()]))
        with pytest.raises(ConfigurationError, match="schedulerSupport"):
            drive(provider.send("orders", [later()]))
        drive(provider.close())
