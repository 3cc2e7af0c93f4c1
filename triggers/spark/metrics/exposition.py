"""Prometheus metrics of streaming queries, computed at each request."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from history.errors import MissingExtraError
from triggers.spark.handler import BatchHandler
from triggers.spark.metrics.queries import Queries, QueryState

try:
    from prometheus_client import Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as missing:
    raise MissingExtraError("metrics", extra="metrics", package="prometheus-client") from missing

#: Gauges of a query: name, help, and the value, None while there is none.
GAUGES: Sequence[tuple[str, str, Callable[[QueryState], float | None]]] = (
    ("query_running", "1 while the query runs", lambda state: int(state.running)),
    (
        "input_rows_per_second",
        "Rows a second that came in with the last batch; 0 while the query waits",
        lambda state: state.input_rate,
    ),
    (
        "processed_rows_per_second",
        "Rows a second that the last batch processed; 0 while the query waits",
        lambda state: state.processed_rate,
    ),
    ("last_batch_id", "Id of the last batch that ended", lambda state: state.last_batch),
    (
        "last_progress_timestamp_seconds",
        "When the query last started, ended a batch or said that it waits, in seconds since 1970",
        lambda state: state.heard_at,
    ),
)


class StreamCollector(Collector):
    """The metrics of the queries of a driver; the docs list names and labels."""

    def __init__(self, queries: Queries, handlers: Sequence[BatchHandler]) -> None:
        self._queries = queries
        self._handlers = handlers

    def collect(self) -> Iterator[Metric]:
        """Read the present state; costs nothing between two scrapes."""
        states = self._queries.states()
        yield self._rows()
        yield from _counted(states)
        for name, text, value in GAUGES:
            family = GaugeMetricFamily(f"doubtless_spark_{name}", text, labels=["query"])
            for query, state in states.items():
                if (measured := value(state)) is not None:
                    family.add_metric([query], measured)
            yield family

    def _rows(self) -> Metric:
        counts: dict[tuple[str, str], Counter[str]] = {}
        for handler in self._handlers:
            for query, more in handler.counts.by_query().items():
                counts.setdefault((handler.settings.name, query), Counter()).update(more)
        family = CounterMetricFamily(
            "doubtless_spark_rows",
            "Rows of micro-batches that were completed, by verdict",
            labels=["trigger", "query", "verdict"],
        )
        for (trigger, query), verdicts in counts.items():
            for verdict, rows in verdicts.items():
                family.add_metric([trigger, query, verdict], rows)
        return family


def _counted(states: Mapping[str, QueryState]) -> Iterator[Metric]:
    """Count the events of Spark."""
    seconds = SummaryMetricFamily(
        "doubtless_spark_batch_seconds", "Batches that ended, and the time that they took", labels=["query"]
    )
    rows = CounterMetricFamily(
        "doubtless_spark_input_rows", "Rows that batches have read from their sources", labels=["query"]
    )
    ends = CounterMetricFamily(
        "doubtless_spark_query_terminations", "Ends of the query, by outcome", labels=["query", "outcome"]
    )
    for query, state in states.items():
        seconds.add_metric([query], count_value=state.batches, sum_value=state.seconds)
        rows.add_metric([query], state.rows)
        for outcome, count in (("stopped", state.stopped), ("failed", state.failed)):
            ends.add_metric([query, outcome], count)
    yield from (seconds, rows, ends)
