"""The verdicts of a whole micro-batch: claimed by the executors, decided by the decision table, in bulk.

Rows with the same uuid are brought together and sorted, so that the first one of each is the same whenever
and wherever it is computed: the one with the lowest delivery count, then with the lowest message id, then
with the lowest hash of all its columns. Only it is claimed; the others are its duplicates.

Only the identities and delivery counts travel to Python, and one small number comes back for each. The table
is asked once for each kind of row there can be, never for a row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum
from functools import cached_property

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history.entry import Entry, State
from history.message import UNDEFINED_COUNT
from history.store import PackedClaims
from triggers.detection.table import Count, Decision, Facts, Found, HistoryUse, Policy, Status, Word, decide
from triggers.pipeline.finding import found_in
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.session import REFUSALS
from triggers.spark.connections import close_history, history_at, patiently
from triggers.spark.rows.arrow import (
    Array,
    Numbers,
    byte_column,
    first_of_groups,
    firsts,
    last_of,
    numbers,
    only,
    texts,
    valid,
)
from triggers.spark.rows.columns import delivery_count, hashable, identity, quoted
from triggers.spark.rows.digests import digests_of, near
from triggers.spark.rows.fingerprints import FINGERPRINT, with_fingerprints
from triggers.spark.rows.first_bodies import FirstBodies
from triggers.spark.settings import BatchSettings

#: What is added to the user's columns while a batch is judged.
KEY, COUNT, VERDICT = "__doubtless_key", "__doubtless_count", "__doubtless_verdict"

#: How often entries that keep changing hands are claimed again.
ROUNDS = 5

#: How many tasks share a batch where neither the settings nor the session tell a number.
UNTOLD_PARTITIONS = 32


class Verdict(IntEnum):
    """What becomes of a row; from ASIDE on it is looked at once more, whole.

    ADOPTED is NEW, too: an earlier run of the batch had claimed it, or one that nobody goes on with.
    DONE is a duplicate that an earlier run of the same batch has completed, where the sink is written anew.
    RESOLVED is one that was looked at again, and that this run owns since.
    LEFT_OUT comes with a batch that the sink has committed, and is not known to have been handed to it.
    OTHER_BODY has another body than the one that came first under its uuid.
    """

    NEW = 0
    ADOPTED = 1
    DUPLICATE = 2
    DONE = 3
    ASIDE = 4
    ASKED = 5
    REPLAYED = 6
    RESOLVED = 7
    LEFT_OUT = 8
    OTHER_BODY = 9


#: Added to the verdict on the first row of a uuid, for each further one.
AGAIN = 16


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


@dataclass(frozen=True, kw_only=True)
class BulkClaim:
    """What a task needs to claim: plain values that travel with it."""

    url: str
    trigger: str
    time_to_live: timedelta
    lease: timedelta | None
    patience: timedelta
    policy: Policy
    asks: bool
    asks_replayed: bool
    executes_replayed: bool
    run: BatchRun
    closes: bool
    compares: bool = False
    claims: bool = True

    @classmethod
    def of(cls, settings: BatchSettings, run: BatchRun) -> "BulkClaim":
        """Return what the tasks of a run need of the settings."""
        return cls(
            url=settings.history,
            trigger=settings.name,
            time_to_live=settings.trigger.history_time_to_live,
            lease=settings.trigger.lease,
            patience=settings.patience,
            policy=settings.trigger.policy,
            asks=settings.resolver is not None,
            asks_replayed=settings.replay_resolver is not None,
            executes_replayed=settings.on_replay == "execute",
            run=run,
            closes=settings.claims is not None,
            compares=settings.columns.fingerprint is not None,
        )

    def verdicts(self, batches: Iterator[tuple[Array, ...]]) -> Iterator[Numbers]:
        """Yield the verdicts of one partition, whose keys are sorted."""
        bodies = FirstBodies(self.url, self.trigger, self.time_to_live, self.patience)
        last_key, last_verdict = None, None
        for keys, counts, *prints in batches:
            size, known = len(keys), valid(keys)
            groups = np.cumsum(firsts(keys, last_key))
            same = known
            if self.compares:
                same = known & ~bodies.unlike(keys, groups, numbers(prints[0]))
            found = np.where(known & ~same, Verdict.OTHER_BODY, Verdict.ASIDE).astype(np.int8)
            claimed = first_of_groups(groups, same, begun=last_verdict is not None)
            if claimed.any():
                classes = _count_classes(numbers(counts)[claimed])
                found[claimed] = self._judge(only(keys, claimed), classes)
            # Every further row of a uuid gets the verdict of its first, which may stand in the batch before.
            first_at = np.maximum.accumulate(np.where(claimed, np.arange(size), -1))
            of_first = np.where(first_at < 0, last_verdict or 0, found[first_at])
            if size and known[-1]:
                is_begun = claimed[groups == groups[-1]].any() or (
                    groups[-1] == 0 and last_verdict is not None
                )
                last_key, last_verdict = last_of(keys), int(of_first[-1]) if is_begun else None
            yield np.where(same & ~claimed, of_first + AGAIN, found).astype(np.int8)
        if self.closes:  # this worker may be idle from now on, and another one may take the next task
            close_history(self.url)

    def _judge(self, keys: Array, classes: Numbers) -> Numbers:
        """Claim uuids, none of which stands twice, and look their verdicts up."""
        if not self.claims:
            return self._of_owned(texts(keys), classes)
        verdicts: Numbers = self._table[self._kinds(keys), classes]
        return verdicts

    def _of_owned(self, uuids: Sequence[str], classes: Numbers) -> Numbers:
        """Return the verdicts on entries as they are; only the run's own are for the user's function."""
        entries = patiently(self.patience, history_at(self.url).lookup, self.trigger, uuids)
        absent = _LEFT_OUT if self.run.committed else 0
        kinds = np.array([absent if entry is None else self._kind(entry)[0] for entry in entries], np.int8)
        verdicts: Numbers = self._table[kinds, classes]
        own = np.array([self._own(entry) for entry in entries], np.int8)
        return np.where((own == Verdict.ASIDE) & (verdicts > Verdict.ADOPTED), verdicts, own)

    def _own(self, entry: Entry | None) -> Verdict:
        """Return the verdict on an entry that the run owns, and ASIDE for any other."""
        if entry is None or entry.state is not State.STARTED or not entry.batch:
            return Verdict.ASIDE
        if entry.owner == self.run.resolved_owner.token:
            return Verdict.RESOLVED
        return Verdict.NEW if entry.owner == self.run.owner.token else Verdict.ASIDE

    def _kinds(self, keys: Array) -> Numbers:
        """Claim, and return for each uuid what was found, as an index of :data:`_KINDS`."""
        kinds, store = np.zeros(len(keys), np.int8), history_at(self.url)
        uuids: Sequence[str] = ()
        if isinstance(store, PackedClaims) and not self.run.committed:
            adoptable = self._claim_packed(store, keys, kinds)
            uuids = texts(keys) if adoptable else ()
        else:
            uuids = texts(keys)
            adoptable = self._claim(uuids, range(len(uuids)), kinds)
        for left in reversed(range(ROUNDS)):
            indexes = self._adopt(uuids, adoptable) if adoptable else ()
            if not indexes:
                return kinds
            if left:
                adoptable = self._claim(uuids, indexes, kinds)
            else:
                started = _KINDS.index((Found.STARTED, False))
                kinds[list(indexes)] = _LEFT_OUT if self.run.committed else started
        return kinds

    def _claim_packed(self, store: PackedClaims, keys: Array, kinds: Numbers) -> Sequence[tuple[int, int]]:
        """Claim uuids and note what was found; return indexes and fences to adopt."""
        lines = digests_of(keys)
        order, adoptable = near(lines), list[tuple[int, int]]()
        found = patiently(
            self.patience,
            store.claim_packed,
            self.trigger,
            lines[order].tobytes(),
            self.run.owner,
            self.lease,
            time_to_live=self.time_to_live,
        )
        first = 0
        for indexes, entries in found:
            piece, of_each = order[first : first + len(indexes)], np.frombuffer(indexes, np.uint8)
            first += len(indexes)
            judged = [None if entry is None else (*self._kind(entry), entry.fence) for entry in entries]
            kinds[piece] = np.array([0 if one is None else one[0] for one in judged], np.int8)[of_each]
            for index, one in enumerate(judged):
                if one is not None and one[1]:
                    adoptable += [(int(at), one[2]) for at in piece[of_each == index]]
        return adoptable

    def _claim(
        self, uuids: Sequence[str], indexes: Sequence[int], kinds: Numbers
    ) -> Sequence[tuple[int, int]]:
        """Claim the uuids at some indexes and note what was found; return indexes and fences to adopt.

        Nothing is claimed where the sink has committed the batch: what it was not handed it will not be.
        """
        asked = uuids if len(indexes) == len(uuids) else [uuids[index] for index in indexes]
        kinds[list(indexes)] = _LEFT_OUT if self.run.committed else 0
        adoptable: list[tuple[int, int]] = []
        for index, found in zip(indexes, self._found(asked), strict=True):
            if found is None:
                continue
            kinds[index], is_adoptable = self._kind(found)
            if is_adoptable:
                adoptable.append((index, found.fence))
        return adoptable

    def _found(self, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Return the entries that stand in the way of the run; where none does, it has claimed the row."""
        store = history_at(self.url)
        if self.run.committed:
            return patiently(self.patience, store.lookup, self.trigger, uuids)
        claims = patiently(
            self.patience,
            store.claim,
            self.trigger,
            uuids,
            self.run.owner,
            self.lease,
            time_to_live=self.time_to_live,
        )
        return [claim.found for claim in claims]

    def _adopt(self, uuids: Sequence[str], adoptable: Sequence[tuple[int, int]]) -> Sequence[int]:
        """Adopt entries; return the indexes of those that changed hands meanwhile."""
        store, expected = history_at(self.url), [(uuids[index], fence) for index, fence in adoptable]
        adopted = patiently(
            self.patience, store.adopt, self.trigger, expected, self.run.owner, time_to_live=self.time_to_live
        )
        return [index for (index, _), done in zip(adoptable, adopted, strict=True) if not done]

    def _kind(self, entry: Entry) -> tuple[int, bool]:
        """Return what an entry in the way is, and whether its row is ours to adopt."""
        if entry.state is not State.STARTED:
            done = self.executes_replayed and self.run.has_completed(entry)
            return _KINDS.index((found_in(entry), done)), False
        if self.run.committed:
            was_handed_over = self.run.is_handed_over(entry)
            return (_ADOPTED, True) if was_handed_over else (_LEFT_OUT, False)
        if self.run.never_ran(entry):
            return _ADOPTED, True
        if self.run.is_replayed(entry):  # whatever lease it has: its driver is dead, or its run is stale
            return _KINDS.index((Found.STARTED, True)), self.executes_replayed
        return _KINDS.index((found_in(entry), False)), False

    @cached_property
    def _table(self) -> Numbers:
        """The verdict on each kind of row, by what was found and the class of its delivery count."""
        table = [[self._verdict(kind, count) for count in _CLASSES] for kind in _KINDS]
        ends = [Verdict.LEFT_OUT] * len(_CLASSES), [Verdict.ADOPTED] * len(_CLASSES)
        return np.array([*table, *ends], np.int8)

    def _verdict(self, kind: tuple[Found, bool], count: Count) -> int:
        found, replayed = kind
        if replayed and found is Found.COMPLETED_OK:
            return Verdict.DONE
        if replayed and self.executes_replayed:
            word = Word.NEW
        else:
            word = Word.NOT_ASKED if (self.asks_replayed if replayed else self.asks) else Word.NONE
        facts = Facts(count=count, history=HistoryUse.ON, found=found, word=word)
        decision = decide(facts, self.policy)
        if decision.ask:
            return Verdict.REPLAYED if replayed else Verdict.ASKED
        verdict = _verdict_of(decision)
        return Verdict.ADOPTED if replayed and verdict is Verdict.NEW else verdict


