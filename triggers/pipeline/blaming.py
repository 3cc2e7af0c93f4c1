"""Find out why an atomic transaction did not commit, and which message is the cause.

If the database does not answer, no message is the cause: all are recovered. If it answers, the message that
was running in the transaction cannot be committed. Only this message fails, and its parked copy has the
cause. If its service ended the transaction, nobody knows what was committed: the message is In Doubt.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from history.entry import Entry, EntryOutcome, Fence, State
from history.errors import TransactionBrokenError, TransactionConflictError, UnavailableError
from history.message import UNDEFINED_COUNT, Uuid
from history.store import HistoryStore
from history.store.owners import owner_token
from triggers.detection.aftermath import Ending
from triggers.detection.table import Found, HistoryUse, Word, classify_count, decide
from triggers.pipeline.end import failed
from triggers.pipeline.finding import Finding
from triggers.pipeline.run import Run
from triggers.service.settings import Settings


class Culprit(Enum):
    """Which message is the cause."""

    NOBODY = "the history does not answer, or another transaction had precedence: give it back"
    AGAIN = "its end is known: answer it"
    MESSAGE = "it cannot be committed: record that, and park it"


class Blame(NamedTuple):
    """Finds out what happened to the messages of a transaction that did not commit. Works outside of it."""

    store: HistoryStore | None
    settings: Settings

    async def of(self, run: Run, error: Exception) -> Culprit:
        """Find out; if the run is the cause, note in it how it ended.

        Raises:
            ConfigurationError: the history also refuses this outside of the transaction.
        """
        if not run.attempts or self.store is None or run.message.uuid is None:
            return Culprit.NOBODY
        if isinstance(error, TransactionConflictError):
            return Culprit.NOBODY
        try:
            if not _has_ended(error) and run.raised is not None and self.settings.is_transient(run.raised):
                return await self._try_again(self.store, run, error)
            if isinstance(error, TransactionBrokenError) or _came_before(run):
                return await self._judge(self.store, run, error)
            return await self._try_again(self.store, run, error)
        except UnavailableError:
            return Culprit.NOBODY

    async def in_doubt(self, runs: Sequence[Run], culprits: Sequence[Run], error: Exception) -> list[Run]:
        """Return the runs that are In Doubt after a service ended the transaction that they shared.

        These are the ``culprits``, which were running when the transaction ended, and the runs that are
        committed but not completed. Runs that were claimed in the transaction and have not run are released.
        """
        if self.store is None or not isinstance(error, TransactionBrokenError):
            return []
        doubted: list[Run] = []
        with suppress(UnavailableError):  # then the leases of the remaining entries decide
            if _has_ended(error):
                verdicts = [(run, await self._judge(self.store, run, error)) for run in culprits]
                doubted += [run for run, verdict in verdicts if verdict is Culprit.MESSAGE]
            others = [run for run in runs if run not in doubted and run.owner is not None]
            doubted += await self._left_standing(self.store, others, error)
        return doubted

    async def _left_standing(self, store: HistoryStore, runs: Sequence[Run], error: Exception) -> list[Run]:
        uuids = [run.message.uuid or "" for run in runs]
        standing: list[Run] = []
        entries = await store.lookup(self.settings.name, uuids)
        for run, uuid, entry in zip(runs, uuids, entries, strict=True):
            if entry is None or entry.state is not State.STARTED or entry.owner != run.owner:
                continue
            if run.attempts:
                self._doubt(run, entry, entry.fence, error)
                standing.append(run)
            else:
                await store.release(self.settings.name, uuid, entry.fence, owner=entry.owner)
        return standing

    async def _try_again(self, store: HistoryStore, run: Run, error: Exception) -> Culprit:
        """Recover a message if its transaction lost the connection while the history answers.

        If its service did not fail transiently, this is done only once.
        """
        (entry,) = await store.lookup(self.settings.name, [run.message.uuid or ""])
        if not _has_committed(run, entry):
            run.end = failed(Ending.TRANSIENT, run.raised or error, self.settings.policy, recorded=True)
            run.note(f"its transaction did not commit: {run.text_of(error)}")
        return Culprit.AGAIN

    async def _judge(self, store: HistoryStore, run: Run, error: Exception) -> Culprit:
        plain = replace(self.settings.policy, transacted=False)
        if not plain.detect_duplicates:
            run.end = failed(Ending.FATAL, error, plain, recorded=False)
            return Culprit.MESSAGE
        name, uuid = self.settings.name, Uuid(run.message.uuid or "")
        owner, own = owner_token(), run.owner
        (claim,) = await store.claim(
            name, [uuid], owner, None, time_to_live=self.settings.history_time_to_live
        )
        earlier = claim.found
        if earlier is not None and earlier.state is State.COMPLETED:
            return Culprit.AGAIN if _has_committed(run, earlier) else Culprit.NOBODY
        ended = _has_ended(error)
        if earlier is None and not ended:
            run.finding = Finding(HistoryUse.ON, fence=claim.fence, owner=owner)
            run.end = failed(Ending.FATAL, run.raised or error, plain, recorded=True)
        elif earlier is None or earlier.owner == own:
            # The entry stays as it is, so that copies are also In Doubt.
            (entry,) = await store.lookup(name, [uuid])
            self._doubt(run, entry, claim.fence, error)
            return Culprit.MESSAGE
        else:
            return Culprit.NOBODY  # another worker runs it
        run.note(f"its transaction did not commit: {run.text_of(error)}")
        return Culprit.MESSAGE

    def _doubt(self, run: Run, entry: Entry | None, fence: Fence, error: Exception) -> None:
        """Decide about a run as if a process had died during it."""
        run.finding = Finding(HistoryUse.ON, found=entry, fence=fence)
        run.end, run.problem = None, error
        policy = self.settings.policy
        count = classify_count(run.message.delivery_count, policy.max_delivery_count)
        run.decision = decide(replace(run.facts(count, Word.NONE), found=Found.STARTED), policy)
        run.note(f"its transaction did not commit: {run.text_of(error)}")


def _has_ended(error: Exception) -> bool:
    """Whether a service ended its transaction."""
    return isinstance(error, TransactionBrokenError) and error.ended


def _came_before(run: Run) -> bool:
    """Whether this is a redelivery: a service may end its own connection each time."""
    message = run.message
    return message.delivery_count > 1 or (message.delivery_count == UNDEFINED_COUNT and message.redelivered)


def _has_committed(run: Run, entry: Entry | None) -> bool:
    """Whether the transaction was committed, and only its answer was lost."""
    return (
        entry is not None
        and entry.outcome is EntryOutcome.OK
        and run.fence is not None
        and entry.is_of(run.fence)
    )
