"""How many rows of a micro-batch are what."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.progress import BatchRecord
from triggers.detection import Status
from triggers.spark.aside import RUNS, STATUS
from triggers.spark.claiming import AGAIN, VERDICT, Verdict
from triggers.spark.report import BatchReport

#: What the name of the observed metrics of a trigger begins with.
OBSERVED = "doubtless:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many rows are what; ``aside`` are those that are looked at again."""

    new: int = 0
    duplicate: int = 0
    in_doubt: int = 0
    rejected: int = 0
    aside: int = 0
    runs_aside: int = 0
    new_aside: int = 0
    failed: bool = False

    @classmethod
    def of_verdicts(cls, verdicts: DataFrame, trigger: str) -> "Tally":
        """Count the verdicts, which computes and persists them; Spark's listeners are told, too."""
        observed = verdicts.observe(f"{OBSERVED}{trigger}", *_metrics())
        counts = {int(row[0]): int(row[1]) for row in observed.groupBy(VERDICT).count().collect()}
        new = counts.pop(Verdict.NEW, 0)
        aside = sum(count for verdict, count in counts.items() if verdict % AGAIN >= Verdict.ASIDE)
        return cls(new=new, duplicate=sum(counts.values()) - aside, aside=aside)

    def with_aside(self, aside: DataFrame) -> "Tally":
        """Count what became of the rows that were put aside, which computes it."""
        counts: dict[str, int] = {}
        runs = new_aside = 0
        for row in aside.groupBy(STATUS, RUNS).count().collect():
            status, count = str(row[STATUS]), int(row["count"])
            counts[status] = counts.get(status, 0) + count
            runs += count if row[RUNS] else 0
            new_aside += count if status == Status.NEW else 0
        return Tally(
            new=self.new,
            duplicate=self.duplicate + counts.get(Status.DUPLICATE, 0),
            in_doubt=counts.get(Status.IN_DOUBT, 0),
            rejected=sum(counts.values())
            - sum(counts.get(one, 0) for one in (Status.NEW, Status.DUPLICATE, Status.IN_DOUBT)),
            runs_aside=runs,
            new_aside=new_aside,
        )

    @property
    def runs(self) -> int:
        """How many rows the user's function is given."""
        return self.new + self.runs_aside

    def as_failed(self) -> "Tally":
        """Count the new rows as given up."""
        given_up = self.new + self.new_aside
        return Tally(
            duplicate=self.duplicate,
            in_doubt=self.in_doubt,
            rejected=self.rejected + given_up,
            failed=True,
        )

    def report(self, record: BatchRecord, notes: Sequence[str], seconds: float) -> BatchReport:
        """Return the report of the batch."""
        new = self.new + self.new_aside
        return BatchReport(
            batch_id=record.batch,
            query=record.query,
            rows=new + self.duplicate + self.in_doubt + self.rejected,
            new=new,
            duplicate=self.duplicate,
            in_doubt=self.in_doubt,
            rejected=self.rejected,
            seconds=seconds,
            attempt=record.attempt,
            notes=tuple(notes),
        )


def _metrics() -> Sequence[Column]:
    """Return what is observed of a batch: its rows by what the claims made of them."""
    new, aside = F.col(VERDICT) == int(Verdict.NEW), F.col(VERDICT) % AGAIN >= int(Verdict.ASIDE)
    return (
        F.count(F.lit(1)).alias("rows"),
        F.count_if(new).alias("new"),
        F.count_if(~new & ~aside).alias("duplicate"),
        F.count_if(aside).alias("aside"),
    )
