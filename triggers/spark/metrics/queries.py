"""The state of each streaming query: Spark's events, in numbers."""

import logging
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from threading import Lock
from time import time
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class QueryState:
    """The state of the queries of one name since this process listens; rates are rows a second.

    ``runs`` are the runs that go on: a query may restart before the end of its last run is reported.
    ``heard_at`` is the last time that Spark reported a start, the end of a batch or a wait for data, in
    seconds since 1970. ``last`` is None before the first batch.
    """

    runs: set[UUID] = field(default_factory=set[UUID])
    stopped: int = 0
    failed: int = 0
    batches: int = 0
    seconds: float = 0.0
    rows: int = 0
    input_rate: float = 0.0
    processed_rate: float = 0.0
    last_batch: int | None = None
    heard_at: float = field(default_factory=time)

    @property
    def running(self) -> bool:
        """Whether one of its runs goes on."""
        return bool(self.runs)


class Queries:
    """The queries of a driver, by name: the queryName, or else the id. Any thread may note and read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._states: defaultdict[str, QueryState] = defaultdict(QueryState)
        self._names: dict[UUID, str] = {}

    def started(self, query: UUID, run: UUID, name: str | None) -> None:
        """Note that a run of a query began, or was found running."""
        with self._lock:
            state = self._named(query, name)
            state.runs.add(run)
            state.heard_at = time()

    def went_on(self, progress: StreamingQueryProgress) -> None:
        """Note a completed batch."""
        # Read all of it first: a report that cannot be read changes nothing.
        seconds, rows = progress.batchDuration / 1000, progress.numInputRows
        rates = _finite(progress.inputRowsPerSecond), _finite(progress.processedRowsPerSecond)
        with self._lock:
            state = self._named(progress.id, progress.name)
            state.heard_at = time()
            state.batches += 1
            state.seconds += seconds
            state.rows += rows
            state.last_batch = progress.batchId
            state.runs.add(progress.runId)  # Spark reports an end after everything else, so this run goes on
            state.input_rate, state.processed_rate = rates

    def waited(self, query: UUID) -> None:
        """Note that a query waits for data."""
        with self._lock:
            state = self._named(query)
            state.heard_at = time()
            state.input_rate = state.processed_rate = 0.0

    def gone(self, query: UUID, run: UUID) -> None:
        """Note that a run is over; its end was or will be reported."""
        with self._lock:
            self._without(query, run)

    def ended(self, query: UUID, run: UUID, *, failed: bool) -> None:
        """Note the end of a run."""
        with self._lock:
            state = self._without(query, run)
            state.heard_at = time()
            if failed:
                state.failed += 1
            else:
                state.stopped += 1

    def states(self) -> dict[str, QueryState]:
        """Return the state by name, as copies that do not change any more."""
        with self._lock:
            return {name: replace(state, runs=set(state.runs)) for name, state in self._states.items()}

    def _named(self, query: UUID, name: str | None = None) -> QueryState:
        """Return the state of a query; only some events contain its name."""
        if name is not None or query not in self._names:
            self._names[query] = name or str(query)
        return self._states[self._names[query]]

    def _without(self, query: UUID, run: UUID) -> QueryState:
        state = self._named(query)
        state.runs.discard(run)
        if not state.runs:
            state.input_rate = state.processed_rate = 0.0
        return state


class WatchedQueries:
    """An endpoint's answers about the queries of a driver: it is ready while one of them runs."""

    #: Spark runs the queries in separate threads, and this process answers, so it lives.
    hung_for: float | None = None

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    @property
    def ready(self) -> bool:
        """Whether a query runs."""
        return any(state.running for state in self._queries.states().values())

    def readiness(self) -> dict[str, Any]:
        """Return for each query whether it runs, and which batch it ended last."""
        states = self._queries.states()
        return {
            "ready": any(state.running for state in states.values()),
            "queries": {
                name: {"running": state.running, "last_batch": state.last_batch}
                for name, state in states.items()
            },
        }


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
            self._queries.went_on(event.progress)

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


def _finite(rate: float) -> float:
    """Return a rate; for a batch that took no time, Spark gives infinity, or no number."""
    return rate if isfinite(rate) else 0.0
