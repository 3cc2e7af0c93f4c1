"""The delivery count of each broker matches its profile after each event, on a real server."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from proton.utils import BlockingConnection

from history.bridge import drive
from tests.fixtures.servers.activemq import ACTIVEMQ as ON_ACTIVEMQ
from tests.fixtures.servers.activemq import need_activemq
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer
from tests.fixtures.servers.artemis import ARTEMIS as ON_ARTEMIS
from tests.fixtures.servers.artemis import need_artemis
from tests.fixtures.servers.artemis_server import ArtemisServer
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.rabbitmq import new_rabbitmq, new_rabbitmq4
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.rabbitmq_queues import raw
from triggers import Message, ProviderUnavailableError, open_provider
from triggers.providers import Arrival, Provider, Receiver
from triggers.providers.amqp.management import queue_address
from triggers.providers.brokers.trust import (
    ACTIVEMQ,
    AMQP_CLASSIC,
    AMQP_QUORUM,
    ARTEMIS,
    KAFKA,
    KAFKA_SHARE,
    NATS,
    RABBITMQ_CLASSIC,
    RABBITMQ_QUORUM,
    Effect,
    Happening,
    TrustProfile,
)
from triggers.providers.contract.common import SOON, take
from triggers.providers.rabbitmq.settings import QUEUE

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

#: A quorum queue survives a kill of its broker if it was declared so many seconds before.
SETTLING = 3.0

#: NATS delivers so many messages together. The delivery of the first one is soon on disk.
TOGETHER = 3

#: NATS is killed at most so often right after a delivery. About every third time it forgets the delivery.
KILLS = 30


class Server(Protocol):
    """A server that a test can kill and start."""

    def kill(self) -> None: ...

    def start(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Laboratory:
    """A broker, with the means to deliver a message and to deliver it again.

    A provider at ``url`` shows the broker's count unchanged. ``make`` makes a place of this name. ``release``
    gives its message back unseen, if closing a receiver does not do that. ``pause`` is the wait before a
    kill, in seconds. ``kills`` is the most kills until the worst effect has been seen.
    """

    url: str
    server: Server | None = None
    make: Callable[[str], str] = str
    release: Callable[[str], None] | None = None
    messages: int = 1
    pause: float = 0
    kills: int = 1

    def after(self, happening: Happening) -> set[Effect]:
        """Deliver messages, apply an event to them, and return the counts of the next deliveries."""
        said: set[Effect] = set()
        for number in range(self.kills if happening is Happening.BROKER_KILLED else 1):
            place = self.make(f"{happening.name}-{number}-{time.monotonic_ns()}".lower())
            with self.opened() as provider:  # when a mock of Kafka ends, it takes the members' messages back
                drive(provider.send(place, [Message(body="x")] * self.messages))
                self.happen(happening, place)
                said |= eventually(partial(self.effects, place))
            if Effect.FORGOTTEN in said:
                break
        return said

    def happen(self, happening: Happening, place: str) -> None:
        """Deliver messages, and apply an event to them."""
        if happening is Happening.CONSUMER_KILLED:
            words = [sys.executable, "-m", "tests.integration.providers.taker", self.url, place]
            died = subprocess.run([*words, str(self.messages)], check=False, timeout=SOON)
            assert died.returncode == -signal.SIGKILL
        elif happening is Happening.RELEASED and self.release is not None:
            self.release(place)
        else:
            with self.taking(place) as (receiver, arrived):
                if happening is Happening.RETURNED:
                    drive(receiver.recover(arrived))
                elif happening is Happening.BROKER_KILLED:
                    assert self.server is not None
                    time.sleep(self.pause)
                    self.server.kill()
                    self.server.start()

    def effects(self, place: str) -> set[Effect]:
        """Return the counts of the next deliveries, or nothing while the broker is not back."""
        with suppress(ProviderUnavailableError), self.taking(place) as (receiver, arrived):
            drive(receiver.acknowledge(arrived))
            return {effect_of(arrival.message) for arrival in arrived}
        return set()

    @contextmanager
    def taking(self, place: str) -> Generator[tuple[Receiver, list[Arrival]]]:
        with self.opened() as provider:
            receiver = drive(provider.open_receiver(place, subscription="s", name="a"))
            # One by one: of several calls, a killed server may have stored only some.
            yield receiver, [one for _ in range(self.messages) for one in drive(take(receiver, 1))]
            with suppress(ProviderUnavailableError):
                drive(receiver.close())

    @contextmanager
    def opened(self) -> Generator[Provider]:
        provider = open_provider(self.url)
        yield provider
        with suppress(ProviderUnavailableError):
            drive(provider.close())


def effect_of(message: Message) -> Effect:
    if message.delivery_count > 1:
        return Effect.COUNTED
    return Effect.FLAGGED if message.redelivered else Effect.FORGOTTEN


@contextmanager
def nats(_folder: Path) -> Generator[Laboratory]:
    with NatsServer() as server:
        url = f"nats://{server.address}?first_count=as_told&ack_wait=2"
        yield Laboratory(url=url, server=server, messages=TOGETHER, kills=KILLS)


@contextmanager
def activemq(folder: Path) -> Generator[Laboratory]:
    need_activemq()
    with ActiveMqServer(folder / "activemq") as server:
        yield Laboratory(url=f"{server.url}&first_count=as_told", server=server)


@contextmanager
def artemis(folder: Path) -> Generator[Laboratory]:
    need_artemis()
    with ArtemisServer(folder / "artemis") as server:
        yield Laboratory(url=f"{server.url}&first_count=as_told", server=server)


@contextmanager
def kafka(folder: Path) -> Generator[Laboratory]:
    with ApacheKafkaServer(folder / "kafka") as server:

        def make(topic: str) -> str:
            server.create(topic, 1)
            return topic

        yield Laboratory(url=server.url, server=server, make=make)


@contextmanager
def kafka_share(folder: Path) -> Generator[Laboratory]:
    short = {"share_session_timeout_ms": "3000", "share_record_lock_duration_ms": "3000"}
    with ApacheKafkaServer(folder / "kafka") as server:

        def make(topic: str) -> str:
            server.create(topic, 1)
            server.set_group(f"{topic}:s", share_auto_offset_reset="earliest", **short)
            return topic

        yield Laboratory(url=server.share_url, server=server, make=make)


@contextmanager
def rabbitmq(folder: Path, wire: str, kind: str) -> Generator[Laboratory]:
    options = f"first_count=as_told{f'&queue_type={kind}' if wire == 'rabbitmq' else ''}"
    with new_rabbitmq(folder) if wire == "rabbitmq" else new_rabbitmq4() as server:

        def make(queue: str) -> str:
            connection = raw(server)
            connection.channel().queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
            connection.close()
            return QUEUE + queue

        yield Laboratory(
            url=f"{wire}://{server.address}/?{options}",
            server=server,
            make=make,
            release=partial(_requeue if wire == "rabbitmq" else _release, server),
            pause=SETTLING,
        )


def _requeue(server: RabbitmqServer, place: str) -> None:
    """Give a message back unseen over AMQP 0-9-1. The protocol cannot distinguish this from a failure."""
    connection = raw(server)
    channel = connection.channel()
    method, _, _ = channel.basic_get(place.removeprefix(QUEUE))
    channel.basic_nack(method.delivery_tag, requeue=True)
    connection.close()


def _release(server: RabbitmqServer, place: str) -> None:
    """Give a message back unseen over AMQP 1.0."""
    account: Any = {"user": server.user, "password": server.password}
    connection: Any = BlockingConnection(f"amqp://127.0.0.1:{server.port}", allowed_mechs="PLAIN", **account)
    # With credit, the receiver would get the message again.
    receiver = connection.create_receiver(queue_address(place.removeprefix(QUEUE)), credit=0)
    receiver.receive()
    receiver.release(delivered=False)
    connection.close()


#: Starts a broker in a folder.
Start = Callable[[Path], AbstractContextManager[Laboratory]]

ON_RABBITMQ = pytest.mark.xdist_group("rabbitmq")
BROKERS: dict[str, tuple[TrustProfile, Start, Any]] = {
    "nats": (NATS, nats, [pytest.mark.prove, pytest.mark.xdist_group("nats")]),
    "activemq": (ACTIVEMQ, activemq, [pytest.mark.prove, ON_ACTIVEMQ]),
    "artemis": (ARTEMIS, artemis, [pytest.mark.prove, ON_ARTEMIS]),
    "kafka": (KAFKA, kafka, [APACHE_KAFKA]),
    "kafka-share": (KAFKA_SHARE, kafka_share, [APACHE_KAFKA]),
    "rabbitmq-quorum": (RABBITMQ_QUORUM, partial(rabbitmq, wire="rabbitmq", kind="quorum"), [ON_RABBITMQ]),
    "rabbitmq-classic": (RABBITMQ_CLASSIC, partial(rabbitmq, wire="rabbitmq", kind="classic"), [ON_RABBITMQ]),
    "amqp-quorum": (AMQP_QUORUM, partial(rabbitmq, wire="amqp", kind="quorum"), [ON_RABBITMQ]),
    "amqp-classic": (AMQP_CLASSIC, partial(rabbitmq, wire="amqp", kind="classic"), [ON_RABBITMQ]),
}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Laboratory]]:
    """Start each broker once."""
    with ExitStack() as running:

        @cache
        def started(broker: str) -> Laboratory:
            return running.enter_context(BROKERS[broker][1](tmp_path_factory.mktemp(broker)))

        yield started


@pytest.mark.parametrize("happening", Happening, ids=lambda happening: happening.name)
@pytest.mark.parametrize("broker", [pytest.param(name, marks=BROKERS[name][2]) for name in BROKERS])
def test_a_count_is_worth_what_its_profile_says(
    laboratory: Callable[[str], Laboratory], broker: str, happening: Happening
) -> None:
    expected = BROKERS[broker][0].effects[happening]

    said = laboratory(broker).after(happening)

    if broker == "kafka" and expected is Effect.FORGOTTEN:
        # Five times a second, the broker records next to the group's offset how many messages it handed out.
        assert said <= {Effect.FORGOTTEN, Effect.FLAGGED}
    else:
        assert expected in said
        assert len(said) == 1 or happening is Happening.BROKER_KILLED


def test_a_mock_of_a_share_group_counts_as_apache_kafka_does() -> None:
    """Other tests of share groups use this mock."""
    with KafkaServer(brokers=2) as server:
        server.deliver_at_most(1000)
        server.forget_after(4)

        def make(topic: str) -> str:
            server.create(topic, 1)
            return topic

        mock = Laboratory(url=server.share_url, make=make)
        said = {one: mock.after(one) for one in Happening if one is not Happening.BROKER_KILLED}

    assert said == {one: {KAFKA_SHARE.effects[one]} for one in said}
