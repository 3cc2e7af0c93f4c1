"""After a batch the driver removes expired entries. If that fails, the batch does not fail."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from history import EntryOutcome, HistoryUnavailableError, open_history
from history.bridge import drive
from history.store import BatchOwner, HistoryStore
from tests.fixtures.databases import asked
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK
from tests.fixtures.waiting import eventually
from triggers import Message, trigger
from triggers.spark import BatchReport, ForeachBatch, foreach_batch, handler
from triggers.spark.atomic_sink import atomic_sink, into_table
from triggers.spark.connections import history_at

pytestmark = [SPARK, pytest.mark.prove]

SHORT = timedelta(milliseconds=300)


def rows(spark: SparkSession, *uuids: str) -> DataFrame:
    told = ", ".join(f"('{uuid}')" for uuid in uuids)
    return spark.sql(f"SELECT uuid FROM VALUES {told} AS t (uuid)")  # noqa: S608


def load(url: str, **settings: Any) -> ForeachBatch:
    given: dict[str, Any] = {"uuid": "uuid", "history": url, "name": "load", "query": "q", **settings}
    return foreach_batch("orders", **given)(lambda new, _: new.foreachPartition(lambda _: None))


@pytest.fixture(params=["redis", "postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.sqlite3"
    return str(request.getfixturevalue(f"{request.param}_url"))


def kept(url: str) -> tuple[int, int]:
    """Count the stored rows and batches, expired or not. Rows in Redis expire by themselves."""
    if url.startswith("redis"):
        with connected(url) as client:
            (ledger,) = list(client.scan_iter("*:batches")) or [b"none"]
            return 0, sum(one.startswith(b"b ") for one in client.hkeys(ledger))
    count = "SELECT COUNT(*) FROM doubtless_{} WHERE trigger_name > ''"
    ((entries,),), ((batches,),) = (asked(url, count.format(table)) for table in ("history", "batches"))
    return entries, batches


def expired(url: str, *uuids: str) -> None:
    """Write expired entries, each in a different batch."""
    store = open_history(url)
    for place, uuid in enumerate(uuids):
        owner = BatchOwner(f"q/{place}/run")
        drive(store.claim("load", [uuid], owner, time_to_live=SHORT))
        drive(store.settle_batch("load", owner, EntryOutcome.OK))
    eventually(lambda: not any(drive(store.lookup("load", uuids))))
    drive(store.close())
    assert kept(url)[1] == len(uuids)


def test_what_has_expired_is_gone_after_the_next_batch(
    spark: SparkSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "LOOKING", 10)
    sink = load(url)
    expired(url, "a", "b")

    sink(rows(spark, "c"), 3)

    most = (0 if url.startswith("redis") else 1, 1)
    assert kept(url) == most
    assert sink.reports[-1].new == 1


@pytest.mark.parametrize("kind", ["atomic sink", "service"])
def test_the_other_pipelines_tidy_up_as_well(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(handler, "LOOKING", 10)
    url = f"sqlite:///{tmp_path}/history.sqlite3"
    asked(url, "CREATE TABLE bookings (uuid TEXT)")
    expired(url, "a", "b")

    if kind == "atomic sink":
        atomic_sink("orders", uuid="uuid", name="load", history=url, query="q", write=into_table("bookings"))(
            rows(spark, "c"), 1
        )
    else:

        @trigger("orders", name="load", history=url)
        def book(message: Message) -> None:
            assert message.uuid

        book.foreach_batch(uuid="uuid", query="q")(rows(spark, "c"), 1)

    assert kept(url)[0] == 1


def test_arrears_are_worked_off_in_pieces_that_go_on_where_the_last_one_ended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "LOOKING", 0)
    url = f"sqlite:///{tmp_path}/history.sqlite3"
    store = open_history(url)
    drive(store.claim("load", [f"u{n}" for n in range(3000)], "somebody", time_to_live=SHORT))
    eventually(lambda: drive(store.lookup("load", ["u0", "u2999"])) == [None, None])
    drive(store.close())
    sink = load(url)

    left: list[int] = []
    for batch_id in range(8):
        sink(rows(spark, f"new{batch_id}"), batch_id)
        left.append(kept(url)[0] - batch_id - 1)

    assert left[0] >= 2000, "one batch does not pay for all"
    assert (left, left[-1]) == (sorted(left, reverse=True), 0)


def test_a_parked_row_that_somebody_else_completes_is_closed(spark: SparkSession, redis_url: str) -> None:
    store = open_history(redis_url)
    (claim,) = drive(store.claim("load", ["a"], "somebody who is slow"))
    load(redis_url)(rows(spark, "a"), 0)
    assert drive(store.parking.count(trigger="load")) == 1
    drive(store.complete("load", "a", claim.fence))

    load(redis_url)(rows(spark, "b"), 1)

    assert drive(store.parking.count(trigger="load")) == 0
    drive(store.close())


def test_a_batch_does_not_fail_where_the_upkeep_does(
    spark: SparkSession, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_: str) -> HistoryStore:
        raise HistoryUnavailableError("purging")

    sink = load(redis_url)
    monkeypatch.setattr(handler, "history_at", away)
    sink(rows(spark, "a"), 0)
    monkeypatch.setattr(handler, "history_at", history_at)
    sink(rows(spark, "b"), 1)

    assert [one.new for one in sink.reports] == [1, 1]
    assert "the next batch tries again" in caplog.text


def test_a_cursor_that_the_history_does_not_know_is_given_up(url: str) -> None:
    purging_of_load = handler.Purging(load(url).settings, cursor="of another version")
    expired(url, "a", "b")

    for batch_id in range(4):
        purging_of_load.after(BatchReport(batch_id=batch_id, query="q", rows=1))

    assert kept(url) == (0, 0)
