"""Counts of the rows of a micro-batch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.store.progress import BatchRecord
from triggers.detection.table import Status
from triggers.spark.batch.claims.findings import AGAIN, RowVerdict
from triggers.spark.batch.claims.verdicts import PARTITION, VERDICT
from triggers.spark.batch.second_look import GIVES_WAY, IN_PROGRESS, REASON, REJECTED, RUNS, STATUS
from triggers.spark.batch_info import BatchReport

#: How the name of the observed metrics of a trigger begins.
OBSERVED = "doubtless:"

#: The counts that Spark's listeners see, and those of a tally.
_OBSERVED_COUNTS = ("rows", "new", "duplicate", "aside")
_TALLIED = ("new", "fresh", "duplicate", "done", "aside")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTally:
    """Counts of rows; ``aside`` rows need a second look.

    ``fresh`` rows are new rows that nobody had claimed before. ``done`` duplicates were completed by an
    earlier run of the same batch; ``again`` rows are those of them that the function receives again.
    ``unfinished`` means that the function is called even without rows. ``in_progress`` rows belong to another
    running process. For ``gives_way`` of them this batch must not wait while it holds claims; ``example`` is
    a row of either kind. ``partitions`` are the partitions with new rows, if each has an owner.
    """

    new: int = 0
    fresh: int = 0
    again: int = 0
    duplicate: int = 0
    done: int = 0
    in_doubt: int = 0
    rejected: int = 0
    aside: int = 0
    runs_aside: int = 0
    new_aside: int = 0
    in_progress: int = 0
    gives_way: int = 0
    example: str = ""
    unfinished: bool = False
    failed: bool = False
    partitions: tuple[int, ...] = ()

    @classmethod
    def of_verdicts(cls, verdicts: DataFrame, trigger: str, *, partitions: int = 0) -> "BatchTally":
        """Count the verdicts, which computes and persists them; Spark's listeners also see them.

        ``partitions`` is the number of partitions with a separate owner; with 0, all rows have one owner.
        """
        sums = _sums(verdicts, partitions)
        # The listeners get sums of the counts. Observing the verdicts would be a step more for each row.
        metrics = [F.expr(f"coalesce(sum({name}), 0) AS {name}") for name in _OBSERVED_COUNTS]
        counts = sums.observe(f"{OBSERVED}{trigger}", *metrics).collect()
        counted: dict[str, Any] = {name: sum(row[name] for row in counts) for name in _TALLIED}
        indexes = tuple(row[PARTITION] for row in counts if row["new"]) if partitions else ()
        return cls(**counted, partitions=indexes)

    def with_aside(self, aside: DataFrame) -> "BatchTally":
        """Count the results of the rows of the second look, which computes them."""
        statuses = [*Status, REJECTED, IN_PROGRESS, GIVES_WAY]
        example = F.max(F.when(F.col(STATUS).isin(IN_PROGRESS, GIVES_WAY), F.col(REASON))).alias("example")
        counts = counted(aside, STATUS, statuses, F.count_if(RUNS).alias("runs"), example)
        return replace(
            self,
            duplicate=self.duplicate + counts[Status.DUPLICATE],
            in_doubt=counts[Status.IN_DOUBT],
            rejected=counts[REJECTED],
            runs_aside=counts["runs"],
            new_aside=counts[Status.NEW],
            in_progress=counts[IN_PROGRESS] + counts[GIVES_WAY],
            gives_way=counts[GIVES_WAY],
            example=counts["example"] or "",
        )

    def with_whole_batch(self, *, unfinished: bool) -> "BatchTally":
        """Count the rows for a sink that is rewritten: all rows of the batch, or none.

        ``unfinished`` means that an earlier run may have written rows that nobody has completed.
        """
        if not unfinished and not self.runs:
            return self
        return replace(self, again=self.done, duplicate=self.duplicate - self.done, unfinished=unfinished)

    @property
    def runs(self) -> bool:
        """Whether the user's function is called."""
        return self.unfinished or self.new + self.runs_aside > 0

    def as_failed(self) -> "BatchTally":
        """Count the new rows as given up."""
        given_up = self.new + self.new_aside
        return BatchTally(
            duplicate=self.duplicate, in_doubt=self.in_doubt, rejected=self.rejected + given_up, failed=True
        )

    def report(self, record: BatchRecord, notes: Sequence[str], seconds: float) -> BatchReport:
        """Return the report of the batch."""
        new = self.new + self.again + self.new_aside
        return BatchReport(
            batch_id=record.batch,
            query=record.query,
            rows=new + self.duplicate + self.in_doubt + self.rejected,
            new=new,
            again=self.again,
            duplicate=self.duplicate,
            in_doubt=self.in_doubt,
            rejected=self.rejected,
            seconds=seconds,
            attempt=record.attempt,
            notes=tuple(notes),
        )


def counted(rows: DataFrame, column: str, values: Iterable[str], *more: Column) -> Mapping[str, Any]:
    """Count the rows by the word in a column, and compute other columns, in one task."""
    counts = [F.count_if(F.col(column) == word).alias(word) for word in values]
    (sums,) = rows.agg(*counts, *more).collect()
    return cast("Mapping[str, Any]", sums.asDict())


def _sums(verdicts: DataFrame, partitions: int) -> DataFrame:
    """Return the counts of a batch in one row, or in one row for each of several partitions with owners."""
    if partitions > 1:
        return verdicts.groupBy(PARTITION).agg(*_counts())
    # Not by groupBy: for a handful of groups Spark would start 200 tasks. If there is one partition, its task
    # also counts: there is no exchange, and no task after it.
    return (verdicts.coalesce(1) if partitions else verdicts).agg(F.lit(0).alias(PARTITION), *_counts())


def _counts() -> Sequence[Column]:
    """Return the counts of rows by the results of the claims."""
    new, aside = f"{VERDICT} <= {RowVerdict.ADOPTED:d}", f"{VERDICT} % {AGAIN} >= {RowVerdict.ASIDE:d}"
    counts = {
        "rows": "true",
        "new": new,
        "duplicate": f"NOT ({new} OR {aside})",
        "aside": aside,
        "done": f"{VERDICT} = {RowVerdict.DONE:d}",
        "fresh": f"{VERDICT} IN ({RowVerdict.NEW:d}, {RowVerdict.LEFT_OUT:d})",
    }
    return [F.expr(f"count_if({what}) AS {name}") for name, what in counts.items()]
