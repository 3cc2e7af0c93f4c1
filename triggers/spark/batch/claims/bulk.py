"""The work of a task with the identities of a partition: claim them and look up their verdicts, in bulk.

The table is used once for each kind of row that can occur, never for each row.

Every Python worker imports this module, before its first row. So it imports little: a test lists it.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from history.entry import Entry, State
from history.store.history import PackedClaims
from history.store.owners import BatchOwner
from triggers.detection.facts import Found
from triggers.pipeline.finding import found_in
from triggers.spark.batch.claims.findings import ADOPTED, AGAIN, KINDS, LEFT_OUT, RowVerdict, classes_of
from triggers.spark.batch.owners import BatchRun
from triggers.spark.connections import close_history, history_at, patiently
from triggers.spark.rows.arrow import (
    Array,
    Numbers,
    first_of_groups,
    firsts,
    last_of,
    numbers,
    only,
    texts,
    valid,
)
from triggers.spark.rows.digests import MetDigests, digests_of, first_of_each, near

if TYPE_CHECKING:
    from triggers.spark.rows.fingerprints import FirstBodies

Given = TypeVar("Given")
Made = TypeVar("Made")

#: How often entries that keep changing hands are claimed again.
ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class BulkClaim:
    """The plain values that a task needs to claim, and that travel with it.

    ``table`` has the verdict on each kind of row, as
    :class:`~triggers.spark.batch.claims.verdicts.ClaimTerms` makes it.
    ``partition`` is the claiming partition, if each partition has a separate owner.
    """

    url: str
    trigger: str
    time_to_live: timedelta
    lease: timedelta | None
    patience: timedelta
    table: Numbers
    executes_replayed: bool
    run: BatchRun
    closes: bool
    compares: bool = False
    claims: bool = True
    partition: int | None = None

    def verdicts(self, batches: Iterator[tuple[Array, ...]]) -> Iterator[Numbers]:
        """Yield the verdicts of one partition by keys, counts and maybe fingerprints; the keys are sorted."""
        bodies = self._first_bodies() if self.compares else None
        last_key, last_verdict = None, None
        for keys, counts, *prints in batches:
            size, named = len(keys), valid(keys)
            groups = np.cumsum(firsts(keys, last_key))
            same = named
            if bodies is not None:
                same = named & ~bodies.unlike(keys, groups, numbers(prints[0]))
            verdicts = np.where(named & ~same, RowVerdict.OTHER_BODY, RowVerdict.ASIDE).astype(np.int8)
            claimed = first_of_groups(groups, same, begun=last_verdict is not None)
            if claimed.any():
                classes = classes_of(numbers(counts)[claimed])
                verdicts[claimed] = self._judge(only(keys, claimed), classes)
            # Every further row of a uuid gets the verdict of its first row, which may be in the batch before.
            first_at = np.maximum.accumulate(np.where(claimed, np.arange(size), -1))
            of_first = np.where(first_at < 0, last_verdict or 0, verdicts[first_at])
            if size and named[-1]:
                is_begun = claimed[groups == groups[-1]].any() or (
                    groups[-1] == 0 and last_verdict is not None
                )
                last_key, last_verdict = last_of(keys), int(of_first[-1]) if is_begun else None
            yield np.where(same & ~claimed, of_first + AGAIN, verdicts).astype(np.int8)
        if self.closes:  # this worker may be idle now, and another worker may take the next task
            close_history(self.url)

    def _first_bodies(self) -> "FirstBodies":
        from triggers.spark.rows.fingerprints import FirstBodies  # noqa: PLC0415  (few batches compare bodies)

        return FirstBodies(self.url, self.trigger, self.time_to_live, self.patience)

    def own_verdicts(self, batches: Iterator[tuple[Array, ...]]) -> Iterator[Numbers]:
        """Yield the verdicts of one partition with a separate owner, by keys and its index.

        The keys come in any order. So the keys of rows for the function are remembered. If an entry has the
        token of this partition, either another computation of the partition has claimed the row, or a copy of
        the row in this computation has.
        """
        met, own = MetDigests(), self

        def hashed(columns: tuple[Array, ...]) -> tuple[Array, Numbers, Numbers, Numbers]:
            keys, partitions = columns
            named = valid(keys)
            known = keys if named.all() else only(keys, named)
            return known, digests_of(known), named, numbers(partitions)

        def judge(columns: tuple[Array, Numbers, Numbers, Numbers]) -> Numbers:
            nonlocal own
            known, lines, named, partitions = columns
            verdicts = np.full(len(named), RowVerdict.ASIDE, np.int8)
            if len(lines):
                own = own._in_partition(partitions)
                verdicts[named] = own._of_any_order(known, lines, met)  # noqa: SLF001
            return verdicts

        # Hashes a batch while the batch before is claimed.
        yield from one_ahead(judge, map(hashed, batches))

    def _in_partition(self, indexes: Numbers) -> "BulkClaim":
        """Return a claim under the owner of the partition that has these rows.

        Raises:
            ValueError: they are of several partitions, which Spark never does: rows would be lost.
        """
        (index,) = np.unique(indexes)
        if self.partition not in {None, index}:
            raise ValueError(f"rows of partition {index} among those of partition {self.partition}")
        return self if self.partition is not None else replace(self, partition=int(index))

    def _of_any_order(self, keys: Array, lines: Numbers, met: MetDigests) -> Numbers:
        """Judge rows of a partition; copies of a row for the function are duplicates of it."""
        firsts_at = first_of_each(lines)
        asked = firsts_at == np.arange(len(lines))
        asked[asked] = ~met.has(lines[asked])
        verdicts = np.full(len(lines), RowVerdict.NEW + AGAIN, np.int8)
        if asked.any():
            mine = lines if asked.all() else lines[asked]
            counts = np.zeros(len(mine), np.int8)  # of the first class: no column has delivery counts
            verdicts[asked] = self.table[self._kinds(mine, lambda: texts(only(keys, asked))), counts]
            met.add(lines[asked & (verdicts <= RowVerdict.ADOPTED)])
        copies = ~asked & (firsts_at != np.arange(len(lines)))
        verdicts[copies] = verdicts[firsts_at[copies]] % AGAIN + AGAIN
        return verdicts

    def _judge(self, keys: Array, classes: Numbers) -> Numbers:
        """Claim different uuids, and look up their verdicts."""
        if not self.claims:
            return self._of_owned(texts(keys), classes)
        verdicts: Numbers = self.table[self._kinds(digests_of(keys), lambda: texts(keys)), classes]
        return verdicts

    def _of_owned(self, uuids: Sequence[str], classes: Numbers) -> Numbers:
        """Return the verdicts on existing entries; only the run's own rows are for the user's function."""
        entries = patiently(self.patience, history_at(self.url).lookup, self.trigger, uuids)
        absent = LEFT_OUT if self.run.committed else 0
        kinds = np.array([absent if entry is None else self._kind(entry)[0] for entry in entries], np.int8)
        verdicts: Numbers = self.table[kinds, classes]
        own = np.array([self._own(entry) for entry in entries], np.int8)
        return np.where((own == RowVerdict.ASIDE) & (verdicts > RowVerdict.ADOPTED), verdicts, own)

    def _own(self, entry: Entry | None) -> RowVerdict:
        """Return the verdict on an entry that the run owns, and ASIDE for any other."""
        if entry is None or entry.state is not State.STARTED or not entry.batch:
            return RowVerdict.ASIDE
        if entry.owner == self.run.resolved_owner.token:
            return RowVerdict.RESOLVED
        return RowVerdict.NEW if entry.owner == self._owner.token else RowVerdict.ASIDE

    def _kinds(self, lines: Numbers, named: Callable[[], Sequence[str]]) -> Numbers:
        """Claim digests; return the finding for each, as an index of :data:`KINDS`.

        ``named`` returns their uuids, which are seldom needed.
        """
        kinds, store = np.zeros(len(lines), np.int8), history_at(self.url)
        uuids: Sequence[str] = ()
        if isinstance(store, PackedClaims) and not self.run.committed:
            adoptable = self._claim_packed(store, lines, kinds)
            uuids = named() if adoptable else ()
        else:
            uuids = named()
            adoptable = self._claim(uuids, range(len(uuids)), kinds)
        for left in reversed(range(ROUNDS)):
            indexes = self._adopt(uuids, adoptable) if adoptable else ()
            if not indexes:
                return kinds
            if left:
                adoptable = self._claim(uuids, indexes, kinds)
            else:
                started = KINDS.index((Found.STARTED, False))
                kinds[list(indexes)] = LEFT_OUT if self.run.committed else started
        return kinds

    def _claim_packed(self, store: PackedClaims, lines: Numbers, kinds: Numbers) -> Sequence[tuple[int, int]]:
        """Claim digests and note the findings; return indexes and fences to adopt."""
        order, adoptable = near(lines), list[tuple[int, int]]()
        answers = patiently(
            self.patience,
            store.claim_packed,
            self.trigger,
            lines[order].tobytes(),
            self._owner,
            self.lease,
            time_to_live=self.time_to_live,
        )
        first = 0
        for indexes, entries in answers:
            piece, of_each = order[first : first + len(indexes)], np.frombuffer(indexes, np.uint8)
            first += len(indexes)
            judged = [None if entry is None else (*self._kind(entry), entry.fence) for entry in entries]
            kinds[piece] = np.array(
                [0 if judgement is None else judgement[0] for judgement in judged], np.int8
            )[of_each]
            for index, judgement in enumerate(judged):
                if judgement is not None and judgement[1]:
                    adoptable += [(int(at), judgement[2]) for at in piece[of_each == index]]
        return adoptable

    def _claim(
        self, uuids: Sequence[str], indexes: Sequence[int], kinds: Numbers
    ) -> Sequence[tuple[int, int]]:
        """Claim the uuids at some indexes and note the findings; return indexes and fences to adopt.

        If the sink has committed the batch, nothing is claimed: the sink will not get further rows.
        """
        asked = uuids if len(indexes) == len(uuids) else [uuids[index] for index in indexes]
        kinds[list(indexes)] = LEFT_OUT if self.run.committed else 0
        adoptable: list[tuple[int, int]] = []
        for index, entry in zip(indexes, self._found(asked), strict=True):
            if entry is None:
                continue
            kinds[index], is_adoptable = self._kind(entry)
            if is_adoptable:
                adoptable.append((index, entry.fence))
        return adoptable

    def _found(self, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Return the existing entries of others; without such an entry, the run has claimed the row."""
        store = history_at(self.url)
        if self.run.committed:
            return patiently(self.patience, store.lookup, self.trigger, uuids)
        claims = patiently(
            self.patience,
            store.claim,
            self.trigger,
            uuids,
            self._owner,
            self.lease,
            time_to_live=self.time_to_live,
        )
        return [claim.found for claim in claims]

    def _adopt(self, uuids: Sequence[str], adoptable: Sequence[tuple[int, int]]) -> Sequence[int]:
        """Adopt entries; return the indexes of entries that changed hands meanwhile."""
        store, expected = history_at(self.url), [(uuids[index], fence) for index, fence in adoptable]
        adopted = patiently(
            self.patience, store.adopt, self.trigger, expected, self._owner, time_to_live=self.time_to_live
        )
        return [index for (index, _), done in zip(adoptable, adopted, strict=True) if not done]

    def _kind(self, entry: Entry) -> tuple[int, bool]:
        """Return the kind of an existing entry, and whether this run may adopt its row."""
        if self.partition is not None and self.run.is_of_its_partitions(entry):  # another partition
            return KINDS.index((Found.COMPLETED_OK, False)), False
        if entry.state is not State.STARTED:
            done = self.executes_replayed and self.run.has_completed(entry)
            return KINDS.index((found_in(entry), done)), False
        if self.run.committed:
            was_handed_over = self.run.is_handed_over(entry)
            return (ADOPTED, True) if was_handed_over else (LEFT_OUT, False)
        if self.run.never_ran(entry):
            return ADOPTED, True
        if self.run.is_replayed(entry):  # whatever lease it has: its driver is dead, or its run is stale
            return KINDS.index((Found.STARTED, True)), self.executes_replayed
        return KINDS.index((found_in(entry), False)), False

    @property
    def _owner(self) -> BatchOwner:
        return self.run.owner if self.partition is None else self.run.owner_of(self.partition)


def one_ahead(work: Callable[[Given], Made], items: Iterator[Given]) -> Generator[Made]:
    """Yield the result for each item, in order; one thread works on an item while the next item arrives.

    At most one item waits for the thread. If the work on an item fails, its error is raised in its place.
    """
    with ThreadPoolExecutor(1, "doubtless-claims") as thread:
        begun: Future[Made] | None = None
        for item in items:
            following = thread.submit(work, item)
            if begun is not None:
                yield begun.result()
            begun = following
        if begun is not None:
            yield begun.result()
