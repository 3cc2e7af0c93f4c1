"""A micro-batch that drivers hand over again and again, and die at chosen points."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from history import ParkedKind, open_history
from history.bridge import drive
from triggers.spark import BatchReport, ForeachBatch, foreach_batch
from triggers.spark.batch.batch import BatchStep
from triggers.spark.batch_info import BatchFunction


def counts_of(report: BatchReport) -> tuple[int, int, int, int, int]:
    """Return how many rows there were, and how many of them were new, duplicates, In Doubt and rejected."""
    return report.rows, report.new, report.duplicate, report.in_doubt, report.rejected


class DiedError(BaseException):
    """The driver dies here. This is not an Exception, so it stops everything, like a real death."""


def fixed(spark: Any, rows: Any, schema: Any) -> DataFrame:
    """Return a frame of an RDD or of rows, with fixed partitions, as in a stream's batch."""
    return cast("DataFrame", spark.createDataFrame(rows, schema))


class Batches:
    """Hands the same batch over, again and again, as Spark does after a failure."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.spark = spark
        self.url = url
        self.given: list[str] = []
        self.dies_at: BatchStep | None = None

    def rows(self, uuids: Sequence[str]) -> DataFrame:
        """Return rows in two fixed partitions, as a stream hands them over."""
        rows = [(uuid, f"body of {uuid}") for uuid in uuids]
        return fixed(self.spark, rows, "uuid string, body string")

    def run(
        self, uuids: Sequence[str], then: Callable[[], None] | None = None, batch_id: int = 7, **settings: Any
    ) -> BatchReport:
        """Hand a batch to a new run of the query; ``then`` comes after the effects."""

        def load(new: DataFrame, _: int) -> None:
            self.given += [row.uuid for row in new.collect()]
            if then is not None:
                then()

        made = self.make(load, **settings)
        made.observe = self._observe
        made(self.rows(uuids), batch_id)
        return made.reports[-1]

    def run_and_die(self, step: BatchStep, uuids: Sequence[str], **settings: Any) -> None:
        self.dies_at = step
        with pytest.raises(DiedError):
            self.run(uuids, **settings)
        self.dies_at = None

    def _observe(self, step: BatchStep) -> None:
        if step is self.dies_at:
            raise DiedError

    def make(self, function: BatchFunction, **settings: Any) -> ForeachBatch:
        given: dict[str, Any] = {
            "uuid": "uuid",
            "history": self.url,
            "name": "load",
            "query": "q",
            **settings,
        }
        return foreach_batch("orders", **given)(function)

    def take(self) -> list[str]:
        given, self.given = sorted(self.given), []
        return given

    def parked(self) -> dict[str | None, tuple[ParkedKind, str]]:
        store = open_history(self.url)
        found = {one.uuid: (one.kind, one.reason) for one in drive(store.parking.list())}
        drive(store.close())
        return found
