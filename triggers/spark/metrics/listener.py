"""The listener for Spark's events of its streaming queries; its failures affect no query."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from math import isfinite

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from triggers.spark.metrics.queries import Progress, Queries

_log = logging.getLogger(__name__)


class QueryListener(StreamingQueryListener):
    """Notes Spark's events. Spark calls it in separate threads, at the start in the thread of ``start()``."""

    def __init__(self, queries: Queries) -> None:
        super().__init__()
        self._queries = queries

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark calls it so)
        """Note a start."""
        with _harmless("start"):
            self._queries.started(event.id, event.runId, event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Note a batch."""
        with _harmless("progress"):
            progress = event.progress
            self._queries.went_on(progress.id, progress.runId, progress.name, _noted(progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Note that there is nothing to do."""
        with _harmless("pause"):
            self._queries.waited(event.id)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Note an end."""
        with _harmless("end"):
            self._queries.ended(event.id, event.runId, failed=event.exception is not None)


@contextmanager
def _harmless(what: str) -> Generator[None]:
    """Log a failure: a query must not suffer for its metrics, nor the metrics of other queries."""
    try:
        yield
    except Exception:  # noqa: BLE001  (any error)
        _log.exception("the %s of a query is missing in the metrics", what)


def _noted(progress: StreamingQueryProgress) -> Progress:
    return Progress(
        batch=progress.batchId,
        seconds=progress.batchDuration / 1000,
        rows=progress.numInputRows,
        input_rate=_known(progress.inputRowsPerSecond),
        processed_rate=_known(progress.processedRowsPerSecond),
    )


def _known(rate: float) -> float:
    """Return a rate; for a batch that took no time, Spark gives infinity, or no number."""
    return rate if isfinite(rate) else 0.0
