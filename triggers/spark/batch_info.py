"""Information about a batch: for the user's function and ``committed=``, and the results of its rows."""

import inspect
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from typing import Any, Concatenate, cast

from pyspark.sql import DataFrame

from history.errors import ConfigurationError
from triggers.service.signatures import asked_kind
from triggers.spark.connections import history_at, patiently

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Where the batch ledger of a trigger is, and which run this is: plain values that may travel."""

    history: str = field(repr=False)
    trigger: str
    patience: timedelta
    run: str


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """One run of a batch, for a function with a parameter of this type.

    ``lineage`` is the id in the query's checkpoint: with a new checkpoint Spark draws another one and counts
    the batches from 0 again. So ``lineage`` and ``batch_id`` together are the name of a batch. Over Spark
    Connect it is the name of the query.

    ``attempt`` is 1 unless the batch was tried before. Each run of a batch has a number that is higher than
    those of all earlier runs. Put it into a path, and no other run writes there. So a driver that hangs, and
    wakes up late, cannot overwrite what a later run wrote.
    """

    query: str
    lineage: str
    batch_id: int
    attempt: int
    _ledger: LedgerPlace | None = field(default=None, repr=False, compare=False)

    def still_mine(self) -> bool:
        """Ask the batch ledger whether no later run of this batch has begun; one round trip.

        A later run may begin right after the answer. So this saves work, and narrows a window, but is not a
        fence. A ``BatchInfo`` that you make yourself has no ledger, and answers True.

        Raises:
            HistoryUnavailableError: the history stayed away for longer than ``patience``.
        """
        ledger = self._ledger
        if ledger is None:
            return True
        read = history_at(ledger.history).progress.read
        record = patiently(ledger.patience, read, ledger.trigger, self.query, self.batch_id)
        return record is not None and record.run == ledger.run


#: The name of the class in an annotation that is still text.
_NAMED = re.compile(rf"\b{BatchInfo.__name__}\b")

#: The user's function: ``(new, batch_id)``, ``(new, info)`` or ``(new, batch_id, info)``.
BatchFunction = Callable[Concatenate[DataFrame, int, ...], Any] | Callable[[DataFrame, BatchInfo], Any]


def given_info(batch_function: BatchFunction) -> Callable[[DataFrame, BatchInfo], Any]:
    """Return a caller of the user's function: with the BatchInfo if a parameter has this annotation.

    Raises:
        ConfigurationError: the function cannot take these arguments.
    """
    function = cast("Callable[..., Any]", batch_function)
    parameters = _parameters(function)
    asking = [parameter.name for parameter in parameters if _asks(parameter)]
    if asking and asking[0] in [parameter.name for parameter in parameters[1:2]]:
        _check(function, None, 0)
        return function
    _check(function, None, 0, **dict.fromkeys(asking))
    return lambda new, info: function(new, info.batch_id, **dict.fromkeys(asking, info))


def _parameters(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError as error:  # some functions that are written in C have no signature
        raise _misfit(error) from error


def _asks(parameter: inspect.Parameter) -> bool:
    asked: Any = asked_kind(parameter.annotation)
    text = getattr(asked, "__forward_arg__", asked)
    return asked is BatchInfo or (isinstance(text, str) and _NAMED.search(text) is not None)


def _check(function: Callable[..., Any], *positional: object, **named: object) -> None:
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError as error:
        raise _misfit(error) from error


def _misfit(error: Exception) -> ConfigurationError:
    return ConfigurationError(
        "foreach_batch",
        f"its function cannot take (new, batch_id): {error}",
        "write def load(new, batch_id), or def load(new, batch: BatchInfo)",
    )


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

    @property
    def charted(self) -> dict[str, int]:
        """The counts for the statistics of the trigger; a batch with new rows is one run."""
        runs = int(self.new > 0)
        rows = {name: self.verdicts[name] for name in ("new", "duplicate", "in_doubt", "rejected")}
        return {**rows, "runs": runs, "microseconds": runs * round(self.seconds * 1_000_000)}

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
