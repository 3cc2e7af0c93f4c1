"""Spark's events and batch handlers become metrics; the tests make the events themselves."""

import pickle
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from history.errors import ConfigurationError, MissingExtraError
from tests import ROOT
from triggers.spark import BatchReport, ForeachBatch, foreach_batch, watch
from triggers.spark.batch_info import RowCounts
from triggers.spark.metrics import watch as watching
from triggers.spark.metrics.exposition import StreamCollector
from triggers.spark.metrics.queries import Queries, QueryListener, WatchedQueries

ORDERS, RETURNS = UUID(int=1), UUID(int=2)
RUN, NEXT_RUN = UUID(int=11), UUID(int=12)


def load(new: Any, batch_id: int) -> None:
    raise AssertionError((new, batch_id))


def made() -> ForeachBatch:
    return foreach_batch("orders", name="load", uuid="uuid", history="redis://127.0.0.1:1/0")(load)


class Driver:
    def __init__(self, *handlers: ForeachBatch) -> None:
        self.queries = Queries()
        self.listener = QueryListener(self.queries)
        self.collector = StreamCollector(self.queries, handlers)

    def start(self, query: UUID = ORDERS, run: UUID = RUN, name: str | None = "orders") -> None:
        at = "2026-11-25T12:00:00.000Z"
        said = {"id": str(query), "runId": str(run), "name": name, "timestamp": at}
        self.listener.onQueryStarted(QueryStartedEvent.fromJson(said))

    def progress(self, **changed: Any) -> None:
        said: dict[str, Any] = {
            "id": str(ORDERS),
            "runId": str(RUN),
            "name": "orders",
            "timestamp": "2026-11-25T12:00:00.000Z",
            "batchId": 7,
            "batchDuration": 1500,
            "numInputRows": 30,
            "inputRowsPerSecond": 10.0,
            "processedRowsPerSecond": 20.0,
            "stateOperators": [],
            "sources": [],
            "sink": {"description": "", "numOutputRows": -1},
            **changed,
        }
        self.listener.onQueryProgress(QueryProgressEvent.fromJson({"progress": said}))

    def pause(self) -> None:
        said = {"id": str(ORDERS), "runId": str(RUN), "timestamp": "2026-11-25T12:00:00.000Z"}
        self.listener.onQueryIdle(QueryIdleEvent.fromJson(said))

    def end(self, query: UUID = ORDERS, run: UUID = RUN, error: str | None = None) -> None:
        said = {"id": str(query), "runId": str(run), "exception": error, "errorClassOnException": None}
        self.listener.onQueryTerminated(QueryTerminatedEvent.fromJson(said))

    def samples(self) -> dict[tuple[str, ...], float]:
        return {
            (sample.name.removeprefix("doubtless_spark_"), *sample.labels.values()): sample.value
            for family in self.collector.collect()
            for sample in family.samples
        }

    def rates(self) -> list[float]:
        found = self.samples()
        return [found[f"{what}_rows_per_second", "orders"] for what in ("input", "processed")]


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_batch_is_counted_in_rows_and_seconds(driver: Driver) -> None:
    driver.start()
    driver.progress()
    driver.progress(batchId=8, numInputRows=12, batchDuration=500)

    found = driver.samples()
    found.pop(("last_progress_timestamp_seconds", "orders"))

    assert found == {
        ("batch_seconds_count", "orders"): 2,
        ("batch_seconds_sum", "orders"): 2.0,
        ("input_rows_total", "orders"): 42,
        ("query_terminations_total", "orders", "stopped"): 0,
        ("query_terminations_total", "orders", "failed"): 0,
        ("query_running", "orders"): 1,
        ("input_rows_per_second", "orders"): 10,
        ("processed_rows_per_second", "orders"): 20,
        ("last_batch_id", "orders"): 8,
    }


def test_a_query_that_has_done_nothing_yet_has_no_last_batch(driver: Driver) -> None:
    driver.start()

    assert ("last_batch_id", "orders") not in driver.samples()


@pytest.mark.parametrize("ends", [Driver.pause, Driver.end], ids=["waits", "ended"])
def test_rates_are_those_of_now(driver: Driver, ends: Callable[[Driver], None]) -> None:
    driver.start()
    driver.progress()
    assert driver.rates() == [10, 20]

    ends(driver)

    assert driver.rates() == [0, 0]


@pytest.mark.parametrize("rate", [float("nan"), float("inf")])
def test_a_rate_that_is_no_number_is_0(driver: Driver, rate: float) -> None:
    driver.progress(inputRowsPerSecond=rate, processedRowsPerSecond=rate)

    assert driver.rates() == [0, 0]


