"""Consumers whose offsets are kept with their effects are killed: one effect each, and no entry."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, text

from history.bridge import drive
from history.message import Message
from tests.crash.conftest import empty_database
from tests.crash.helpers.aftermath import DEADLINE
from tests.crash.helpers.books import KILLS
from tests.crash.victims.atomic_victim import BROUGHT, POINTS, TABLE, UUIDS, name_of
from tests.crash.victims.offsets_victim import ORDERS
from tests.fixtures.proof import Proved
from tests.fixtures.scale import sized
from tests.fixtures.servers.apache_kafka import KINDS, private_kafka
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.waiting import eventually
from tests.integration.providers.kafka.shop import Shop, opened
from triggers.providers.opening import open_provider

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.xdist_group("kafka")]


MESSAGES = sized(1000, full=20_000)


@pytest.fixture(params=KINDS)
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyKafka]:
    with private_kafka(request.param, tmp_path) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "postgresql":
        return empty_database(request.getfixturevalue("postgres_server"))
    return f"sqlite:///{tmp_path}/shop.sqlite3"


def test_a_consumer_killed_at_any_step_leaves_one_effect_and_the_offset_of_it(
    url: str, kafka: AnyKafka, proved: Proved
) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(TABLE))
    provider = open_provider(kafka.url)
    for point in POINTS:
        kafka.create(name_of(point), 1)
        drive(provider.send(name_of(point), [Message(uuid=uuid, body="x") for uuid in UUIDS]))
    drive(provider.close())

    for task in ("kill", "finish"):
        own = f"{kafka.url}&offsets={quote(url, safe='')}"
        words = [sys.executable, "-m", "tests.crash.victims.atomic_victim", own, BROUGHT, task]
        subprocess.run(words, check=True, timeout=DEADLINE)

    with engine.connect() as connection:
        effects = Counter(tuple(row) for row in connection.execute(text("SELECT death, uuid FROM effects")))
        rows = {
            (row.topic, row.next_offset)
            for row in connection.execute(text("SELECT * FROM doubtless_offsets"))
        }
        kept = [
            connection.execute(text(f"SELECT COUNT(*) FROM {table} WHERE trigger_name > ''")).scalar()  # noqa: S608  (ours)
            for table in ("doubtless_history", "doubtless_parked")
        ]
    engine.dispose()
    assert effects == {(name_of(point), uuid): 1 for point in POINTS for uuid in UUIDS}
    assert rows == {(name_of(point), len(UUIDS)) for point in POINTS}
    assert kept == [0, 0]
    proved(processes_killed=len(POINTS), messages=len(POINTS) * len(UUIDS))


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


def start(shop: Shop, running: ExitStack) -> subprocess.Popen[bytes]:
    """Start a process that books; it is killed at the end."""
    words = [sys.executable, "-m", "tests.crash.victims.offsets_victim", shop.provider]
    process = running.enter_context(subprocess.Popen(words, stderr=subprocess.DEVNULL))
    running.callback(process.kill)
    return process
