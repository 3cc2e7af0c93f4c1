"""Whether each partition of a batch claims its own rows, under a separate owner.

Then no row has to travel to the other rows of its uuid, and no row is sorted; these steps are about half of
the cost of a batch. A partition treats rows with its token as its own. So when it is computed again, it must
have the same index and the same rows in the same order. In these cases rows with one uuid are brought
together, as in other batches:

==================================  =======================================================================
the batch comes again               rows that earlier runs have completed would be handed over by each
                                    partition that has a copy, and counted by each
delivery counts are named           the copy with the lowest count decides, wherever it is
fingerprints are compared           the body that comes first is compared with the bodies of all copies
``claims`` are named                this number of tasks claims, whatever the partitions
Spark keeps no rows                 rows that a resolver called NEW are known only by their uuid, and each
                                    partition may have a copy
the frame is a plan                 each job divides it again, for example for more cores. The frame that a
                                    stream gives to ``foreachBatch`` is not a plan: its partitions are made
                                    once
the frame has been shuffled         a partition that is computed again has its rows in another order
there are few partitions            fewer than half of the usual number of tasks, or than ``partitions``:
                                    the exchange costs less than missing tasks
the batches are small               each owner is a record of the history, which needs many rows to pay off
==================================  =======================================================================
"""

import logging
from typing import Any, cast

from pyspark.sql import DataFrame

from history.support.rendering import text_of
from triggers.spark.batch.claims.verdicts import task_count
from triggers.spark.batch.session import UNSEEN
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: A record of the ledger takes some 400 bytes for seven days. With this many rows it is at most a byte a row.
ROWS_OF_AN_OWNER = 500

#: This many owners need no such number of rows.
FEW_OWNERS = 4


def in_own_partitions(
    batch: DataFrame, settings: BatchSettings, rows_before: int | None
) -> tuple[DataFrame, int] | None:
    """Return the batch in partitions that each claim their own rows, and how many; None if they may not.

    ``rows_before`` is the number of rows of the batch before, if it is known.
    """
    columns = settings.columns
    is_told_otherwise = settings.claims is not None or settings.storage == "none"
    if is_told_otherwise or columns.delivery_count is not None or columns.fingerprint is not None:
        return None
    try:
        return _fixed(batch, settings, rows_before)
    except UNSEEN as error:
        _log.debug("Spark does not show the partitions of a batch: %s", text_of(error))
        return None


def _fixed(
    batch: DataFrame, settings: BatchSettings, rows_before: int | None
) -> tuple[DataFrame, int] | None:
    java = cast("Any", batch)._jdf  # noqa: SLF001  (PySpark offers no other way)
    execution = java.queryExecution()
    if execution.analyzed().getClass().getSimpleName() != "LogicalRDD":
        return None
    # The result of one RDD, made once; a plan would make it again for each job.
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
    """Return the batch in fewer partitions, which are also fixed, without moving a row."""
    fewer = cast("Any", batch.coalesce(count))._jdf  # noqa: SLF001  (as above)
    session = cast("Any", batch.sparkSession)
    rows = fewer.queryExecution().toRdd()
    frame = session._jsparkSession.internalCreateDataFrame(rows, fewer.schema(), False)  # noqa: FBT003, SLF001  (as above)
    return DataFrame(frame, session)