def _verdict_of(decision: Decision) -> Verdict:
    """Return what a decision means where nobody need look at the row again."""
    if decision.status is Status.NEW and decision.runs:
        return Verdict.NEW
    return Verdict.DUPLICATE if decision.status is Status.DUPLICATE else Verdict.ASIDE


#: What may be found of a row that is claimed, and whether its entry is an earlier run's of the same batch.
_KINDS: tuple[tuple[Found, bool], ...] = (
    (Found.NOTHING, False),
    (Found.COMPLETED_OK, False),
    (Found.COMPLETED_FAILED, False),
    (Found.STARTED, False),
    (Found.IN_PROGRESS, False),
    (Found.COMPLETED_OK, True),
    (Found.STARTED, True),
)

#: The index after these: with a batch that the sink has committed, what is not known to have been in it.
_LEFT_OUT = len(_KINDS)

#: The next index: an entry that this run takes over, of a row that it is given.
_ADOPTED = _LEFT_OUT + 1

#: The classes of delivery counts that are not over the limit.
_CLASSES = (Count.UNDEFINED, Count.FIRST, Count.AGAIN)


def _count_classes(counts: Numbers) -> Numbers:
    return np.where(counts == UNDEFINED_COUNT, 0, np.where(counts == 1, 1, 2))
