"""The frames of one run of a micro-batch: for the count, for the second look, and for the function.

The claims are made once, by the first computation of the verdicts. There are two ways to know them later:

==================  =====================================================================================
:class:`KeptRows`   Spark keeps the rows with their verdicts
:class:`AskedAgain` Spark keeps no rows: every read checks the history again for the rows that this run owns.
                    Only these are NEW, and nothing is claimed any more. So whatever others do meanwhile,
                    the function gets the rows that were counted, however often it reads them
==================  =====================================================================================
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from triggers.spark.batch.claims.findings import RowVerdict
from triggers.spark.batch.claims.partitions import in_own_partitions
from triggers.spark.batch.claims.verdicts import (
    COUNT,
    KEY,
    PARTITION,
    VERDICT,
    prepared,
    task_count,
    with_own_verdicts,
    with_verdicts,
)
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.second_look import EVENT, PARKED, REASON, RUNS, STATUS, judged_again
from triggers.spark.batch.session import described, for_verdicts, persisted
from triggers.spark.batch.tally import BatchTally
from triggers.spark.rows.columns import hashable, quoted
from triggers.spark.rows.fingerprints import FINGERPRINT
from triggers.spark.settings import BatchSettings

#: The most rows that a job brings to the driver.
ROWS_OF_A_JOB = 1000

#: Distinguishes rows of one key.
_HASH = "__doubtless_hash"

#: The results that are kept for a row of the second look, if Spark keeps no rows.
_RESULTS = StructType(
    [
        *(StructField(name, StringType()) for name in (KEY, STATUS, REASON, EVENT)),
        *(StructField(name, BooleanType()) for name in (RUNS, PARKED)),
        StructField(_HASH, LongType()),
    ]
)


def brought(rows: DataFrame, count: int) -> Iterator[str]:
    """Yield the one column of some rows: a few with one job, many in several pieces."""
    if count <= ROWS_OF_A_JOB:
        yield from (row[0] for row in rows.collect())
        return
    pieces = rows.coalesce(ceil(count / ROWS_OF_A_JOB))
    yield from (row[0] for row in pieces.toLocalIterator())


def frames_of(
    batch: DataFrame,
    settings: BatchSettings,
    run: BatchRun,
    *,
    comes_again: bool = True,
    rows_before: int | None = None,
) -> "BatchFrames":
    """Return the frames of a run: rows that Spark keeps, if the settings and the session allow it.

    Each partition claims its own rows if possible, unless the batch ``comes_again``; ``rows_before`` is the
    number of rows of the batch before.
    """
    apart = None if comes_again or run.committed else in_own_partitions(batch, settings, rows_before)
    with for_verdicts(batch.sparkSession, settings.storage):  # it is planned when it is kept
        if apart is not None:
            rows, partitions = apart
            own = replace(run, partitions=partitions)
            verdicts = with_own_verdicts(rows, settings, own)
            if persisted(verdicts, settings.storage):
                return KeptRows(rows, settings, own, verdicts)
        verdicts = with_verdicts(batch, settings, run)
        made = KeptRows if persisted(verdicts, settings.storage) else AskedAgain
        return made(batch, settings, run, verdicts)


@dataclass(slots=True)
class KeptRows:
    """Spark keeps the rows: each row is computed only once."""

    batch: DataFrame
    settings: BatchSettings
    run: BatchRun
    verdicts: DataFrame
    aside: DataFrame | None = None

    def count(self) -> BatchTally:
        """Claim the rows, and count them."""
        return _claimed(self.verdicts, self.settings, self.run.partitions)

    def look_again(self, tally: BatchTally) -> BatchTally:
        """Judge the rows that need a second look, and count them."""
        self.aside = judged_again(self.verdicts, self.settings, self.run)
        persisted(self.aside, self.settings.storage)
        with _described(self.aside, self.settings, "judges rows one by one"):
            return tally.with_aside(self.aside)

    def events(self, tally: BatchTally) -> Iterator[str]:
        """Yield the events of rows that were given up."""
        if self.aside is None:
            return
        with _described(self.aside, self.settings, "publishes events"):
            events = self.aside.filter(F.col(EVENT).isNotNull()).select(EVENT)
            yield from brought(events, tally.in_doubt + tally.rejected)

    def parked(self) -> DataFrame:
        """Return the parked rows."""
        assert self.aside is not None  # noqa: S101  (nobody asks unless rows were looked at again)
        return _with_reasons(self.aside.filter(PARKED), self.batch.columns)

    def new(self, tally: BatchTally) -> DataFrame:
        """Return the rows for the user's function."""
        wanted = [RowVerdict.NEW, RowVerdict.ADOPTED, *([RowVerdict.DONE] if tally.again else [])]
        rows = _only(self.verdicts, wanted)
        if self.aside is not None and tally.runs_aside:
            rows = rows.unionByName(self.aside.filter(RUNS).select(*map(quoted, rows.columns)))
        return _laid_out(rows, self.settings)

    def release(self) -> None:
        """Keep nothing any longer."""
        for kept in (self.verdicts, self.aside):
            if kept is not None:
                kept.unpersist()


