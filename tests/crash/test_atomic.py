"""Kill a consumer of an atomic trigger at every step: one effect for each message, and nothing In Doubt."""

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
from tests.crash.helpers.aftermath import DEADLINE, FAST
from tests.crash.victims.atomic_victim import POINTS, TABLE, UUIDS, name_of
from triggers.providers.opening import open_provider

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)])
def test_a_killed_atomic_trigger_has_one_effect_and_no_doubt(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, redis_url: str
) -> None:
    history = f"sqlite:///{tmp_path}/shop.sqlite3"
    if store == "postgresql":
        history = empty_database(request.getfixturevalue("postgres_server"))
    engine = create_engine(history.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(TABLE))
    provider = open_provider(redis_url)
    for point in POINTS:
        drive(provider.send(name_of(point), [Message(uuid=uuid, body="x") for uuid in UUIDS]))
    drive(provider.close())

    for task in ("kill", "finish"):
        words = [sys.executable, "-m", "tests.crash.victims.atomic_victim", redis_url + FAST, history, task]
        subprocess.run(words, check=True, timeout=DEADLINE)

    with engine.connect() as connection:
        effects = Counter(tuple(row) for row in connection.execute(text("SELECT death, uuid FROM effects")))
    engine.dispose()
    left = open_history(history)
    parked, started = (
        drive(left.parking.list()),
        [drive(left.stats(name_of(point))).started for point in POINTS],
    )
    drive(left.close())
    assert effects == {(name_of(point), uuid): 1 for point in POINTS for uuid in UUIDS}
    assert [one.reason for one in parked] == []
    assert started == [0] * len(POINTS)
