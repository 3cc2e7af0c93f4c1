"""Consumers that store offsets with their effects are killed: each message has one effect and no entry."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Engine, text

from tests.crash.conftest import empty_database
from tests.crash.helpers.aftermath import count_rows
from tests.crash.helpers.atomic_deaths import atomic_deaths
from tests.crash.helpers.books import KILLS
from tests.crash.victims.atomic_victim import BROUGHT, POINTS, UUIDS, name_of
from tests.crash.victims.offsets_victim import ORDERS
from tests.fixtures.proof import Proved
from tests.fixtures.scale import sized
from tests.fixtures.servers.apache_kafka import KINDS, private_kafka
from tests.fixtures.servers.apache_kafka_cluster import ApacheKafkaCluster
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.waiting import eventually
from tests.integration.providers.kafka.shop import Shop, opened

pytestmark = [
    pytest.mark.crash,
    pytest.mark.prove,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("kafka"),
]

MESSAGES = sized(1000, full=20_000)

#: Where each topic of the crash matrix is read to its end.
ALL_OFFSETS = {(name_of(point), len(UUIDS)) for point in POINTS}


@pytest.fixture(params=KINDS)
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyKafka]:
    with private_kafka(request.param, tmp_path) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return empty_database(request.getfixturevalue("postgres_server"))
    return f"sqlite:///{tmp_path}/shop.sqlite3"


def test_a_consumer_killed_at_any_step_leaves_one_effect_and_the_offset_of_it(
    url: str, kafka: AnyKafka, proved: Proved
) -> None:
    for point in POINTS:
        kafka.create(name_of(point), 1)
    with atomic_deaths(url) as deaths:
        deaths.send(kafka.url)
        own = f"{kafka.url}&offsets={quote(url, safe='')}"
        deaths.run(own, BROUGHT, lambda: offsets_in(deaths.engine) == ALL_OFFSETS)

        deaths.check()
        assert offsets_in(deaths.engine) == ALL_OFFSETS
        assert count_rows(url, "SELECT COUNT(*) FROM doubtless_history WHERE trigger_name > ''") == 0
        assert count_rows(url, "SELECT COUNT(*) FROM doubtless_records WHERE kind = 'parked'") == 0
    proved(processes_killed=len(POINTS), messages=len(POINTS) * len(UUIDS))


def offsets_in(engine: Engine) -> set[tuple[str, int]]:
    """Return each topic with a stored offset, and its next offset."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT topic, next_offset FROM doubtless_offsets")).all()
    return {(str(topic), int(offset)) for topic, offset in rows}


def test_each_order_is_booked_once_however_often_its_consumers_are_killed(
    url: str, kafka: AnyKafka, proved: Proved
) -> None:
    with opened(kafka, ORDERS, url, partitions=4) as shop, ExitStack() as running:
        shop.place(range(MESSAGES))
        processes = [start(shop, running) for _ in range(2)]
        for kill in range(KILLS):
            due = MESSAGES * (kill + 1) // (KILLS + 2)
            eventually(lambda: len(shop.booked) >= due)  # noqa: B023  (asked before it changes)
            processes[0].kill()
            processes = [*processes[1:], start(shop, running)]
        eventually(lambda: shop.left == 0)

        assert shop.booked == list(range(MESSAGES))
        assert shop.entries == 0
    proved(processes_killed=KILLS, messages=MESSAGES)


def test_each_order_is_booked_once_while_consumers_and_three_brokers_are_killed(
    url: str, tmp_path: Path, proved: Proved
) -> None:
    """The leader is killed, and every second time all three brokers."""
    with (
        ApacheKafkaCluster(tmp_path / "cluster") as cluster,
        opened(cluster, ORDERS, url, partitions=4) as shop,
        ExitStack() as running,
    ):
        shop.place(range(MESSAGES))
        processes = [start(shop, running) for _ in range(2)]
        for kill in range(KILLS):
            due = MESSAGES * (kill + 1) // (KILLS + 2)
            eventually(lambda: len(shop.booked) >= due)  # noqa: B023  (asked before it changes)
            if kill % 2:
                processes[0].kill()
                processes = [*processes[1:], start(shop, running)]
            cluster.go_away()
            cluster.come_back()
        eventually(lambda: shop.left == 0)

        assert shop.booked == list(range(MESSAGES))
        assert shop.entries == 0
    proved(processes_killed=KILLS // 2, brokers_killed=KILLS, messages=MESSAGES)


def start(shop: Shop, running: ExitStack) -> subprocess.Popen[bytes]:
    """Start a process that books; it is killed at the end."""
    words = [sys.executable, "-m", "tests.crash.victims.offsets_victim", shop.provider]
    process = running.enter_context(subprocess.Popen(words, stderr=subprocess.DEVNULL))
    running.callback(process.kill)
    return process
