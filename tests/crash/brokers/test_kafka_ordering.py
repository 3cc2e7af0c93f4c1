"""Some processes with ordered triggers on Kafka are killed or frozen: each key keeps its order."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests.crash.helpers.ordering_fleet import OrderingFleet
from tests.crash.helpers.ordering_left import GROUPS, LENGTH, Left, look, send
from tests.crash.victims.ordering_service import CONCURRENCY, DESTINATION, NAME, effects_of
from tests.fixtures.proof import Proved
from tests.fixtures.scale import sized
from tests.fixtures.servers.apache_kafka import KINDS, private_kafka
from tests.fixtures.servers.apache_kafka_server import AnyKafka

pytestmark = [
    pytest.mark.crash,
    pytest.mark.prove,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("kafka"),
]

PARTITIONS, PROCESSES = 4, 2


@pytest.fixture(params=KINDS)
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyKafka]:
    with private_kafka(request.param, tmp_path) as server:
        server.create(DESTINATION, PARTITIONS)
        yield server


def run(
    folder: Path, kafka: AnyKafka, history: str, hits: int, hit: Callable[[OrderingFleet, Popen[bytes]], None]
) -> Left:
    """Send messages, hit the longest-running process so many times, and return the result."""
    # from the seed that pytest prints
    chance = random.Random(random.randrange(2**32))  # noqa: S311  (no secret)
    send(kafka.url, chance)
    due = sorted(chance.sample(range(1, GROUPS * LENGTH * 9 // 10), hits))
    fleet = OrderingFleet(
        folder=folder,
        effects=effects_of(folder),
        provider=kafka.url,
        history=history,
        processes=PROCESSES,
        is_done=lambda: kafka.depth(DESTINATION, f"{DESTINATION}:{NAME}") == 0,
    )
    with fleet:
        for effects in fleet.watch(lambda: not due and fleet.is_done()):
            if due and due[0] <= effects:
                del due[0]
                hit(fleet, fleet.running[0])
        fleet.drain()
    return look(folder, history)


def test_keys_keep_their_order_whenever_a_process_is_killed(
    tmp_path: Path, kafka: AnyKafka, redis_url: str, proved: Proved
) -> None:
    kills = sized(3, full=10)

    left = run(tmp_path, kafka, redis_url, kills, OrderingFleet.kill)

    left.check(most_in_doubt=kills * CONCURRENCY)
    assert len(left.begun) == GROUPS
    proved(messages=GROUPS * LENGTH, processes_killed=kills)


def test_keys_keep_their_order_when_a_process_is_frozen_until_others_have_its_partitions(
    tmp_path: Path, kafka: AnyKafka, redis_url: str
) -> None:
    freezes = sized(1, full=3)

    left = run(tmp_path, kafka, redis_url, freezes, OrderingFleet.freeze_until_all_is_done)

    # Runs that were active at the freeze end after the process has come back.
    left.check(most_in_doubt=freezes * CONCURRENCY, but_for_the_doubtful=True)
