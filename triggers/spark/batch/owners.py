"""The owners of the entries of a micro-batch: an entry alone says what happened to its row.

A token is ``<lineage>/<batch>/<line>.<run>``: the query's checkpoint, the batch, and one run of it. The
driver draws a new run whenever it begins the batch. The ledger knows which runs of one line entered the
user's function; older versions wrote no line. There are two cases. Rows with one uuid come together in one
task, and all tasks of a run claim under its token. Or each partition of the batch claims its own rows, under
the token ``<run>#<index>``; :mod:`triggers.spark.batch.claims.partitions` says when it may not, and why. So
an entry has these meanings:

=================================  ========================================================================
it is absent, or has our token     claimed by this run, or this partition of it: now, by an earlier attempt
                                   of the task, by a speculative twin or by a lost computation. The row is
                                   NEW, unless a copy of it came before in the same pass
the token of another partition     a copy of the row is there, and is handed over: a duplicate
of this run
a token of an earlier run of the   the row comes again. If the ledger knows that the run never entered the
same batch                         user's function, the row was never handed over: it is adopted, and NEW.
                                   Else it may have been processed: ``on_replay`` and the resolver decide
any other token, STARTED, its      another process that is alive: this run waits for it. If two batches wait
lease alive                        for each other, one releases its claims, and begins again
any other token, STARTED           another process that is dead: In Doubt, or the resolver decides
COMPLETED                          a duplicate. If the token is of an earlier run of the same batch, and the
                                   sink is rewritten, the row is handed over again if the function is called
                                   at all: it gets all rows of its batch, or none
=================================  ========================================================================

The lease of an earlier run of the same batch does not count: its driver is dead, or its run is stale. So a
batch that comes again does not wait for the rows of its killed driver.

The ledger records that a run entered the function *before* it does. If another run has begun since then, this
write is refused. So "never entered" stays true, however late the dead run's driver wakes up.

Rows that the resolver calls NEW are claimed under a second token, ``<run>+``. Under the first token, a
partition that is computed again would find those rows to be its own, and hand them over twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import quote

from history.entry import Entry, EntryOutcome, State
from history.store.owners import BatchOwner

#: Separates a run from the index of a partition, and ends a run that takes rows over. No lineage contains
#: such a sign, because it is quoted.
_PARTITION, _RESOLVED = "#", "+"


@dataclass(frozen=True, kw_only=True)
class BatchRun:
    """One run of a batch.

    ``entered`` are the earlier runs of its line that reached the user's function; ``unentered`` are some runs
    of any line that never did. ``partitions`` is the number of partitions with a separate owner; with 0, all
    tasks claim under one owner. ``abandoned`` are runs of batches that nobody continues, because their
    checkpoint is gone. ``committed`` means that the sink has the rows of an earlier run.
    """

    lineage: str
    batch: int
    token: str
    line: str | None = None
    partitions: int = 0
    entered: frozenset[str] = frozenset()
    unentered: frozenset[str] = frozenset()
    abandoned: tuple["BatchRun", ...] = ()
    committed: bool = False

    @cached_property
    def _batch(self) -> str:
        return f"{quote(self.lineage, safe='')}/{self.batch}/"

    @property
    def owner(self) -> BatchOwner:
        """The owner for rows without an entry."""
        return BatchOwner(self._batch + self._run)

    def owner_of(self, partition: int) -> BatchOwner:
        """Return the owner for a partition, if each partition has a separate owner."""
        return BatchOwner(f"{self.owner.token}{_PARTITION}{partition}")

    def claimers(self, partitions: Iterable[int] | None = None) -> Sequence[BatchOwner]:
        """Return the possible owners; if each partition has an owner, the owners of some, or of all."""
        if not self.partitions:
            return [self.owner]
        return [
            self.owner_of(index) for index in (range(self.partitions) if partitions is None else partitions)
        ]

    def owners(
        self, *, claimed: bool, resolved: bool, partitions: Iterable[int] | None = None
    ) -> Sequence[BatchOwner]:
        """Return the owners of claimed rows in these partitions, and of rows that were taken over."""
        claimers = list(self.claimers(partitions)) if claimed else list[BatchOwner]()
        return [*claimers, *[self.resolved_owner] * resolved]

    @property
    def resolved_owner(self) -> BatchOwner:
        """The owner for rows that the resolver calls NEW."""
        return BatchOwner(self._batch + self._run + _RESOLVED)

    @property
    def _run(self) -> str:
        return self.token if self.line is None else f"{self.line}.{self.token}"

    def is_of_its_partitions(self, entry: Entry) -> bool:
        """Whether a partition of this run has claimed the entry: its row is handed over, but no copy."""
        is_started = entry.state is State.STARTED and entry.batch
        return is_started and (entry.owner or "").startswith(self.owner.token + _PARTITION)

    def as_found(self, entry: Entry | None) -> Entry | None:
        """Return an entry as this run must see it: the entry of an earlier run has no lease.

        An entry of a partition of this run counts as completed for any other copy.
        """
        if entry is None:
            return None
        if self.is_of_its_partitions(entry):
            return replace(entry, state=State.COMPLETED, outcome=EntryOutcome.OK, lease_until=None)
        return replace(entry, lease_until=None) if self.is_replayed(entry) else entry

    def gives_way_to(self, entry: Entry) -> bool:
        """Whether an entry is of another batch for which this batch must not wait while it holds claims.

        Two batches that wait for each other would wait for ever. So of any two batches only the batch with
        the smaller token waits.
        """
        return entry.batch and _whole(entry.owner or "") < self.owner.token

    def is_replayed(self, entry: Entry) -> bool:
        """Whether an entry is of an earlier run of this batch, so that its row is here again."""
        return self._earlier(entry) is not None

    def never_ran(self, entry: Entry) -> bool:
        """Whether an entry's row was certainly not handed to the user's function."""
        earlier = self._earlier(entry)
        if earlier is None:
            return any(run.never_ran(entry) for run in self.abandoned)
        line, _, token = earlier.rpartition(".")
        if line and line == self.line:
            return token not in self.entered
        return token in self.unentered

    def is_handed_over(self, entry: Entry) -> bool:
        """Whether an entry is of this batch: of this run, or of a run that entered the user's function."""
        mine = entry.batch and entry.owner == self.owner.token
        return mine or (self.is_replayed(entry) and not self.never_ran(entry))

    def has_completed(self, entry: Entry) -> bool:
        """Whether an earlier run of this batch has completed an entry."""
        done = entry.outcome is EntryOutcome.OK and entry.batch
        return done and (entry.owner or "").startswith(self._batch)

    def _earlier(self, entry: Entry) -> str | None:
        owner = entry.owner or ""
        if entry.state is not State.STARTED or not entry.batch or not owner.startswith(self._batch):
            return None
        run = _whole(owner)[len(self._batch) :]
        return None if run == self._run else run


def _whole(token: str) -> str:
    """Return the token of the whole run for a token of a partition, or of rows that were taken over."""
    return token.partition(_PARTITION)[0].removesuffix(_RESOLVED)
