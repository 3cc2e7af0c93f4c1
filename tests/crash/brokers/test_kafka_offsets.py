"""A consumer whose offsets are kept with its effects is killed at every step: one effect each, no entry."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, text

from history.bridge import drive
from history.message import Message
from tests.crash.conftest import empty_database
from tests.crash.helpers.aftermath import DEADLINE
from tests.crash.victims.atomic_victim import BROUGHT, POINTS, TABLE, UUIDS, name_of
from tests.fixtures.proof import Proved
from tests.fixtures.servers.kafka_server import KafkaServer
from triggers.providers.opening import open_provider

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.xdist_group("kafka")]


@pytest.fixture
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_consumer_killed_at_any_step_leaves_one_effect_and_the_offset_of_it(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, kafka: KafkaServer, proved: Proved
) -> None:
    url = f"sqlite:///{tmp_path}/shop.sqlite3"
    if store == "postgresql":
        url = empty_database(request.getfixturevalue("postgres_server"))
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
            connection.execute(text(f"SELECT COUNT(*) FROM {table}")).scalar()  # noqa: S608  (ours)
            for table in ("doubtless_history", "doubtless_parked")
        ]
    engine.dispose()
    assert effects == {(name_of(point), uuid): 1 for point in POINTS for uuid in UUIDS}
    assert rows == {(name_of(point), len(UUIDS)) for point in POINTS}
    assert kept == [0, 0]
    proved(processes_killed=len(POINTS), messages=len(POINTS) * len(UUIDS))
