"""Rows with the uuid of another row but a different body are not handed over, and are not lost."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import create_engine, text

from history import ConfigurationError, Parked, ParkedKind, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.orders import frame
from triggers import Cause, Message, RetrievalFailureEvent, on_retrieval_failure, trigger
from triggers.spark import BatchReport, foreach_batch
from triggers.spark.atomic_sink import atomic_sink, into_table

pytestmark = SPARK

#: Two bodies with the same meaning, and a different body.
ONE, SAME, TWO = '{"id": 1, "amount": 10}', '{"amount": 10.0, "id": 1}', '{"id": 1, "amount": 11}'

#: New, duplicate and rejected rows of a report.
Counts = tuple[int, int, int]


def rows(spark: SparkSession, *given: tuple[str, str | None]) -> DataFrame:
    return frame(spark, list(given), "uuid string, value string")


class Loading:
    """A function of batches, and the values that it received."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.values: list[str] = []
        given: dict[str, Any] = {"uuid": "uuid", "body": "value", "name": "book", "query": "q"}

        @foreach_batch("orders", history=url, **(given | settings))
        def load(new: DataFrame, _: int) -> None:
            assert not [name for name in new.columns if name.startswith("__doubtless")]
            self.values += [row["value"] for row in new.select("value").collect()]

        self.load = load

    def run(self, batch: DataFrame) -> Counts:
        self.load(batch, len(self.load.reports))
        return counts_of(self.load.reports[-1])


def counts_of(report: BatchReport) -> Counts:
    return report.new, report.duplicate, report.rejected


@contextmanager
def opened(url: str) -> Generator[KeepsBeside]:
    store = open_history(url)
    yield store
    drive(store.close())


def parked_in(url: str) -> Sequence[Parked]:
    with opened(url) as store:
        return drive(store.parking.list())


@pytest.mark.parametrize("storage", ["memory_and_disk", "none"])
def test_a_row_with_another_body_is_rejected_and_parked(
    spark: SparkSession, redis_url: str, storage: str
) -> None:
    events: list[RetrievalFailureEvent] = []
    loading = Loading(redis_url, fingerprint="body", storage=storage)

    listening = on_retrieval_failure("book")(events.append)
    assert loading.run(rows(spark, ("a", ONE), ("b", "no JSON"))) == (2, 0, 0)
    later = rows(spark, ("a", SAME), ("a", TWO), ("b", "no  JSON"), ("c", None))
    assert loading.run(later) == (1, 1, 2)
    listening.cancel()

    assert sorted(map(str, loading.values)) == ["None", "no JSON", ONE]
    parked = parked_in(redis_url)
    assert sorted(str(one.message.body) for one in parked if one.message) == ["no  JSON", TWO]
    assert {one.kind for one in parked} == {ParkedKind.REJECTED}
    assert all("row 23" in one.reason and "that of the first body" in one.reason for one in parked)
    assert [event.cause for event in events] == [Cause.OTHER_BODY] * 2


@pytest.mark.parametrize("storage", ["memory_and_disk", "none"])
def test_of_two_bodies_in_one_batch_one_is_handed_over(
    spark: SparkSession, redis_url: str, storage: str
) -> None:
    counted = frame(
        spark,
        [("a", 2, TWO), ("a", 1, ONE), ("a", 3, SAME), ("a", 4, TWO)],
        "uuid string, count int, value string",
    )

    loading = Loading(redis_url, fingerprint="body", storage=storage, delivery_count="count")
    assert loading.run(counted) == (1, 1, 2)

    assert loading.values == [ONE]
    assert len(parked_in(redis_url)) == 1, "copies of one message are parked as one"


def test_a_batch_that_comes_again_rejects_the_same_row(spark: SparkSession, redis_url: str) -> None:
    loading = Loading(redis_url, fingerprint="body", on_replay="execute")
    batch = rows(spark, ("a", ONE), ("a", TWO))

    for _ in range(2):
        loading.load(batch, 0)

    assert [counts_of(report) for report in loading.load.reports] == [(1, 0, 1), (0, 1, 1)]
    assert len(loading.values) == 1
    assert len(parked_in(redis_url)) == 1


