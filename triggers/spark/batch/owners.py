"""Who owns the entries of a micro-batch, so that an entry alone says what has become of its row.

A token is ``<lineage>/<batch>/<line>.<run>``: the query's checkpoint, the batch, and one run of it, which is
drawn anew whenever the driver begins the batch. Of all runs of one line the ledger knows which ones entered
the user's function; older versions wrote no line. Either rows with one uuid come together in one task, and
all tasks of a run claim under its token. Or each partition of the batch claims its own rows, under the token
``<run>#<index>``: :mod:`triggers.spark.batch.claims.partitions` says where it may not, and why. So an entry
says:

=================================  ========================================================================
it is absent, or has our token     claimed by this run, or this partition of it, be it now, by an earlier
                                   attempt of the task, by a speculative twin or by a computation that was
                                   lost: the row is NEW, unless a copy of it came before in the same pass
the token of another partition     a copy of the row is there, and is handed over: a duplicate
of this run
a token of an earlier run of the   the row comes again. When the ledger knows that the run never entered the
same batch                         user's function, the row was never handed over: it is adopted, and NEW.
                                   Else it may have been processed: ``on_replay`` and the resolver decide
anything else, STARTED, its lease  somebody else's, who is alive: it is waited for. Of two batches that wait
alive                              for each other, one gives back what it has claimed, and begins anew
anything else, STARTED             somebody else's, who is dead: In Doubt, or the resolver decides
COMPLETED                          a duplicate. Where the token is an earlier run's of the same batch, and the
                                   sink is one that is written anew, it is handed over again if the function
                                   is called at all: it gets all rows of its batch, or none
=================================  ========================================================================

A lease that an earlier run of the same batch has left is nobody's: its driver is dead, or its run is stale.
So the rows of a driver that was killed are not waited for where they come again.

That a run entered the function is noted in the ledger *before* it does, by a write that a run which was begun
anew since then is refused. So "never entered" stays true, however late the dead run's driver wakes up.

What the resolver says is NEW is claimed under a second token, ``<run>+``. Were it claimed under the first, a
partition that is computed again would find those rows to be its own, and hand them over twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import quote

from history.entry import Entry, EntryOutcome, State
from history.store import BatchOwner

#: What stands between a run and the index of a partition, and behind a run that takes rows over. No lineage
#: has such a sign, because it is quoted.
_PARTITION, _RESOLVED = "#", "+"


@dataclass(frozen=True, kw_only=True)
class BatchRun:
    """One run of a batch.

    ``entered`` are the earlier ones of its line that reached the user's function, ``unentered`` are some that
    never did, of whatever line. So many ``partitions`` claim, each under an owner of its own; where it is 0,
    all tasks claim under one. ``abandoned`` are runs of batches that nobody goes on with, because their
    checkpoint is gone. ``committed`` says that the sink has what an earlier run handed over.
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
        """Who claims what nobody has claimed."""
        return BatchOwner(self._batch + self._run)

    def owner_of(self, partition: int) -> BatchOwner:
        """Return who claims for a partition, where each has an owner of its own."""
        return BatchOwner(f"{self.owner.token}{_PARTITION}{partition}")

    def claimers(self, partitions: Iterable[int] | None = None) -> Sequence[BatchOwner]:
        """Return who may claim; where each partition has an owner, those of some, or of all."""
        if not self.partitions:
            return [self.owner]
        return [self.owner_of(one) for one in (range(self.partitions) if partitions is None else partitions)]

    def owners(
        self, *, claimed: bool, resolved: bool, partitions: Iterable[int] | None = None
    ) -> Sequence[BatchOwner]:
        """Return who owns the rows that were claimed, in these partitions, and those that were taken over."""
        claimers = list(self.claimers(partitions)) if claimed else list[BatchOwner]()
        return [*claimers, *[self.resolved_owner] * resolved]

    @property
    def resolved_owner(self) -> BatchOwner:
        """Who takes over what the resolver says is NEW."""
        return BatchOwner(self._batch + self._run + _RESOLVED)

    @property
    def _run(self) -> str:
        return self.token if self.line is None else f"{self.line}.{self.token}"

    def is_of_its_partitions(self, found: Entry) -> bool:
        """Whether a partition of this run has claimed the entry: its row is handed over, but no copy."""
        is_started = found.state is State.STARTED and found.batch
        return is_started and (found.owner or "").startswith(self.owner.token + _PARTITION)

    def as_found(self, found: Entry | None) -> Entry | None:
        """Return an entry as this run has to see it: what an earlier run has left has no lease.

        What a partition of this run has claimed is as good as done for any other copy.
        """
        if found is None:
            return None
        if self.is_of_its_partitions(found):
            return replace(found, state=State.COMPLETED, outcome=EntryOutcome.OK, lease_until=None)
        return replace(found, lease_until=None) if self.is_replayed(found) else found

    def gives_way_to(self, found: Entry) -> bool:
        """Whether an entry is of another batch for which this one must not wait with claims in its hands.

        Two that waited for each other would do so for ever. So of any two batches only the one with the
        smaller token waits.
        """
        return found.batch and _whole(found.owner or "") < self.owner.token

    def is_replayed(self, found: Entry) -> bool:
        """Whether an entry is an earlier run's of this batch, so that its row is here again."""
        return self._earlier(found) is not None

    def never_ran(self, found: Entry) -> bool:
        """Whether an entry's row was certainly not handed to the user's function."""
        earlier = self._earlier(found)
        if earlier is None:
            return any(run.never_ran(found) for run in self.abandoned)
        line, _, token = earlier.rpartition(".")
        if line and line == self.line:
            return token not in self.entered
        return token in self.unentered

    def is_handed_over(self, found: Entry) -> bool:
        """Whether an entry is this batch's, of a run that entered the user's function, or this one's own."""
        mine = found.batch and found.owner == self.owner.token
        return mine or (self.is_replayed(found) and not self.never_ran(found))

    def has_completed(self, found: Entry) -> bool:
        """Whether an entry is one that an earlier run of this batch has completed."""
        done = found.outcome is EntryOutcome.OK and found.batch
        return done and (found.owner or "").startswith(self._batch)

    def _earlier(self, found: Entry) -> str | None:
        owner = found.owner or ""
        if found.state is not State.STARTED or not found.batch or not owner.startswith(self._batch):
            return None
        run = _whole(owner)[len(self._batch) :]
        return None if run == self._run else run


def _whole(token: str) -> str:
    """Return the token of a whole run, where one is of a partition of it, or of what it has taken over."""
    return token.partition(_PARTITION)[0].removesuffix(_RESOLVED)
