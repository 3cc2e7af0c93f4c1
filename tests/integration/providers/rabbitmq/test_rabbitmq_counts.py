"""What RabbitMQ's delivery counts are worth: each happening, on each kind of queue, over each wire."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import pytest
from proton.utils import BlockingConnection

from history.bridge import drive
from history.message import Message
from tests.fixtures.servers.rabbitmq import new_rabbitmq, new_rabbitmq4
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.integration.helpers.rabbitmq_queues import raw
from triggers.providers.amqp.management import queue_address
from triggers.providers.brokers.trust import (
    AMQP_CLASSIC,
    AMQP_QUORUM,
    RABBITMQ_CLASSIC,
    RABBITMQ_QUORUM,
    Effect,
    Happening,
    TrustProfile,
)
from triggers.providers.contract.common import take
from triggers.providers.opening import open_provider
from triggers.providers.provider import Arrival, Provider, Receiver
from triggers.providers.rabbitmq.settings import QUEUE

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300), pytest.mark.xdist_group("rabbitmq")]

#: A quorum queue is safe from a kill of its broker so long after it was declared, in seconds.
SETTLING = 3.0

PROFILES = {
    "rabbitmq": {"quorum": RABBITMQ_QUORUM, "classic": RABBITMQ_CLASSIC},
    "amqp": {"quorum": AMQP_QUORUM, "classic": AMQP_CLASSIC},
}

Measured = dict[tuple[str, Happening], Effect]


class Laboratory:
    """A broker of its own, with a queue for each happening and kind of queue."""

    def __init__(self, server: RabbitmqServer, wire: str) -> None:
        self.server = server
        self.wire = wire
        self.places = [(kind, happening) for kind in PROFILES[wire] for happening in Happening]

    def measure(self) -> Measured:
        """Have each message delivered, have something happen to it, and see what the next delivery says."""
        self.fill()
        found = {
            place: self.after(*place) for place in self.places if place[1] is not Happening.BROKER_KILLED
        }
        return found | self.after_a_kill()

    def fill(self) -> None:
        """Declare the queues, and send a message to each."""
        connection = raw(self.server)
        for kind, happening in self.places:
            arguments = {"x-queue-type": kind}
            connection.channel().queue_declare(_queue(kind, happening), durable=True, arguments=arguments)
        connection.close()
        for kind, happening in self.places:
            with self.opened(kind) as provider:
                drive(provider.send(QUEUE + _queue(kind, happening), [Message(body="x")]))

    def after(self, kind: str, happening: Happening) -> Effect:
        """Have one of the lesser things happen."""
        queue = _queue(kind, happening)
        if happening is Happening.RETURNED:
            with self.taking(kind, queue) as (receiver, arrival):
                drive(receiver.recover([arrival]))
        elif happening is Happening.RELEASED:
            {"rabbitmq": _requeue, "amqp": _release}[self.wire](self.server, queue)
        else:
            words = [
                sys.executable,
                "-m",
                "tests.integration.providers.rabbitmq.taker",
                self.url(kind),
                QUEUE + queue,
            ]
            assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
        return self.seen(kind, queue)

    def after_a_kill(self) -> Measured:
        """Kill the broker while a consumer holds a message of each kind of queue."""
        happening = Happening.BROKER_KILLED
        time.sleep(SETTLING)
        with ExitStack() as holding:
            for kind in PROFILES[self.wire]:
                holding.enter_context(self.taking(kind, _queue(kind, happening)))
            self.server.kill()
            self.server.start()
        return {(kind, happening): self.seen(kind, _queue(kind, happening)) for kind in PROFILES[self.wire]}

    def seen(self, kind: str, queue: str) -> Effect:
        """Say what the next delivery says."""
        with self.taking(kind, queue) as (_, arrival):
            if arrival.message.delivery_count > 1:
                return Effect.COUNTED
            return Effect.FLAGGED if arrival.message.redelivered else Effect.FORGOTTEN

    def url(self, kind: str) -> str:
        """Return a URL under which the broker's count is told as it is."""
        options = f"first_count=as_told{f'&queue_type={kind}' if self.wire == 'rabbitmq' else ''}"
        return f"{self.wire}://{self.server.address}/?{options}"

    @contextmanager
    def opened(self, kind: str) -> Generator[Provider, None, None]:
        """Open a provider."""
        provider = open_provider(self.url(kind))
        yield provider
        drive(provider.close())

    @contextmanager
    def taking(self, kind: str, queue: str) -> Generator[tuple[Receiver, Arrival], None, None]:
        """Have a message delivered."""
        with self.opened(kind) as provider:
            receiver = drive(provider.open_receiver(QUEUE + queue, subscription="s", name="a"))
            yield receiver, drive(take(receiver, 1))[0]
            drive(receiver.close())


def _queue(kind: str, happening: Happening) -> str:
    return f"{kind}-{happening.name}".lower()


def _requeue(server: RabbitmqServer, queue: str) -> None:
    """Give a message back unseen over AMQP 0-9-1, which has one word for that and for a failure."""
    connection = raw(server)
    channel = connection.channel()
    method, _, _ = channel.basic_get(queue)
    channel.basic_nack(method.delivery_tag, requeue=True)
    connection.close()


def _release(server: RabbitmqServer, queue: str) -> None:
    """Give a message back unseen over AMQP 1.0."""
    url = f"amqp://127.0.0.1:{server.port}"
    connection: Any = BlockingConnection(
        url, user=server.user, password=server.password, allowed_mechs="PLAIN"
    )
    # With credit of its own it would be given the message again.
    receiver = connection.create_receiver(queue_address(queue), credit=0)
    receiver.receive()
    receiver.release(delivered=False)
    connection.close()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Measured]:
    """Measure once for each wire."""

    @cache
    def measure(wire: str) -> Measured:
        folder = tmp_path_factory.mktemp(wire)
        with new_rabbitmq(folder) if wire == "rabbitmq" else new_rabbitmq4() as server:
            return Laboratory(server, wire).measure()

    return measure


@pytest.mark.parametrize("happening", Happening, ids=lambda happening: happening.name)
@pytest.mark.parametrize(("wire", "kind"), [(wire, kind) for wire in PROFILES for kind in PROFILES[wire]])
def test_a_count_is_worth_what_its_profile_says(
    measured: Callable[[str], Measured], wire: str, kind: str, happening: Happening
) -> None:
    profile: TrustProfile = PROFILES[wire][kind]

    assert measured(wire)[kind, happening] is profile.effects[happening]
