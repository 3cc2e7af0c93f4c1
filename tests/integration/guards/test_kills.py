"""The real workers of each framework are killed many times. Each order has one effect."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import eventually, patience
from tests.integration.guards.fleet import HOSTS, Fleet, Host

pytestmark = [pytest.mark.xdist_group("rabbitmq"), pytest.mark.crash]

Make = Callable[..., Fleet]


@pytest.fixture
def fleet_of(tmp_path: Path, rabbitmq_server: RabbitmqServer, redis_url: str) -> Iterator[Make]:
    fleets: list[Fleet] = []

    def make(host: Host, *, guarded: bool = True) -> Fleet:
        folder = tmp_path / str(len(fleets))
        folder.mkdir()
        # Not Redis: if a worker dies while it fetches a task, the Redis transports lose that task.
        broker = f"amqp://{rabbitmq_server.address}/"
        fleets.append(Fleet(host, folder, broker, redis_url, guarded=guarded))
        return fleets[-1]

    try:
        yield make
    finally:
        for fleet in fleets:
            fleet.end()


def sent_twice(orders: int, chance: random.Random) -> list[str]:
    """Return shuffled orders, with a fifth of them twice."""
    sent = [f"order-{n}" for n in range(orders)]
    sent += chance.sample(sent, orders // 5)
    chance.shuffle(sent)
    return sent


def survive(fleet: Fleet, orders: int, kills: int) -> None:
    chance = random.Random(random.randrange(2**32))  # noqa: S311  (no secret)
    sent = sent_twice(orders, chance)
    fleet.send(sent)
    fleet.start()
    fleet.start()

    fleet.kill_while_they_work(kills, orders, chance)
    account = eventually(lambda: fleet.account(sent), patience(300.0))

    effects = fleet.effects.counts()
    assert max(effects.values()) == 1, effects.most_common(3)
    assert account.done <= set(effects), "what is known to be done has its effect"
    assert set(effects) | account.parked == set(sent), "and what has none is kept for a person"


@pytest.mark.timeout(1200)
@pytest.mark.prove
@pytest.mark.parametrize("host", HOSTS, ids=str)
def test_two_thousand_orders_and_ten_kills(fleet_of: Make, host: Host) -> None:
    survive(fleet_of(host), orders=2000, kills=10)


@pytest.mark.timeout(600)
@pytest.mark.prove
@pytest.mark.parametrize("host", HOSTS, ids=str)
def test_without_a_guard_the_same_has_two_effects(fleet_of: Make, host: Host) -> None:
    fleet = fleet_of(host, guarded=False)
    orders = [f"order-{n}" for n in range(200)]
    fleet.send(orders)
    fleet.start()
    fleet.start()

    fleet.kill_while_they_work(6, len(orders), random.Random(7))  # noqa: S311  (no secret)

    eventually(lambda: len(fleet.effects.counts()) == len(orders))
    assert max(fleet.effects.counts().values()) > 1