def test_a_query_that_restarted_runs_although_its_first_end_is_heard_of_late(driver: Driver) -> None:
    driver.start()
    driver.start(run=NEXT_RUN)
    driver.end(error="as it is told")

    assert driver.samples()["query_running", "orders"] == 1

    driver.end(run=NEXT_RUN)

    found = driver.samples()
    assert found["query_running", "orders"] == 0
    assert [found["query_terminations_total", "orders", how] for how in ("failed", "stopped")] == [1, 1]


def test_a_query_without_a_name_goes_by_its_id(driver: Driver) -> None:
    driver.start()
    driver.start(query=RETURNS, run=NEXT_RUN, name=None)
    driver.end(query=RETURNS, run=NEXT_RUN)

    found = driver.samples()
    assert [found["query_running", name] for name in ("orders", str(RETURNS))] == [1, 0]
    assert WatchedQueries(driver.queries).readiness() == {
        "ready": True,
        "queries": {
            "orders": {"running": True, "last_batch": None},
            str(RETURNS): {"running": False, "last_batch": None},
        },
    }


def test_what_goes_wrong_with_an_event_is_logged_and_touches_no_query(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    broken = cast("Any", object())

    driver.listener.onQueryStarted(broken)
    driver.listener.onQueryProgress(broken)
    driver.listener.onQueryIdle(broken)
    driver.listener.onQueryTerminated(broken)

    missing = " of a query is missing in the metrics"
    assert [one.removesuffix(missing) for one in caplog.messages] == [
        *("the start", "the progress"),
        *("the pause", "the end"),
    ]


def test_the_report_of_a_batch_that_cannot_be_read_counts_nothing(driver: Driver) -> None:
    driver.start()
    driver.progress()
    before = driver.samples()

    half: dict[str, Any] = {"id": ORDERS, "runId": RUN, "name": "orders", "batchId": 8, "batchDuration": 500}
    progress = SimpleNamespace(**half, numInputRows=12, inputRowsPerSecond=None)
    driver.listener.onQueryProgress(cast("Any", SimpleNamespace(progress=progress)))

    assert driver.samples() == before


def _report(**counts: int) -> BatchReport:
    given: dict[str, Any] = {"rows": sum(counts.values()), **counts}
    return BatchReport(batch_id=7, query="orders", **given)


def test_rows_are_counted_by_verdict_and_new_ones_once() -> None:
    first, second = made(), made()
    driver = Driver(first, second)

    first.counts.add(_report(new=4, duplicate=2, in_doubt=1, rejected=3, unmatched=5))
    second.counts.add(BatchReport(batch_id=7, query="orders", rows=6, new=6, again=4))

    assert driver.samples() == {
        ("rows_total", "load", "orders", verdict): rows
        for verdict, rows in {
            "new": 6,
            "again": 4,
            "duplicate": 2,
            "in_doubt": 1,
            "rejected": 3,
            "unmatched": 5,
        }.items()
    }


def test_a_copy_that_travels_counts_from_0() -> None:
    counts = RowCounts()
    counts.add(_report(new=1))

    assert cast("RowCounts", pickle.loads(pickle.dumps(counts))).by_query() == {}  # noqa: S301  (our own)


class Session:
    """A session with only the parts that are checked at the start."""

    streams = None


class ConnectSession(Session):
    __module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(
    ("session", "handlers", "words"),
    [
        (made(), [], r"is no session; give the SparkSession first: watch\(spark, load\)"),
        (Session(), [load], "counts no rows; give what foreach_batch"),
        (ConnectSession(), [made()], "handlers run in a process of the server.*; leave the handlers out"),
    ],
    ids=["no session", "the function", "over Spark Connect"],
)
def test_what_cannot_be_watched_is_refused(session: Any, handlers: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^watch: .*{words}"):
        watch(session, *handlers)


def test_an_address_without_the_extra_says_which_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for module in ("endpoint", "exposition"):
        monkeypatch.delitem(sys.modules, f"triggers.metrics.{module}", raising=False)

    with pytest.raises(MissingExtraError, match=r"pip install 'doubtless\[metrics\]'"):
        watch(cast("Any", Session()), metrics="127.0.0.1:0")


def test_spark_connect_needs_listeners_that_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "version", "3.5.8")

    with pytest.raises(ConfigurationError, match=r"^watch over Spark Connect: needs PySpark 4\.0 or newer"):
        watch(cast("Any", ConnectSession()))


def test_the_docs_and_the_grafana_dashboard_name_what_there_is() -> None:
    handler = made()
    handler.counts.add(_report(new=1))
    driver = Driver(handler)
    driver.progress()
    page = (ROOT / "docs" / "how-to" / "see-metrics-and-health.md").read_text(encoding="utf-8")
    board = (ROOT / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8")
    page = page.replace("`, `_sum`", "` `doubtless_spark_batch_seconds_sum`")

    exported = {f"doubtless_spark_{name}" for name, *_ in driver.samples()}

    assert set(re.findall(r"doubtless_spark_[a-z_]+", page)) == exported
    assert set(re.findall(r"doubtless_spark_[a-z_]+", board)) == exported
