"""Shared parts of the RabbitMQ tests: a look into a broker from outside, and an existing destination."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from history.bridge import drive
from history.message import Message, Uuid
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from triggers.providers.opening import open_provider
from triggers.providers.rabbitmq.frames import driver
from triggers.providers.rabbitmq.settings import queue_of


def raw(server: RabbitmqServer) -> Any:
    return driver.BlockingConnection(driver.URLParameters(f"amqp://{server.address}/%2F"))


def depth(server: RabbitmqServer, name: str) -> int:
    """Count the messages that wait for the subscription ``name`` of the destination ``name``."""
    connection = raw(server)
    try:
        found = connection.channel().queue_declare(queue_of(name, name), passive=True)
        return cast("int", found.method.message_count)
    finally:
        connection.close()


def subscribe(url: str, *names: str) -> None:
    """Make destinations, each with a subscription of the same name, so that sent messages are kept."""
    provider = open_provider(url)
    for name in names:
        drive(drive(provider.open_receiver(name, subscription=name, name="first")).close())
    drive(provider.close())


def later(body: str, seconds: float) -> Message:
    """Return a message that is due after so many seconds."""
    return Message(body=body, uuid=Uuid(body), delivery_time=datetime.now(UTC) + timedelta(seconds=seconds))
