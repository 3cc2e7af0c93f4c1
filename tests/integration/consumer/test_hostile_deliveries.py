"""Hundreds of hostile deliveries, with good ones in between: each is run or parked, and no consumer ends."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from history import Message, ParkedKind
from history.bridge import drive
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from tests.hostile import over_amqp, over_jms, over_rabbitmq, over_redis
from tests.integration.helpers.consumers import Lane, parked_in
from tests.integration.helpers.jms_queues import depth as depth_in_activemq
from tests.integration.helpers.rabbitmq_queues import depth as depth_in_rabbitmq
from tests.integration.helpers.rabbitmq_queues import subscribe
from triggers import open_provider
from triggers.providers.rabbitmq.settings import queue_of

#: How many hostile deliveries come between two good messages, and the seed.
BETWEEN, SEED = 15, 20

#: The servers, by their fixtures.
RABBITMQ = pytest.mark.xdist_group("rabbitmq")
KINDS = [
    pytest.param("rabbitmq", marks=RABBITMQ),
    pytest.param("amqp", marks=RABBITMQ),
    pytest.param("jms", marks=ACTIVEMQ),
    "redis_streams",
]


@dataclass(frozen=True, slots=True)
class Front:
    """A destination for hostile deliveries that no other test uses, on one kind of server.

    ``send`` does not use the provider. ``waiting`` counts the messages that are not acknowledged.
    A ``choosy`` server may refuse some messages.
    """

    url: str
    name: str
    hostile: Sequence[Any]
    send: Callable[[Sequence[Any]], None]
    waiting: Callable[[], int]
    choosy: bool = False


@pytest.fixture
def hostile(request: pytest.FixtureRequest) -> int:
    return int(getattr(request, "param", BETWEEN))


@pytest.fixture
def name() -> str:
    return f"hostile-{uuid4().hex[:8]}"


@pytest.fixture
def rabbitmq(rabbitmq_server: RabbitmqServer, rabbitmq_url: str, name: str, hostile: int) -> Front:
    subscribe(rabbitmq_url, name)
    return Front(
        rabbitmq_url,
        name,
        over_rabbitmq.deliveries(hostile, SEED),
        partial(over_rabbitmq.send, rabbitmq_server, queue_of(name, name)),
        partial(depth_in_rabbitmq, rabbitmq_server, name),
        choosy=True,
    )


@pytest.fixture
def amqp(rabbitmq4_server: RabbitmqServer, amqp_url: str, name: str, hostile: int) -> Front:
    subscribe(amqp_url, name)
    return Front(
        amqp_url,
        name,
        over_amqp.deliveries(hostile, SEED),
        partial(over_amqp.send, rabbitmq4_server, queue_of(name, name)),
        partial(depth_in_rabbitmq, rabbitmq4_server, name),
        choosy=True,
    )


@pytest.fixture
def jms(activemq: ActiveMqServer, name: str, hostile: int) -> Front:
    return Front(
        activemq.url,
        name,
        over_jms.deliveries(hostile, SEED),
        partial(over_jms.send, activemq.url, name),
        partial(depth_in_activemq, activemq.url, name),
    )


@pytest.fixture
def redis_streams(redis_url: str, name: str, hostile: int) -> Iterator[Front]:
    with connected(redis_url) as client:

        def waiting() -> int:
            if not (groups := client.xinfo_groups(name)):
                return int(client.xlen(name))
            return int(groups[0]["pending"] + (groups[0]["lag"] or 0))

        deliveries = over_redis.deliveries(hostile, SEED)
        send = partial(over_redis.send, client, name)
        yield Front(redis_url, name, deliveries, send, waiting)


def send_all(front: Front) -> tuple[int, Sequence[str]]:
    """Send everything. Return how many messages the server took, and the uuids of the good messages."""
    provider, good = open_provider(front.url), list[str]()
    for first in range(0, len(front.hostile), BETWEEN):
        front.send(front.hostile[first : first + BETWEEN])
        good.append(f"good {first}")
        drive(provider.send(front.name, [Message(uuid=good[-1], body={"id": first})]))
    drive(provider.close())
    return front.waiting() if front.choosy else len(front.hostile) + len(good), good


@pytest.mark.timeout(600)
@pytest.mark.parametrize("hostile", [30, pytest.param(500, marks=pytest.mark.prove)], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_of_hundreds_of_hostile_deliveries_each_is_run_or_parked_and_the_good_ones_run_once(
    kind: str, hostile: int, request: pytest.FixtureRequest, lane: Lane
) -> None:
    front: Front = request.getfixturevalue(kind)
    total, good = send_all(front)
    assert total > len(front.hostile) / 2, "the server took next to nothing"
    assert len(front.hostile) == hostile
    ran: Counter[str | None] = Counter()
    lot = f"sqlite:///{lane.folder}/history.sqlite3"
    trigger = lane.trigger(front.name, lambda message: ran.update([message.uuid]), max_delivery_count=5)

    with lane.run([trigger], front.url, history=lot) as running:
        eventually(lambda: front.waiting() == 0 or not running.alive)
        eventually(lambda: sum(running.counts[front.name].values()) >= total or not running.alive)

    counts = running.counts[front.name]
    parked = Counter(one.kind for one in parked_in(lot, front.name))
    assert {uuid: ran[uuid] for uuid in good} == dict.fromkeys(good, 1)
    assert max(ran.values()) == 1
    assert sum(counts.values()) == total
    assert counts["ok"] == sum(ran.values())
    assert counts["unreadable"] == parked[ParkedKind.UNREADABLE] > 0
    assert counts.get("rejected", 0) == parked[ParkedKind.REJECTED]