def test_a_service_of_the_same_name_compares_by_the_same_rule(spark: SparkSession, redis_url: str) -> None:
    @trigger("orders", name="book", history=redis_url, fingerprint="body")
    def book() -> None: ...

    assert book.handle(Message(uuid="a", body=ONE)).executed
    loading = Loading(redis_url, fingerprint="body")

    assert loading.run(rows(spark, ("a", SAME), ("a", TWO), ("b", ONE))) == (1, 1, 1)
    assert book.handle(Message(uuid="b", body=SAME.encode())).kind == "duplicate"
    assert book.handle(Message(uuid="b", body=TWO)).rejected


def test_a_trigger_that_runs_row_by_row_compares_bodies(spark: SparkSession, redis_url: str) -> None:
    @trigger("orders", name="book", history=redis_url, fingerprint="body")
    def book() -> None: ...

    service = book.foreach_batch(uuid="uuid", body="value", query="q")
    service(rows(spark, ("a", ONE)), 0)
    service(rows(spark, ("a", SAME), ("a", TWO)), 1)

    assert [counts_of(report) for report in service.reports] == [(1, 0, 0), (0, 1, 1)]
    (parked,) = parked_in(redis_url)
    assert "row 23" in parked.reason


@pytest.mark.parametrize(
    ("fingerprint", "body", "expected"),
    [
        ("amount", None, (0, 2, 1)),
        (["amount"], "value", (0, 2, 1)),
        (["amount", "value"], None, (0, 0, 3)),
        ("body", None, (0, 0, 3)),
        (None, "value", (0, 3, 0)),
    ],
)
def test_what_counts_is_a_column_some_columns_or_the_whole_row(
    spark: SparkSession,
    redis_url: str,
    fingerprint: str | list[str] | None,
    body: str | None,
    expected: Counts,
) -> None:
    made = (
        "CAST(amount AS DECIMAL(10, 2)) AS amount",
        "TIMESTAMP '2026-01-01' AS at",
        "map('a', 1) AS more",
        "INTERVAL '1' MONTH AS `how long`",
    )
    loading = Loading(redis_url, fingerprint=fingerprint, body=body)
    first = [("a", "x", "1.50"), ("b", "x", "1.50"), ("c", "x", None)]
    again = [("a", "y", "1.50"), ("b", "y", "1.51"), ("c", "y", "1.50")]

    def batch(given: Sequence[tuple[str, str, str | None]]) -> DataFrame:
        plain = frame(spark, given, "uuid string, value string, amount string")
        return plain.selectExpr("uuid", "value", *made)

    assert loading.run(batch(first)) == (3, 0, 0)
    assert loading.run(batch(again)) == expected


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_atomic_sink_writes_no_row_with_another_body(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, kind: Literal["sqlite", "postgres"]
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (uuid TEXT, value TEXT)"))
    sink = atomic_sink(
        "orders",
        name="book",
        uuid="uuid",
        body="value",
        query="q",
        fingerprint="body",
        history=url,
        rows_per_transaction=2,
        write=into_table("bookings", columns=["uuid", "value"]),
    )

    sink(rows(spark, ("a", ONE), ("b", ONE)), 0)
    sink(rows(spark, ("a", SAME), ("a", TWO), ("c", TWO), ("b", TWO)), 1)

    assert [counts_of(report) for report in sink.reports] == [(2, 0, 0), (1, 1, 2)]
    with engine.connect() as connection:
        booked = sorted(connection.execute(text("SELECT uuid, value FROM bookings")).all())
    assert [tuple(one) for one in booked] == [("a", ONE), ("b", ONE), ("c", TWO)]
    assert all("row 23" in one.reason for one in parked_in(url))
    assert len(parked_in(url)) == 2
    engine.dispose()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"fingerprint": "amount"}, "the stream has no column 'amount'"),
        ({"fingerprint": ["value", "amount"]}, "the stream has no column 'amount'"),
        ({"fingerprint": "body", "body": None}, "say body='body', or fingerprint="),
    ],
)
def test_a_fingerprint_of_columns_that_are_not_there_is_refused(
    spark: SparkSession, redis_url: str, settings: dict[str, Any], problem: str
) -> None:
    stream = spark.sql("SELECT 'a' AS uuid, 'x' AS value, 'y' AS body")

    with pytest.raises(ConfigurationError, match=problem):
        Loading(redis_url, **settings).run(stream)


@pytest.mark.parametrize("wrong", [[], 7, [""], [3]])
def test_a_fingerprint_that_names_no_column_is_refused(redis_url: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="fingerprint"):
        Loading(redis_url, fingerprint=wrong)
