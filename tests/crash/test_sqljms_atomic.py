"""Kill a consumer whose messages, history and effects share one database, at every step: one effect each."""

from collections import Counter
from pathlib import Path

import pytest

from tests.crash.conftest import empty_database
from tests.crash.helpers.aftermath import count_rows, impatient
from tests.crash.helpers.atomic_deaths import atomic_deaths

pytestmark = pytest.mark.crash

#: What must be empty when every message was handled, wherever its consumers died.
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