@dataclass(slots=True)
class AskedAgain:
    """Spark keeps nothing: each read of rows queries the history for their owners.

    The results of rows of the second look are kept on the driver, without the rows.
    """

    batch: DataFrame
    settings: BatchSettings
    run: BatchRun
    verdicts: DataFrame
    results: Sequence[Row] = ()

    def count(self) -> BatchTally:
        """Claim the rows, and count them."""
        return _claimed(self.verdicts, self.settings)

    def look_again(self, tally: BatchTally) -> BatchTally:
        """Judge the rows that need a second look, and count them.

        Rows that others have completed since the claims are duplicates now, and others may be forgotten.
        """
        judged = judged_again(self._owned(), self.settings, self.run).withColumn(_HASH, self._hash())
        with _described(self.batch, self.settings, "judges rows one by one"):
            self.results = judged.select(*_RESULTS.names).collect()
        counted = tally.with_aside(self._known())
        return replace(counted, duplicate=counted.duplicate + tally.aside - len(self.results))

    def events(self, tally: BatchTally) -> Iterator[str]:  # noqa: ARG002  (as others)
        """Yield the events of rows that were given up."""
        yield from (row[EVENT] for row in self.results if row[EVENT] is not None)

    def parked(self) -> DataFrame:
        """Return the parked rows: the rows of the batch that are known to be parked."""
        rows = prepared(self.batch, self.settings).withColumn(_HASH, self._hash())
        results = self._known().filter(PARKED).dropDuplicates([KEY, _HASH]).alias("known")
        same = rows[KEY].eqNullSafe(F.col(f"known.{KEY}")) & (rows[_HASH] == F.col(f"known.{_HASH}"))
        return _with_reasons(rows.join(results, same), self.batch.columns)

    def new(self, tally: BatchTally) -> DataFrame:
        """Return the rows for the user's function: the rows with entries that the run owns."""
        wanted = [
            RowVerdict.NEW,
            RowVerdict.ADOPTED,
            RowVerdict.RESOLVED,
            *([RowVerdict.DONE] if tally.again else []),
        ]
        return _laid_out(_only(self._owned(), wanted), self.settings)

    def release(self) -> None:
        """Keep nothing any longer."""
        self.results = ()

    def _owned(self) -> DataFrame:
        return with_verdicts(self.batch, self.settings, self.run, claims=False)

    def _known(self) -> DataFrame:
        spark: Any = self.batch.sparkSession
        return cast("DataFrame", spark.createDataFrame(list(self.results), _RESULTS))

    def _hash(self) -> Column:
        return F.expr(f"xxhash64({', '.join(hashable(self.batch.schema))})")


#: The computations of a run on its batch. ``count`` comes first, then ``look_again`` if necessary.
BatchFrames = KeptRows | AskedAgain


def _with_reasons(parked: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the user's columns of parked rows, with the status and the reason.

    Rows that were parked before, and are read from the parking lot, already have such columns.
    """
    added = {"doubtless_status": STATUS, "doubtless_reason": REASON}
    users = [quoted(name) for name in columns if name.lower() not in added]
    return parked.select(*users, *(F.col(column).alias(name) for name, column in added.items()))


def _claimed(verdicts: DataFrame, settings: BatchSettings, partitions: int = 0) -> BatchTally:
    shuffles = 1 if partitions > 1 else None
    with (
        _described(verdicts, settings, "claims"),
        for_verdicts(verdicts.sparkSession, settings.storage, shuffles=shuffles),
    ):
        return BatchTally.of_verdicts(verdicts, settings.name, partitions=partitions)


def _described(frame: DataFrame, settings: BatchSettings, what: str) -> AbstractContextManager[None]:
    return described(frame.sparkSession, f"doubtless {settings.name}: {what}")


def _only(verdicts: DataFrame, wanted: Sequence[RowVerdict]) -> DataFrame:
    """Return the user's columns of the rows with one of these verdicts."""
    numbers = ", ".join(f"{verdict:d}" for verdict in wanted)
    return verdicts.filter(f"{VERDICT} IN ({numbers})").drop(KEY, COUNT, PARTITION, FINGERPRINT, VERDICT)


def _laid_out(rows: DataFrame, settings: BatchSettings) -> DataFrame:
    """Return rows in as many partitions as the function is to get, if other tasks have claimed them."""
    if settings.claims is None:
        return rows
    partitions = task_count(rows, settings)
    return rows if partitions == settings.claims else rows.repartition(partitions)
