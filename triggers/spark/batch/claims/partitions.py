"""Whether each partition of a batch claims its own rows, under an owner of its own.

Then no row has to travel to where the other rows of its uuid are, and none is sorted: about half of what a
batch costs. A partition takes what has its token for its own. So when it is computed again, it must have the
same index and the same rows in the same order. Rows with one uuid are brought together, as ever, where

==================================  =======================================================================
the batch comes again               what earlier runs have completed would be handed over by each partition
                                    that has a copy of it, and be counted by each
delivery counts are named           the copy with the lowest one counts, wherever it is
fingerprints are compared           the body that comes first is compared with those of all copies
``claims`` are named                so many tasks claim, whatever the partitions
Spark keeps no rows                 rows that a resolver said are NEW are known by their uuid alone, and each
                                    partition may have a copy
the frame is a plan                 each job cuts it anew, such as for more cores. What a stream gives to
                                    ``foreachBatch`` is not: its partitions are made once
the frame has been shuffled         a partition that is computed again has its rows in another order
there are few partitions            fewer than half of the tasks that there would be, or than ``partitions``:
                                    the exchange costs less than tasks that are missing
the batches are small               each owner is a record of the history, which rows have to outweigh
==================================  =======================================================================
"""

import logging
from typing import Any, cast

from pyspark.sql import DataFrame

from history.support.rendering import text_of
from triggers.spark.batch.claims.verdicts import task_count
from triggers.spark.batch.session import REFUSALS
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: A record of the ledger takes some 400 bytes for seven days. For so many rows it is a byte a row and less.
ROWS_OF_AN_OWNER = 500

#: So few owners need no such rows.
FEW_OWNERS = 4

#: How a session refuses, or lacks, a look at its plans.
_UNSEEN: tuple[type[Exception], ...] = (AttributeError, TypeError, *REFUSALS)


def in_own_partitions(
    batch: DataFrame, settings: BatchSettings, rows_before: int | None
) -> tuple[DataFrame, int] | None:
    """Return the batch in partitions that claim each their own rows, and how many; None where they may not.

    ``rows_before`` is how many rows the batch before had, where that is known.
    """
    columns = settings.columns
    is_told_otherwise = settings.claims is not None or settings.storage == "none"
    if is_told_otherwise or columns.delivery_count is not None or columns.fingerprint is not None:
        return None
    try:
        return _fixed(batch, settings, rows_before)
    except _UNSEEN as error:
        _log.debug("Spark does not show the partitions of a batch: %s", text_of(error))
        return None


def _fixed(
    batch: DataFrame, settings: BatchSettings, rows_before: int | None
) -> tuple[DataFrame, int] | None:
    java = cast("Any", batch)._jdf  # noqa: SLF001  (PySpark offers no other way)
    execution = java.queryExecution()
    if execution.analyzed().getClass().getSimpleName() != "LogicalRDD":
        return None
    # What was made of an RDD once; a plan would make it anew for each job.
    partitions = execution.toRdd()
    if partitions.outputDeterministicLevel().toString() != "DETERMINATE":
        return None
    count, most = partitions.getNumPartitions(), task_count(batch, settings)
    if count < most and (settings.partitions is not None or 2 * count < most):
        return None
    count, is_more = min(count, most), count > most
    if count > FEW_OWNERS and rows_before is not None and rows_before < count * ROWS_OF_AN_OWNER:
        return None
    return (_coalesced(batch, count) if is_more else batch), count


def _coalesced(batch: DataFrame, count: int) -> DataFrame:
    """Return the batch in fewer partitions that are fixed, too, without moving a row."""
    fewer = cast("Any", batch.coalesce(count))._jdf  # noqa: SLF001  (as above)
    session = cast("Any", batch.sparkSession)
    rows = fewer.queryExecution().toRdd()
    frame = session._jsparkSession.internalCreateDataFrame(rows, fewer.schema(), False)  # noqa: FBT003, SLF001  (as above)
    return DataFrame(frame, session)
