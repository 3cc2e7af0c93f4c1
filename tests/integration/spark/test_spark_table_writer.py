"""Writes rows into a table, without a Spark session: the row that wins for a key, and refused settings."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine, create_engine, text

from triggers import ConfigurationError
from triggers.spark.atomic_sink.sink import RowsWriter, into_table


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/shop.sqlite3"
    if request.param == "postgres":
        postgres = cast("str", request.getfixturevalue("postgres_url"))
        url = postgres.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE latest (id TEXT, customer TEXT UNIQUE, at TIMESTAMPTZ UNIQUE)"))
    yield engine
    engine.dispose()


def _write(engine: Engine, writer: RowsWriter, *rows: tuple[Any, ...]) -> None:
    with engine.begin() as connection:
        writer(connection, [dict(zip(("id", "customer", "at"), row, strict=True)) for row in rows])


def _ids(engine: Engine) -> Sequence[str]:
    with engine.connect() as connection:
        return sorted(connection.execute(text("SELECT id FROM latest")).scalars())


def test_rows_without_a_whole_key_all_stay(engine: Engine) -> None:
    writer = into_table("latest", replacing=["customer"], newest="at")
    at = datetime(2026, 1, 1, tzinfo=UTC)

    _write(engine, writer, ("1", None, None), ("2", None, None), ("3", "Sato", None), ("4", "Sato", at))
    _write(engine, writer, ("5", None, None))

    assert _ids(engine) == ["1", "2", "4", "5"]


BERLIN = ZoneInfo("Europe/Berlin")


def test_two_instants_with_one_time_of_the_clock_are_two_keys(engine: Engine) -> None:
    writer = into_table("latest", replacing=["at"])
    first, second = (datetime(2026, 10, 25, hour, 30, tzinfo=UTC).astimezone(BERLIN) for hour in (0, 1))
    assert first == second

    _write(engine, writer, ("1", "Sato", first), ("2", "Kaya", second))

    assert _ids(engine) == ["1", "2"]


@pytest.mark.parametrize("together", [True, False])
def test_the_newest_row_stays_while_the_clocks_go_back(engine: Engine, *, together: bool) -> None:
    writer = into_table("latest", replacing=["customer"], newest="at")
    before, after = (datetime(2026, 10, 25, hour, minute, tzinfo=UTC) for hour, minute in ((0, 30), (1, 10)))
    assert before.astimezone(BERLIN).time() > after.astimezone(BERLIN).time()
    rows = [("1", "Sato", before.astimezone(BERLIN)), ("2", "Sato", after.astimezone(BERLIN))]

    for written in [rows] if together else [[row] for row in rows]:
        _write(engine, writer, *written)

    assert _ids(engine) == ["2"]


@pytest.mark.parametrize(
    ("table", "options", "setting"),
    [
        (5, {}, "table"),
        ("", {}, "table"),
        ("shop.", {}, "table"),
        ("bookings", {"columns": 5}, "columns"),
        ("bookings", {"columns": []}, "columns"),
        ("bookings", {"columns": ["uuid", 1]}, "columns"),
        ("bookings", {"columns": ["uuid", "uuid"]}, "columns"),
        ("bookings", {"replacing": None}, "replacing"),
        ("bookings", {"replacing": [""]}, "replacing"),
        ("bookings", {"replacing": ["uuid"], "newest": 5}, "newest"),
        ("bookings", {"replacing": ["uuid"], "newest": "uuid"}, "newest"),
        ("bookings", {"newest": "at"}, "newest"),
    ],
)
def test_what_could_not_be_written_is_refused(table: Any, options: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        into_table(table, **options)

    assert refused.value.setting == setting


def test_a_map_with_nested_keys_is_json(engine: Engine) -> None:
    _write(engine, into_table("latest", columns=["id"]), ([({"day": 1}, 2)], None, None))

    assert _ids(engine) == ['[[{"day": 1}, 2]]']


def test_times_and_intervals_are_written(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE shifts (id TEXT, customer TIME, at INTERVAL)"))
    rows = [("1", time(9, 5, 0, 7), timedelta(hours=8)), ("2", time(9, 5), timedelta(days=1))]

    _write(engine, into_table("shifts"), *rows)

    longest = text("SELECT id, customer FROM shifts ORDER BY at DESC, customer")
    with engine.connect() as connection:
        written = [(number, str(clock)) for number, clock in connection.execute(longest)]
    assert written == [("2", "09:05:00"), ("1", "09:05:00.000007")]


def test_columns_may_come_from_an_iterator() -> None:
    names = ["uuid", "at"]

    writer = into_table("bookings", columns=cast("Any", iter(names)), replacing=["uuid"], newest="at")

    writer.check(names)
    assert writer.columns == ("uuid", "at")
