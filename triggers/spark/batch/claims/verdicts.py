"""The batch with its verdicts: which rows come together, in which order, and which task claims them.

There are two ways; :mod:`triggers.spark.batch.claims.partitions` chooses between them:

- Rows with the same uuid are brought together and sorted, so that the first row of each uuid is the same in
  every computation: the row with the lowest delivery count, then with the lowest message id, then with the
  lowest hash of all its columns. Only this row is claimed; the others are its duplicates.
- Rows stay where they are, and each partition claims its own rows under a separate owner. If several rows
  have one uuid, the row that is claimed first counts; in one partition, the first row.

Only the identities, with delivery counts or partitions, travel to Python, and one small number comes back for
each. :class:`ClaimTerms` has the verdict on each finding, as the decision table decides it on the driver.
"""

from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.identity import UNDEFINED_COUNT
from triggers.detection.facts import Count, Found, HistoryUse, Word
from triggers.detection.table import Decision, Facts, Policy, Status, decide
from triggers.spark.batch.claims.bulk import BulkClaim
from triggers.spark.batch.claims.findings import KINDS, RowVerdict
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.session import REFUSALS
from triggers.spark.rows.arrow import Numbers, byte_column
from triggers.spark.rows.columns import delivery_count, hashable, identity, quoted
from triggers.spark.rows.fingerprints import FINGERPRINT, with_fingerprints
from triggers.spark.settings import BatchSettings

#: Columns that are added to the user's columns while a batch is judged.
KEY, COUNT, VERDICT = "__doubtless_key", "__doubtless_count", "__doubtless_verdict"

#: The index of the row's partition, if each partition has a separate owner.
PARTITION = "__doubtless_partition"

#: How many tasks share a batch if neither the settings nor the session give a number.
UNTOLD_PARTITIONS = 32

#: The classes of delivery counts that are not over the limit.
_CLASSES = (Count.UNDEFINED, Count.FIRST, Count.AGAIN)


@dataclass(frozen=True, kw_only=True)
class ClaimTerms:
    """The other inputs of the verdicts: the policy, whether there is a resolver, what comes again."""

    policy: Policy
    asks: bool
    asks_replayed: bool
    executes_replayed: bool

    def table(self) -> Numbers:
        """Return the verdict on each kind of row, by the finding and the class of its delivery count."""
        table = [[self._verdict(finding, count) for count in _CLASSES] for finding in KINDS]
        ends = [RowVerdict.LEFT_OUT] * len(_CLASSES), [RowVerdict.ADOPTED] * len(_CLASSES)
        return np.array([*table, *ends], np.int8)

    def _verdict(self, finding: tuple[Found, bool], count: Count) -> int:
        history, replayed = finding
        if replayed and history is Found.COMPLETED_OK:
            return RowVerdict.DONE
        if replayed and self.executes_replayed:
            word = Word.NEW
        else:
            word = Word.NOT_ASKED if (self.asks_replayed if replayed else self.asks) else Word.NONE
        facts = Facts(count=count, history=HistoryUse.ON, found=history, word=word)
        decision = decide(facts, self.policy)
        if decision.ask:
            return RowVerdict.REPLAYED if replayed else RowVerdict.ASKED
        verdict = _verdict_of(decision)
        return RowVerdict.ADOPTED if replayed and verdict is RowVerdict.NEW else verdict


def _verdict_of(decision: Decision) -> RowVerdict:
    """Return the verdict for a decision, if the row needs no second look."""
    if decision.status is Status.NEW and decision.runs:
        return RowVerdict.NEW
    return RowVerdict.DUPLICATE if decision.status is Status.DUPLICATE else RowVerdict.ASIDE


def prepared(batch: DataFrame, settings: BatchSettings) -> DataFrame:
    """Return the batch with key and count, the rows of each uuid together and in their order.

    The key is the identity for the history; it is null for a row without a lookup.
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

    Rows without a key need not come together; otherwise one task would get all of them.
    """
    key = F.coalesce(F.col(KEY), _whole(rows).cast("string"))
    return rows.repartition(claim_count(rows, settings), key)


def _whole(rows: DataFrame) -> Column:
    return F.expr(f"xxhash64({', '.join(hashable(rows.schema))})")


def claim_count(batch: DataFrame, settings: BatchSettings) -> int:
    """Return how many tasks claim the rows of a batch."""
    return task_count(batch, settings) if settings.claims is None else settings.claims


def task_count(batch: DataFrame, settings: BatchSettings) -> int:
    """Return how many tasks share a batch: one for each core, unless the settings give a number.

    Spark's own number is ``spark.sql.shuffle.partitions``, which is 200 by default. In a streaming query
    nothing adapts it to the size of a batch, and a small batch would need ten seconds to start tasks.
    """
    if settings.partitions is not None:
        return settings.partitions
    spark = batch.sparkSession
    configured = spark.conf.get("spark.sql.shuffle.partitions") or ""
    most = int(configured) if configured.isdecimal() else UNTOLD_PARTITIONS  # "auto", on Databricks
    try:
        return min(most, spark.sparkContext.defaultParallelism)
    except REFUSALS:  # Spark Connect does not have it
        return most


def with_verdicts(
    batch: DataFrame, settings: BatchSettings, run: BatchRun, *, claims: bool = True
) -> DataFrame:
    """Return the batch with key, count and verdict; a second computation gives the same.

    Without ``claims`` the verdicts come from the existing entries: the run's own rows are NEW or RESOLVED,
    others never are.
    """
    bulk = _bulk_claim(settings, run)
    judge = (
        byte_column(bulk.verdicts, "doubtless_claim")
        if claims
        else byte_column(replace(bulk, claims=False).verdicts, "doubtless_owned")
    )
    prints = [] if settings.columns.fingerprint is None else [FINGERPRINT]
    return prepared(batch, settings).withColumn(VERDICT, judge(KEY, COUNT, *prints))


def with_own_verdicts(batch: DataFrame, settings: BatchSettings, run: BatchRun) -> DataFrame:
    """Return the batch with key, partition and verdict; a second computation gives the same.

    The index is the index of the batch's partition, wherever a task computes it: a task of a coalesced or
    united frame has another number.
    """
    keyed = batch.selectExpr(
        "*", f"{identity(settings.columns, batch.schema)} AS {KEY}", f"spark_partition_id() AS {PARTITION}"
    )
    judge = byte_column(_bulk_claim(settings, run).own_verdicts, "doubtless_claim")
    return keyed.withColumn(VERDICT, judge(KEY, PARTITION))


def _bulk_claim(settings: BatchSettings, run: BatchRun) -> BulkClaim:
    """Return the values that the tasks of a run need from the settings."""
    executes = settings.on_replay == "execute"
    terms = ClaimTerms(
        policy=settings.trigger.policy,
        asks=settings.resolver is not None,
        asks_replayed=settings.replay_resolver is not None,
        executes_replayed=executes,
    )
    return BulkClaim(
        url=settings.history,
        trigger=settings.name,
        time_to_live=settings.trigger.history_time_to_live,
        lease=settings.trigger.lease,
        patience=settings.patience,
        table=terms.table(),
        executes_replayed=executes,
        run=run,
        closes=settings.claims is not None,
        compares=settings.columns.fingerprint is not None,
    )
