"""The results of the rows of a micro-batch, and of all rows in one process."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """Counts of the rows of a micro-batch by result: ``rows`` is the sum of the other counts.

    ``new`` rows were handed to the user's function, which succeeded. ``rejected`` rows were given up, with a
    retrieval failure event each, and parked; with ``on_fatal="reject"``, so are all new rows after a fatal
    failure of the function. ``in_doubt`` rows were parked, or run with ``in_doubt="execute"``.

    ``again`` rows are new rows that an earlier run of the batch had completed: with ``on_replay="execute"``
    they were handed over once more, and an atomic sink found them written.

    ``unmatched`` rows did not match a trigger's selector, filter or routes.

    ``seconds`` is the whole time from the call to the completion; ``attempt`` is 1 unless the batch was tried
    before; ``notes`` are notes for the user, for example that the checkpoint was reset.
    """

    batch_id: int
    query: str
    rows: int
    new: int = 0
    again: int = 0
    duplicate: int = 0
    in_doubt: int = 0
    rejected: int = 0
    unmatched: int = 0
    seconds: float = 0.0
    attempt: int = 1
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The counts by name, for the batch ledger."""
        return {
            "rows": self.rows,
            "new": self.new,
            "duplicate": self.duplicate,
            "in_doubt": self.in_doubt,
            "rejected": self.rejected,
            "unmatched": self.unmatched,
        }

    @property
    def verdicts(self) -> dict[str, int]:
        """The rows by verdict, each under one verdict: ``new`` is without the rows that came ``again``."""
        return {
            "new": self.new - self.again,
            "again": self.again,
            "duplicate": self.duplicate,
            "in_doubt": self.in_doubt,
            "rejected": self.rejected,
            "unmatched": self.unmatched,
        }

    def __str__(self) -> str:
        counts = f"{self.rows} rows, {self.new} new, {self.duplicate} duplicate"
        more = f", {self.in_doubt} in doubt, {self.rejected} rejected in {self.seconds:.2f} s"
        return f"batch {self.batch_id} of {self.query}: {counts}{more}"


class RowCounts:
    """The rows that a handler has processed in this process, by query and verdict.

    Any thread may add and read. A copy begins at zero: over Spark Connect, the server's copy counts.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __reduce__(self) -> tuple[type["RowCounts"], tuple[()]]:
        return RowCounts, ()

    def add(self, report: BatchReport) -> None:
        """Count the rows of a batch."""
        with self._lock:
            self._counts[report.query].update(report.verdicts)

    def by_query(self) -> dict[str, Counter[str]]:
        """Return the counts so far; each query has all verdicts, even with 0 rows."""
        with self._lock:
            return {query: Counter(counts) for query, counts in self._counts.items()}


def tell(report: BatchReport, listener: Callable[[BatchReport], Any] | None, trigger: str) -> None:
    """Log the report of a completed batch, and pass it to its listener; a failure there affects no batch."""
    _log.info("%s", report, extra={"trigger": trigger, **report.counts})
    if listener is None:
        return
    try:
        listener(report)
    except Exception:  # noqa: BLE001  (user code; the batch is completed)
        _log.exception("on_batch failed for %s; the batch is completed", report, extra={"trigger": trigger})
