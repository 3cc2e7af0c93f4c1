"""The driver of streaming queries answers monitoring while the queries run, fail, restart and stop."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from history.bridge import drive
from history.store.control import Counts
from tests.fixtures.servers.spark import SPARK
from tests.fixtures.waiting import eventually
from tests.integration.helpers.file_streams import FileStream, orders
from tests.integration.helpers.scrapes import ask, samples
from triggers.metrics import reporting
from triggers.spark import ForeachBatch, StreamWatch, foreach_batch, watch
from triggers.spark.connections import history_at

pytestmark = SPARK

ANY_PORT = "127.0.0.1:0"

#: How often an idle query reports, in milliseconds: by default 10,000. Spark reads it when a query starts.
PAUSES = "spark.sql.streaming.noDataProgressEventInterval"


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> FileStream:
    return FileStream(spark, tmp_path)


def _load(url: str, given: list[str], name: str = "load") -> ForeachBatch:
    def load(new: DataFrame, _: int) -> None:
        given.extend(row.uuid for row in new.collect())
        if "bad" in given[-1:]:
            raise RuntimeError("as it is told")

    return foreach_batch("orders", name=name, uuid="uuid", history=url)(load)


def _reported(url: str, trigger: str) -> Counts | None:
    """Return a trigger's counts in the history. Return None before all batches are reported."""
    counts = drive(history_at(url).control.overview()).statistics.get(trigger, Counts())
    return counts if counts.runs >= 2 else None


class Scraped:
    """The metrics of a watch, by name without the common prefix."""

    def __init__(self, watching: StreamWatch) -> None:
        self.address = watching.metrics_address or ""

    def __getitem__(self, labels: tuple[str, ...]) -> float | None:
        name, *values = labels
        return samples(self.address).get((f"doubtless_spark_{name}", *values))

    def wait(self, value: float, *labels: str) -> None:
        """Wait until Spark has told its listeners."""
        eventually(lambda: self[labels] == value)

    def rows(self, query: str, trigger: str) -> dict[str, int]:
        """Return the number of rows by verdict, without empty verdicts."""
        found = samples(self.address).items()
        return {
            labels[3]: int(value)
            for labels, value in found
            if labels[:3] == ("doubtless_spark_rows_total", query, trigger) and value
        }


def test_counts_of_batches_are_reported_to_the_history(
    stream: FileStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "PAUSE", 0.1)
    url = f"sqlite:///{tmp_path}/history.sqlite3"
    load = _load(url, [])
    stream.add(orders(["a", "b", "a"]))
    stream.add(orders(["b", "c"]))

    stream.run(load, name="orders")

    counts = eventually(lambda: _reported(url, "load"))
    assert (counts.new, counts.duplicate, counts.runs) == (3, 2, 2)
    assert counts.microseconds > 0


def test_metrics_are_what_spark_and_the_functions_have_seen(
    stream: FileStream, tmp_path: Path, redis_url: str
) -> None:
    given: list[str] = []
    load = _load(redis_url, given)
    stream.add(orders(["a", "b", "a"]))
    stream.add(orders(["b", "c"]))
    returned: list[str] = []
    other = FileStream(stream.spark, tmp_path / "other")
    returns = _load(redis_url, returned, name="returns")
    other.add(orders(["good"]))
    other.add(orders(["bad"]))

    begun = time.time()
    with watch(stream.spark, load, returns, metrics=ANY_PORT) as watching:
        found = Scraped(watching)
        stream.run(load, name="orders")
        with pytest.raises(StreamingQueryException, match="as it is told"):
            other.run(returns, name="returns")
        found.wait(1, "query_terminations_total", "stopped", "orders")
        found.wait(1, "query_terminations_total", "failed", "returns")

        assert found.rows("orders", "load") == {"new": 3, "duplicate": 2}
        assert sorted(given) == ["a", "b", "c"]
        assert found["batch_seconds_count", "orders"] == 2
        assert 0 < (found["batch_seconds_sum", "orders"] or 0) < time.time() - begun
        assert (found["input_rows_total", "orders"], found["last_batch_id", "orders"]) == (5, 1)
        assert begun < (found["last_progress_timestamp_seconds", "orders"] or 0) < time.time()
        assert [found["query_running", name] for name in ("orders", "returns")] == [0, 0]
        # The failed batch has no verdicts yet, and does not count as ended.
        assert found.rows("returns", "returns") == {"new": 1}
        assert found["batch_seconds_count", "returns"] == 1
        assert found["query_terminations_total", "stopped", "returns"] == 0

        # Spark repeats a batch if it failed, or if its commit is not recorded.
        (tmp_path / "checkpoint" / "commits" / "1").unlink()
        (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
        stream.run(load, name="orders")
        other.run(returns, name="returns")
        found.wait(2, "query_terminations_total", "stopped", "orders")
        found.wait(1, "query_terminations_total", "stopped", "returns")

        assert found.rows("orders", "load") == {"new": 3, "duplicate": 4}
        assert sorted(given) == ["a", "b", "c"]
        assert found["input_rows_total", "orders"] == 7
        assert found.rows("returns", "returns") == {"new": 1, "in_doubt": 1}
        assert found["query_terminations_total", "failed", "returns"] == 1


def test_a_query_that_runs_already_is_seen_until_nobody_watches_any_more(
    stream: FileStream, redis_url: str
) -> None:
    given: list[str] = []
    load = _load(redis_url, given)
    stream.spark.conf.set(PAUSES, "50")
    query = load.write_stream(stream.read()).queryName("orders").start()
    stream.spark.conf.unset(PAUSES)

    with watch(stream.spark, load, metrics=ANY_PORT) as first:
        found = Scraped(first)
        assert (ask(found.address, "/livez"), found["query_running", "orders"]) == ((200, "alive\n"), 1)
        stream.add(orders(["a"]))
        found.wait(1, "batch_seconds_count", "orders")
        assert _ready(found) == (200, {"ready": True, "queries": {"orders": _state(running=True)}})
        eventually(lambda: found["processed_rows_per_second", "orders"] == 0)
        collector = first.collector
    with pytest.raises(ConnectionRefusedError):
        ask(found.address, "/metrics")
    with watch(stream.spark, metrics=ANY_PORT) as second:
        query.stop()
        found = Scraped(second)
        found.wait(1, "query_terminations_total", "stopped", "orders")
        code, answer = _ready(found)  # queries of other tests may end meanwhile
        assert (code, answer["ready"]) == (503, False)
        assert answer["queries"]["orders"] == _state(running=False, last=None)

    (running,) = [family for family in collector.collect() if family.name == "doubtless_spark_query_running"]
    assert [sample.value for sample in running.samples] == [1], "the ended watch saw the end of the query"
    assert given == ["a"]


def _ready(found: Scraped) -> tuple[int, Any]:
    status, text = ask(found.address, "/readyz")
    return status, json.loads(text)


def _state(*, running: bool, last: int | None = 0) -> dict[str, object]:
    return {"running": running, "last_batch": last}
