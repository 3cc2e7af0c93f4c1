"""The batch with its verdicts: which rows come together, in which order, and who claims them.

There are two ways, and :mod:`triggers.spark.batch.claims.partitions` says when which one is taken:

- Rows with the same uuid are brought together and sorted, so that the first one of each is the same whenever
  and wherever it is computed: the one with the lowest delivery count, then with the lowest message id, then
  with the lowest hash of all its columns. Only it is claimed; the others are its duplicates.
- Rows stay where they are, and each partition claims its own under an owner of its own. Of several rows with
  one uuid the one that is claimed first counts, and of those in one partition the first.

Only the identities, with delivery counts or partitions, travel to Python, and one small number comes back for
each.
"""

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.message import UNDEFINED_COUNT
from triggers.spark.batch.claims.bulk import BulkClaim
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.session import REFUSALS
from triggers.spark.rows.arrow import byte_column
from triggers.spark.rows.columns import delivery_count, hashable, identity, quoted
from triggers.spark.rows.fingerprints import FINGERPRINT, with_fingerprints
from triggers.spark.settings import BatchSettings

#: What is added to the user's columns while a batch is judged.
KEY, COUNT, VERDICT = "__doubtless_key", "__doubtless_count", "__doubtless_verdict"

#: The index of the row's partition, where each has an owner of its own.
PARTITION = "__doubtless_partition"

#: How many tasks share a batch where neither the settings nor the session tell a number.
UNTOLD_PARTITIONS = 32


def prepared(batch: DataFrame, settings: BatchSettings) -> DataFrame:
    """Return the batch with key and count, the rows of each uuid together and in their order.

    The key is the identity of a row that the history is asked about, and null for any other.
    """
    columns, count = settings.columns, delivery_count(settings.columns)
    most = settings.trigger.policy.max_delivery_count
    counts = f"{count} = {UNDEFINED_COUNT} OR {count} BETWEEN 1 AND {most}"
    key = f"CASE WHEN {counts} THEN {identity(columns, batch.schema)} END"
    keyed = with_fingerprints(batch.selectExpr("*", f"{key} AS {KEY}", f"{count} AS {COUNT}"), columns)
    message_id = [] if columns.message_id is None else [quoted(columns.message_id)]
    order: list[Column | str] = [F.expr(f"xxhash64({KEY})"), KEY, COUNT, *message_id, _whole(batch)]
    return by_key(keyed, settings).sortWithinPartitions(*order)


def by_key(rows: DataFrame, settings: BatchSettings) -> DataFrame:
    """Bring the rows of each key together, in as many partitions as there are tasks that claim.

    Those without a key need not meet, and all of them would be one task's.
    """
    key = F.coalesce(F.col(KEY), _whole(rows).cast("string"))
    return rows.repartition(claim_count(rows, settings), key)


def _whole(rows: DataFrame) -> Column:
    return F.expr(f"xxhash64({', '.join(hashable(rows.schema))})")


def claim_count(batch: DataFrame, settings: BatchSettings) -> int:
    """Return how many tasks claim the rows of a batch."""
    return task_count(batch, settings) if settings.claims is None else settings.claims


def task_count(batch: DataFrame, settings: BatchSettings) -> int:
    """Return how many tasks share a batch: one for each core, unless the settings tell.

    Spark would take ``spark.sql.shuffle.partitions``, which is 200, and which nothing adapts to the size of a
    batch in a streaming query; a small batch would be ten seconds of starting tasks.
    """
    if settings.partitions is not None:
        return settings.partitions
    spark = batch.sparkSession
    given = spark.conf.get("spark.sql.shuffle.partitions") or ""
    most = int(given) if given.isdecimal() else UNTOLD_PARTITIONS  # "auto", on Databricks
    try:
        return min(most, spark.sparkContext.defaultParallelism)
    except REFUSALS:  # Spark Connect does not say
        return most


def with_verdicts(
    batch: DataFrame, settings: BatchSettings, run: BatchRun, *, claims: bool = True
) -> DataFrame:
    """Return the batch with key, count and verdict; what is computed again comes out the same.

    Without ``claims`` the verdicts are those of the entries that there are: the run's own are NEW or
    RESOLVED, others never.
    """
    bulk = BulkClaim.of(settings, run)
    judge = (
        byte_column(bulk.verdicts, "doubtless_claim")
        if claims
        else byte_column(replace(bulk, claims=False).verdicts, "doubtless_owned")
    )
    prints = [] if settings.columns.fingerprint is None else [FINGERPRINT]
    return prepared(batch, settings).withColumn(VERDICT, judge(KEY, COUNT, *prints))


def with_own_verdicts(batch: DataFrame, settings: BatchSettings, run: BatchRun) -> DataFrame:
    """Return the batch with key, partition and verdict; what is computed again comes out the same.

    The index is that of the batch's partition, wherever a task computes it: a task of a coalesced or united
    frame has another number.
    """
    keyed = batch.selectExpr(
        "*", f"{identity(settings.columns, batch.schema)} AS {KEY}", f"spark_partition_id() AS {PARTITION}"
    )
    judge = byte_column(BulkClaim.of(settings, run).own_verdicts, "doubtless_claim")
    return keyed.withColumn(VERDICT, judge(KEY, PARTITION))
