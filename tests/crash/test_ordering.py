"""Four processes have an ordered trigger; the active one is killed or frozen: groups keep their order."""

import random
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any, cast

import pytest

from tests.crash.helpers.ordering_fleet import OrderingFleet
from tests.crash.helpers.ordering_left import GROUPS, LENGTH, Left, look, send
from tests.crash.victims.ordering_service import CONCURRENCY, DESTINATION, effects_of
from tests.fixtures.scale import sized
from tests.fixtures.servers.redis import connected

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.timeout(400)]

PROCESSES = 4

#: The provider does not notice that a process is gone: the lease shows it.
SLOW = "?claim_idle=60&reclaim_interval=0.2"


def is_done(client: Any) -> bool:
    """Whether the stream is read and acknowledged."""
    groups = client.xinfo_groups(DESTINATION)
    last = client.xinfo_stream(DESTINATION)["last-generated-id"]
    return bool(groups) and not groups[0]["pending"] and groups[0]["last-delivered-id"] == last


def run(
    folder: Path, url: str, history: str, hits: int, hit: Callable[[OrderingFleet, Popen[bytes]], None]
) -> Left:
    """Send messages, hit the active process so many times, and return the result."""
    # from the seed that pytest prints
    chance = random.Random(random.randrange(2**32))  # noqa: S311  (no secret)
    send(url, chance)
    due = sorted(chance.sample(range(1, GROUPS * LENGTH * 9 // 10), hits))
    client = connected(url)
    fleet = OrderingFleet(
        folder=folder,
        effects=effects_of(folder),
        provider=url + SLOW,
        history=history,
        processes=PROCESSES,
        is_done=lambda: is_done(client),
    )
    with client, fleet:
        fleet.hit_until_done(due, hit)
        fleet.drain()
    assert fleet.hits == hits
    return look(folder, history)


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_groups_keep_their_order_whenever_the_active_process_is_killed(
    store: str, tmp_path: Path, redis_url: str, request: pytest.FixtureRequest
) -> None:
    history = redis_url if store == "redis" else cast("str", request.getfixturevalue("postgres_url"))
    kills = sized(4, full=10)

    left = run(tmp_path, redis_url, history, kills, OrderingFleet.kill)

    left.check(most_in_doubt=kills * CONCURRENCY)
    assert len(left.begun) == GROUPS


def test_groups_keep_their_order_when_the_active_process_is_frozen_and_comes_back(
    tmp_path: Path, redis_url: str
) -> None:
    freezes = sized(2, full=4)

    left = run(tmp_path, redis_url, redis_url, freezes, OrderingFleet.freeze)

    # Runs that were active at the freeze end after the process has come back.
    left.check(most_in_doubt=freezes * CONCURRENCY, but_for_the_doubtful=True)
