"""Kill a consumer whose messages, history and effects share one database, at every step: one effect each."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from history.bridge import drive
from history.message import Message
from history.opening import open_history
from tests.crash.conftest import empty_database
from tests.crash.helpers.aftermath import DEADLINE, count_rows, impatient
from tests.crash.victims.atomic_victim import POINTS, TABLE, UUIDS, name_of
from triggers.providers.opening import open_provider

pytestmark = pytest.mark.crash

#: What must be empty when every message was handled, wherever its consumers died.
TABLES = ("dms_msg", "dms_msg_properties", "dms_queue_entry", "dms_topic_entry")


@pytest.mark.parametrize(
    ("store", "scheme"),
    [
        pytest.param("sqlite", "", id="sqlite"),
        pytest.param("postgresql", "queue://", id="postgresql", marks=pytest.mark.prove),
    ],
)
def test_a_killed_consumer_leaves_one_effect_and_no_row(
    store: str, scheme: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/shop.sqlite3"
    if store == "postgresql":
        url = empty_database(request.getfixturevalue("postgres_server"))
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(TABLE))
    provider = open_provider(url)
    for point in POINTS:
        messages = [Message(uuid=uuid, body="x", properties={"a": 1}) for uuid in UUIDS]
        drive(provider.send(scheme + name_of(point), messages))
    drive(provider.close())

    for task in ("kill", "finish"):
        words = [sys.executable, "-m", "tests.crash.victims.atomic_victim", impatient(url), url, task, scheme]
        subprocess.run(words, check=True, timeout=DEADLINE)

    with engine.connect() as connection:
        effects = Counter(tuple(row) for row in connection.execute(text("SELECT death, uuid FROM effects")))
    engine.dispose()
    left = open_history(url)
    parked, started = (
        drive(left.parking.list()),
        [drive(left.stats(name_of(point))).started for point in POINTS],
    )
    drive(left.close())
    assert effects == {(name_of(point), uuid): 1 for point in POINTS for uuid in UUIDS}
    assert [one.reason for one in parked] == []
    assert started == [0] * len(POINTS)
    assert {table: count_rows(url, f"SELECT COUNT(*) FROM {table}") for table in TABLES} == dict.fromkeys(  # noqa: S608
        TABLES, 0
    )
