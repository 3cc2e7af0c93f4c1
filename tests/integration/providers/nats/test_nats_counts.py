"""What a delivery count of JetStream is worth: each happening, on a real server."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest

from history.bridge import drive
from history.message import Message
from tests.fixtures.servers.nats_server import NatsServer
from triggers.providers.brokers.trust import NATS, Effect, Happening
from triggers.providers.contract.common import take
from triggers.providers.nats.provider import Nats
from triggers.providers.provider import Arrival

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.timeout(300), pytest.mark.xdist_group("nats")]

#: How many messages are delivered one after another: the first one of them is soon on disk.
TOGETHER = 3

#: How often the server is killed right after a delivery, at most: about each third time it forgets that.
KILLS = 30


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as started:
        yield started


def url_of(server: NatsServer) -> str:
    return f"nats://{server.address}?first_count=as_told&ack_wait=2"


def send(server: NatsServer, subject: str) -> None:
    provider = Nats.from_url(url_of(server))
    drive(provider.send(subject, [Message(body="x")] * TOGETHER))
    drive(provider.close())


def next_of(server: NatsServer, subject: str) -> set[Effect]:
    """Say what the next deliveries say."""
    provider = Nats.from_url(url_of(server))
    receiver = drive(provider.open_receiver(subject, subscription="s", name="a"))
    arrived = drive(take(receiver, TOGETHER))
    drive(receiver.acknowledge(arrived))
    drive(receiver.close())
    drive(provider.close())
    return {effect_of(arrival) for arrival in arrived}


def effect_of(arrival: Arrival) -> Effect:
    if arrival.message.delivery_count > 1:
        return Effect.COUNTED
    return Effect.FLAGGED if arrival.message.redelivered else Effect.FORGOTTEN


def test_what_is_given_back_as_failed_is_counted(server: NatsServer) -> None:
    send(server, "returned")
    provider = Nats.from_url(url_of(server))
    receiver = drive(provider.open_receiver("returned", subscription="s", name="a"))
    drive(receiver.recover(drive(take(receiver, TOGETHER))))
    drive(provider.close())

    assert next_of(server, "returned") == {NATS.effects[Happening.RETURNED]}


def test_what_is_given_back_unseen_is_counted(server: NatsServer) -> None:
    send(server, "released")
    provider = Nats.from_url(url_of(server))
    receiver = drive(provider.open_receiver("released", subscription="s", name="a"))
    drive(take(receiver, TOGETHER))
    drive(receiver.close())
    drive(provider.close())

    assert next_of(server, "released") == {NATS.effects[Happening.RELEASED]}


def test_what_a_killed_consumer_had_is_counted(server: NatsServer) -> None:
    send(server, "killed")
    words = [sys.executable, "-m", "tests.integration.providers.rabbitmq.taker", url_of(server), "killed"]
    assert subprocess.run([*words, str(TOGETHER)], check=False).returncode == -signal.SIGKILL

    assert next_of(server, "killed") == {NATS.effects[Happening.CONSUMER_KILLED]}


def test_a_killed_server_may_forget_the_last_deliveries(server: NatsServer) -> None:
    said: set[Effect] = set()
    for number in range(KILLS):
        subject = f"forgotten-{number}"
        send(server, subject)
        provider = Nats.from_url(url_of(server))
        receiver = drive(provider.open_receiver(subject, subscription="s", name="a"))
        for _ in range(TOGETHER):
            assert drive(receiver.receive(1, timedelta(seconds=10)))
        server.kill()
        server.start()
        drive(provider.close())
        said |= next_of(server, subject)
        if Effect.FORGOTTEN in said:
            break

    assert NATS.effects[Happening.BROKER_KILLED] in said
