"""Kill a consumer of an atomic trigger at every step: one effect for each message, and nothing In Doubt."""

from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import empty_database
from tests.crash.helpers.aftermath import FAST, count_rows, impatient
from tests.crash.helpers.atomic_deaths import atomic_deaths
from tests.crash.victims.atomic_victim import POINTS, name_of
from tests.integration.helpers.consumers import is_drained

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.prove)])
def test_a_killed_atomic_trigger_has_one_effect_and_no_doubt(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, redis_url: str
) -> None:
    history = f"sqlite:///{tmp_path}/shop.sqlite3"
    if store == "postgresql":
        history = empty_database(request.getfixturevalue("postgres_server"))
    with atomic_deaths(history) as deaths:
        deaths.send(redis_url)
        deaths.run(
            redis_url + FAST, history, lambda: all(is_drained(redis_url, name_of(point)) for point in POINTS)
        )

        deaths.check()
        deaths.check_history()


#: The tables that must be empty after every message was handled, wherever the consumers died.
TABLES = ("dms_msg", "dms_msg_properties", "dms_queue_entry", "dms_topic_entry")


def rows_left(url: str) -> Counter[str]:
    return Counter({table: count_rows(url, f"SELECT COUNT(*) FROM {table}") for table in TABLES})  # noqa: S608


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
    with atomic_deaths(url, scheme) as deaths:
        deaths.send(url)
        deaths.run(impatient(url), url, lambda: rows_left(url).total() == 0)

        deaths.check()
        deaths.check_history()
    assert rows_left(url).total() == 0
