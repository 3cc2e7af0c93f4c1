"""The atomic sink: rows and history entries in one SQL transaction, so that each row is there once."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Connection, Engine, create_engine, text

from history import ConfigurationError, EntryOutcome, ParkedKind, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from resolvers import Resolution
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.orders import frame
from triggers import RetrievalFailureEvent, on_retrieval_failure
from triggers.spark import foreach_batch
from triggers.spark.atomic_sink.sink import AtomicSink, RowsWriter, atomic_sink, into_table

pytestmark = SPARK

DESTINATION = "orders"


@dataclass(frozen=True)
class Shop:
    """A database with a table of bookings without constraints, and the history of ``book``."""

    url: str
    engine: Engine
    store: KeepsBeside

    def booked(self) -> Counter[str]:
        with self.engine.connect() as connection:
            return Counter(connection.execute(text("SELECT uuid FROM bookings")).scalars())

    def all(self, sql: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(sql))]

    def outcomes(self, *uuids: str) -> list[EntryOutcome | None]:
        entries = drive(self.store.lookup("book", uuids))
        return [None if entry is None else entry.outcome for entry in entries]


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.sqlite3"
        engine = create_engine(url)
    else:
        url = cast("str", request.getfixturevalue("postgres_url"))
        engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (uuid TEXT, amount NUMERIC, told TEXT)"))
        connection.execute(text("CREATE TABLE latest (customer TEXT PRIMARY KEY, amount NUMERIC, at BIGINT)"))
    store = open_history(url)
    yield Shop(url, engine, store)
    drive(store.close())
    engine.dispose()


postgres_only = pytest.mark.parametrize("shop", ["postgres"], indirect=True)


def made(shop: Shop, write: RowsWriter | None = None, **settings: Any) -> AtomicSink:
    options: dict[str, Any] = {"uuid": "uuid", "name": "book", "query": "q", "rows_per_transaction": 4}
    writer = write or into_table("bookings", columns=["uuid", "amount"])
    return atomic_sink(DESTINATION, history=shop.url, write=writer, **(options | settings))


def rows(spark: SparkSession, uuids: Sequence[str | None], **columns: str) -> DataFrame:
    told = [f"{value} AS {name}" for name, value in {"amount": "1.5BD", **columns}.items()]
    return frame(spark, [(uuid,) for uuid in uuids], "uuid string").selectExpr("uuid", *told)


def test_each_row_is_written_once_within_and_across_batches(spark: SparkSession, shop: Shop) -> None:
    sink = made(shop)
    names = [f"u-{number}" for number in range(20)]

    sink(rows(spark, [*names[:15], *names[:5], *names[:3]]), 0)
    sink(rows(spark, names), 1)
    sink(rows(spark, names), 1)

    assert shop.booked() == dict.fromkeys(names, 1)
    counted = [(one.batch_id, one.rows, one.new, one.duplicate, one.attempt) for one in sink.reports]
    assert counted == [(0, 23, 15, 8, 1), (1, 20, 5, 15, 1), (1, 20, 5, 15, 2)]
    assert +sink.counts.by_query()["q"] == {"new": 20, "again": 5, "duplicate": 38}
    assert shop.outcomes(*names) == [EntryOutcome.OK] * 20
    assert drive(shop.store.stats("book")).started == 0


@dataclass(frozen=True)
class Dying:
    """A writer that fails or dies once at each point. A file records that it has happened."""

    folder: Path
    point: str
    death: Callable[[], None]

    def __call__(self, connection: Connection, rows: Sequence[Any]) -> None:
        doomed = any(row["uuid"] == "u-7" for row in rows)
        if doomed and self.point == "before":
            self.die()
        into_table("bookings", columns=["uuid", "amount"])(connection, rows)
        if doomed and self.point == "after":
            self.die()

    def die(self) -> None:
        told = self.folder / self.point
        if not told.exists():
            told.touch()
            self.death()


def kill_the_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise OSError("the disk is full")


@postgres_only
@pytest.mark.parametrize(
    ("death", "point"),
    [
        pytest.param(kill_the_worker, "after", id="killed-after"),
        pytest.param(fail, "before", id="failed-before"),
        pytest.param(kill_the_worker, "before", id="killed-before", marks=pytest.mark.prove),
        pytest.param(fail, "after", id="failed-after", marks=pytest.mark.prove),
    ],
)
def test_what_a_dead_task_left_is_all_or_nothing(
    spark: SparkSession, shop: Shop, tmp_path: Path, point: str, death: Callable[[], None]
) -> None:
    names = [f"u-{number}" for number in range(20)]
    sink = made(shop, Dying(tmp_path, point, death))

    with pytest.raises(Exception, match=r"worker exited unexpectedly|the disk is full"):
        sink(rows(spark, names), 0)
    left = shop.booked()
    sink(rows(spark, names), 0)

    assert shop.booked() == dict.fromkeys(names, 1)
    assert all(outcome is EntryOutcome.OK for outcome in shop.outcomes(*names))
    assert len(left) < 20
    assert set(left.values()) <= {1}
    assert (sink.reports[-1].new, sink.reports[-1].duplicate, sink.reports[-1].attempt) == (20, 0, 2)
    assert +sink.counts.by_query()["q"] == {"new": 20}


def test_rows_that_cannot_be_written_are_parked_and_the_others_are_written(
    spark: SparkSession, shop: Shop
) -> None:
    def refuse(connection: Connection, rows: Sequence[Any]) -> None:
        into_table("bookings", columns=["uuid", "amount"])(connection, rows)
        if bad := [row["uuid"] for row in rows if row["uuid"] in {"u-3", "u-11"}]:
            raise ValueError(f"no such order: {bad[0]}")

    names = [f"u-{number}" for number in range(20)]
    heard: list[RetrievalFailureEvent] = []
    sink = made(shop, refuse, on_fatal="reject")

    hearing = on_retrieval_failure("book")(heard.append)
    sink(rows(spark, names), 0)
    sink(rows(spark, names), 0)
    hearing.cancel()

    assert shop.booked() == dict.fromkeys(set(names) - {"u-3", "u-11"}, 1)
    assert shop.outcomes("u-3", "u-11", "u-4") == [EntryOutcome.FAILED] * 2 + [EntryOutcome.OK]
    parked = drive(shop.store.parking.list())
    assert sorted((one.uuid, one.error_message) for one in parked) == [
        ("u-11", "no such order: u-11"),
        ("u-3", "no such order: u-3"),
    ]
    assert {one.kind for one in parked} == {ParkedKind.REJECTED}
    assert [(one.new, one.rejected, one.duplicate) for one in sink.reports] == [(18, 2, 0), (18, 2, 0)]
    assert [event.message and event.message.uuid for event in heard[:2]] in (["u-3", "u-11"], ["u-11", "u-3"])


def test_rows_without_identity_or_count_are_rejected_and_parked(spark: SparkSession, shop: Shop) -> None:
    sink = made(shop, delivery_count="count")
    told = rows(spark, ["u-1", None, "", "u-2"], count="CASE uuid WHEN 'u-2' THEN 101 ELSE 1 END")

    sink(told, 0)

    assert shop.booked() == {"u-1": 1}
    assert (sink.reports[-1].rows, sink.reports[-1].new, sink.reports[-1].rejected) == (4, 1, 3)
    assert len(drive(shop.store.parking.list())) == 3


@postgres_only
def test_what_a_trigger_left_in_doubt_is_the_resolvers_to_say_or_parked(
    spark: SparkSession, shop: Shop
) -> None:
    drive(shop.store.claim("book", ["u-1", "u-2", "u-3"], "a worker that died"))
    drive(shop.store.claim("book", ["u-4"], "a worker that lives", timedelta(seconds=1)))

    def told(uuid: str, trigger_name: str, message: object) -> Resolution:
        return {"u-1": Resolution.NEW, "u-2": Resolution.DUPLICATE}.get(uuid, Resolution.IN_DOUBT)

    sink = made(shop, resolver=told)
    sink(rows(spark, ["u-0", "u-1", "u-1", "u-2", "u-3", "u-4"]), 0)

    report = sink.reports[-1]
    assert shop.booked() == {"u-0": 1, "u-1": 1}
    assert (report.new, report.duplicate, report.in_doubt, report.rejected) == (2, 2, 2, 0)
    assert sorted(str(one.uuid) for one in drive(shop.store.parking.list())) == ["u-3", "u-4"]
    assert shop.outcomes("u-1", "u-2", "u-3") == [EntryOutcome.OK, EntryOutcome.OK, None]


def test_a_table_can_hold_the_newest_row_of_each_key(spark: SparkSession, shop: Shop) -> None:
    columns = ["customer", "amount", "at"]
    sink = made(shop, into_table("latest", columns=columns, replacing=["customer"], newest="at"))

    def orders(*told: tuple[str, str, int]) -> DataFrame:
        return frame(spark, told, "uuid string, customer string, at bigint").selectExpr(
            "customer", "at", "CAST(at AS DECIMAL(9, 1)) AS amount", "uuid"
        )

    sink(orders(("u-1", "Sato", 3), ("u-2", "Sato", 9), ("u-3", "Kaya", 4)), 0)
    sink(orders(("u-4", "Sato", 5), ("u-5", "Kaya", 6), ("u-2", "Sato", 99)), 1)

    assert sorted(shop.all("SELECT customer, at, amount FROM latest")) == [
        ("Kaya", 6, Decimal(6)),
        ("Sato", 9, Decimal(9)),
    ]


def test_a_row_that_does_not_say_how_new_it_is_is_older_than_any(spark: SparkSession, shop: Shop) -> None:
    columns = ["customer", "amount", "at"]
    sink = made(
        shop, into_table("latest", columns=columns, replacing=["customer"], newest="at"), partitions=1
    )

    def orders(*given: tuple[str, str, int | None]) -> DataFrame:
        told = frame(spark, given, "uuid string, customer string, at bigint")
        return told.selectExpr("uuid", "customer", "at", "coalesce(at, 0) AS amount")

    sink(orders(("u-1", "Sato", None), ("u-2", "Sato", 3), ("u-3", "Sato", None), ("u-4", "Kaya", None)), 0)
    sink(orders(("u-5", "Sato", None), ("u-6", "Kaya", 5)), 1)

    assert sorted(shop.all("SELECT customer, at FROM latest")) == [("Kaya", 5), ("Sato", 3)]


def test_a_table_takes_what_is_nested_as_json(spark: SparkSession, shop: Shop) -> None:
    with shop.engine.begin() as connection:
        connection.execute(text("CREATE TABLE nested (uuid TEXT, held JSON, lines JSON, by_day JSON)"))

    made(shop, into_table("nested"))(
        spark.sql(
            "SELECT 'u-1' AS uuid, struct(X'00ff' AS raw, DATE '2026-01-02' AS day) AS held, "
            "array(struct(1 AS n), NULL) AS lines, map(DATE '2026-01-02', 1.5BD) AS by_day"
        ),
        0,
    )

    (row,) = shop.all("SELECT held, lines, by_day FROM nested")
    told = [json.loads(one) if isinstance(one, str) else one for one in row]
    assert told == [{"raw": "00ff", "day": "2026-01-02"}, [{"n": 1}, None], {"2026-01-02": "1.5"}]


@postgres_only
def test_a_table_takes_what_columns_can_hold(spark: SparkSession, shop: Shop) -> None:
    with shop.engine.begin() as connection:
        connection.execute(
            text(
                "CREATE TABLE sorts (uuid TEXT, at TIMESTAMPTZ, day DATE, raw BYTEA, n DOUBLE PRECISION, "
                'tags TEXT[], told JSONB, "odd % ""name\\:?" TEXT)'
            )
        )
    sink = made(shop, into_table("sorts"))

    sink(
        spark.sql(
            "SELECT 'u-1' AS uuid, TIMESTAMP '2026-01-02 03:04:05' AS at, DATE '2026-01-02' AS day, "
            "X'00ff' AS raw, 1.5D AS n, array('a', 'b') AS tags, map('k', 'v\\t') AS told, "
            'CAST(NULL AS STRING) AS `odd % "name:?`'
        ),
        0,
    )

    told = shop.all("SELECT uuid, extract(epoch FROM at), day, raw, n, tags, told FROM sorts")
    assert told == [("u-1", 1767323045, date(2026, 1, 2), b"\x00\xff", 1.5, ["a", "b"], {"k": "v\t"})]


def test_a_writer_of_ones_own_may_not_end_the_transaction(spark: SparkSession, shop: Shop) -> None:
    def tear(connection: Connection, rows: Sequence[Any]) -> None:
        connection.commit()

    with pytest.raises(PySparkException, match="commit and rollback would separate"):
        made(shop, tear)(rows(spark, ["u-1"]), 0)

    assert shop.outcomes("u-1") == [None]


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"columns": "uuid"}, "columns"),
        ({"replacing": "uuid"}, "replacing"),
        ({"columns": ["uuid"], "replacing": ["customer"]}, "into_table: replacing"),
        ({"columns": ["uuid"], "replacing": ["uuid"], "newest": "at"}, "into_table: newest"),
    ],
)
def test_a_table_that_could_not_be_filled_is_refused(settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        into_table("bookings", **settings)

    assert refused.value.setting == setting


@pytest.mark.parametrize(
    "settings", [{"columns": ["uuid", "amuont"]}, {"replacing": ["amuont"]}], ids=["columns", "replacing"]
)
def test_a_stream_without_a_column_that_is_written_is_refused(
    spark: SparkSession, shop: Shop, settings: dict[str, Any]
) -> None:
    sink = made(shop, into_table("bookings", **settings), on_fatal="reject")

    with pytest.raises(ConfigurationError, match="amuont"):
        sink(rows(spark, ["u-1"]), 0)
    with pytest.raises(ConfigurationError, match="amuont"):
        sink.write_stream(spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS uuid"))

    assert shop.outcomes("u-1") == [None]


@pytest.mark.parametrize(
    "history", ["redis://shop:hunter2@127.0.0.1/0", "mysql://shop:hunter2@db/shop", "shop:hunter2@db/shop"]
)
def test_an_error_about_a_history_quotes_no_password(history: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        atomic_sink(DESTINATION, uuid="uuid", history=history, write=into_table("bookings"), name="book")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("setting", ["history", "parking"])
def test_a_url_that_cannot_be_read_is_a_mistake_of_its_setting(setting: str) -> None:
    urls = {"history": "redis://127.0.0.1/0", setting: "redis://shop:hun[ter2@127.0.0.1/0"}

    with pytest.raises(ConfigurationError) as refused:
        foreach_batch(DESTINATION, uuid="uuid", name="book", **cast("Any", urls))(print)

    assert refused.value.setting == setting
    assert "ter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"history": "redis://127.0.0.1"}, "needs a SQL database"),
        ({"write": "bookings"}, "cannot be called"),
        ({"rows_per_transaction": 0}, "must be 1 or more, not 0"),
        ({}, "say name="),
    ],
    ids=["history", "write", "rows", "name"],
)
def test_what_cannot_be_atomic_is_refused(wrong: dict[str, Any], words: str) -> None:
    told: dict[str, Any] = {"uuid": "uuid", "history": "sqlite:///x", "write": into_table("bookings")}

    with pytest.raises(ConfigurationError, match=words):
        atomic_sink(DESTINATION, **(told | wrong))
