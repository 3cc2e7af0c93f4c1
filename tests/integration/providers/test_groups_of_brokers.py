"""Some brokers keep the order of a group themselves, for consumers that fetch one message at a time."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from history.bridge import drive
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.sqs_server import SqsServer
from tests.fixtures.waiting import PATIENCE
from triggers import Message, open_provider
from triggers.providers import Provider, Receiver
from triggers.providers.contract.common import A_WHILE, arrivals, take
from triggers.providers.nats.connection import driver

SENT = ["0", "1", "2"]

#: Makes a queue with one ordered group, and returns the provider's URL and the queue's name.
Make = Callable[[pytest.FixtureRequest], tuple[str, str]]


@pytest.fixture(scope="module")
def nats_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


def in_sqs(request: pytest.FixtureRequest) -> tuple[str, str]:
    server: SqsServer = request.getfixturevalue("sqs_server")
    return server.url, f"orders-{uuid4().hex[:8]}.fifo"


def in_activemq(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.getfixturevalue("activemq").url, f"orders-{uuid4().hex[:8]}"


def in_nats(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Make a durable consumer by hand. It has at most one message in delivery."""
    server: NatsServer = request.getfixturevalue("nats_server")
    subject = f"orders-{uuid4().hex[:8]}"

    async def make() -> None:
        client: Any = await driver.connect(f"nats://{server.address}")
        streams = client.jetstream()
        await streams.add_stream(name=subject, subjects=[subject])
        await streams.add_consumer(
            subject,
            ConsumerConfig(
                durable_name="one-by-one",
                ack_policy=AckPolicy.EXPLICIT,
                filter_subject=subject,
                max_deliver=-1,
                max_ack_pending=1,
            ),
        )
        await client.close()

    asyncio.run(make())
    return f"{server.url}&durable=one-by-one", subject


every_broker = pytest.mark.parametrize(
    "make",
    [
        pytest.param(in_sqs, id="sqs", marks=pytest.mark.xdist_group("sqs")),
        pytest.param(in_activemq, id="activemq", marks=ACTIVEMQ),
        pytest.param(in_nats, id="nats", marks=pytest.mark.xdist_group("nats")),
    ],
)


@pytest.fixture
def providers(request: pytest.FixtureRequest, make: Make) -> Iterator[tuple[Sequence[Provider], str]]:
    """Two providers of one queue with the messages of a group."""
    url, queue = make(request)
    opened = [open_provider(url) for _ in range(2)]
    yield opened, queue
    for provider in opened:
        drive(provider.close())


def begin(providers: Sequence[Provider], queue: str) -> Sequence[Receiver]:
    """Open a receiver of each provider, and send the messages of a group."""
    receivers = [drive(one.open_receiver(queue, subscription="s", name="a")) for one in providers]
    drive(providers[0].send(queue, [Message(body=body, group_id="ann") for body in SENT]))
    return receivers


def work_off(receivers: Sequence[Receiver]) -> Sequence[object]:
    """Receive and acknowledge the messages one at a time. Return the bodies in the order of arrival."""
    bodies: list[object] = []
    deadline = monotonic() + PATIENCE
    while len(bodies) < len(SENT) and monotonic() < deadline:
        for receiver in receivers:
            came = arrivals(drive(receiver.receive(1, A_WHILE)))
            bodies += [one.message.body for one in came]
            drive(receiver.acknowledge(came))
    return bodies


@every_broker
def test_what_comes_after_a_message_waits_until_that_was_given_back_and_has_come_again(
    providers: tuple[Sequence[Provider], str],
) -> None:
    one, other = begin(*providers)
    first = drive(take(one, 1))
    assert list(drive(other.receive(1, A_WHILE))) == []

    drive(one.recover(first, timedelta(seconds=1)))

    assert work_off([other, one]) == SENT
    drive(one.close())
    drive(other.close())


@every_broker
def test_another_consumer_begins_with_what_one_that_has_left_did_not_answer(
    providers: tuple[Sequence[Provider], str],
) -> None:
    one, other = begin(*providers)
    drive(take(one, 1))

    drive(one.close())

    assert work_off([other]) == SENT
    drive(other.close())
