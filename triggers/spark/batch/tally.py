"""Counts of the rows of a micro-batch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.store.progress import BatchRecord
from triggers.detection.table import Status
from triggers.spark.batch.claims.table import AGAIN, RowVerdict
from triggers.spark.batch.claims.verdicts import PARTITION, VERDICT
from triggers.spark.batch.second_look import GIVES_WAY, IN_PROGRESS, REASON, REJECTED, RUNS, STATUS
from triggers.spark.batch_info import BatchReport

#: How the name of the observed metrics of a trigger begins.
OBSERVED = "doubtless:"


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
    def of_verdicts(cls, verdicts: DataFrame, trigger: str) -> "BatchTally":
        """Count the verdicts, which computes and persists them; Spark's listeners also see them."""
        metrics = _metrics()
        done = F.expr(f"count_if({VERDICT} = {RowVerdict.DONE:d}) AS done")
        fresh = F.expr(f"count_if({VERDICT} IN ({RowVerdict.NEW:d}, {RowVerdict.LEFT_OUT:d})) AS fresh")
        observed = verdicts.observe(f"{OBSERVED}{trigger}", *metrics)
        if PARTITION in verdicts.columns:
            counts = observed.groupBy(PARTITION).agg(*metrics, done, fresh).collect()
        else:
            # Not by groupBy: for a handful of groups Spark would start 200 tasks.
            counts = observed.agg(*metrics, done, fresh).collect()
        names = ("new", "fresh", "duplicate", "done", "aside")
        partitions = tuple(row[PARTITION] for row in counts if PARTITION in row and row["new"])
        counted: dict[str, Any] = {name: sum(row[name] for row in counts) for name in names}
        return cls(**counted, partitions=partitions)

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


def _metrics() -> Sequence[Column]:
    """Return the observed metrics of a batch: its rows by the results of the claims."""
    new, aside = f"{VERDICT} <= {RowVerdict.ADOPTED:d}", f"{VERDICT} % {AGAIN} >= {RowVerdict.ASIDE:d}"
    counts = {"rows": "true", "new": new, "duplicate": f"NOT ({new} OR {aside})", "aside": aside}
    return [F.expr(f"count_if({what}) AS {name}") for name, what in counts.items()]
