"""The driver's batch ledger: which run of a batch this is, what it does, and how it ended."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from pyspark.sql import DataFrame

from history.beside.progress import Ending, begin, change, end
from history.errors import ConfigurationError, HistoryUnavailableError
from history.store import BatchOwner
from history.store.progress import KEPT_BATCHES, BatchRecord, BatchState, Beginning
from triggers.spark.batch.owners import BatchRun
from triggers.spark.connections import history_at, patiently
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: The properties with which Spark describes a query in its thread.
_QUERY_ID, _DESCRIPTION = "sql.streaming.queryId", "spark.job.description"

#: How the token of a pseudo run begins that takes a batch over from a lost checkpoint.
_TAKEN_OVER = "left-"

#: A description begins with the query's name, if it has one.
_NAME = re.compile(r"(.*?)(?:<br/>|\n)id = ", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """The identity of a query. ``lineage`` is the id in its checkpoint, and changes with the checkpoint."""

    query: str
    lineage: str
    name: str | None = None


def identity_of(batch: DataFrame, name: str | None) -> QueryIdentity:
    """Find out which query a batch belongs to: the name given, else its queryName, else its id.

    Raises:
        ConfigurationError: no name was given, and Spark has none, for example over Spark Connect.
    """
    try:
        context = batch.sparkSession.sparkContext
        lineage = context.getLocalProperty(_QUERY_ID)
        description = context.getLocalProperty(_DESCRIPTION) or ""
    except Exception:  # noqa: BLE001  (Spark Connect has no context, and says so in many ways)
        lineage, description = None, ""
    if lineage is None:
        if name is None:
            raise ConfigurationError(
                "query", "Spark does not say which query this batch is of", "give query='a name'"
            )
        return QueryIdentity(name, name, name)
    named = name or (match[1] if (match := _NAME.match(description)) else None)
    return QueryIdentity(named or lineage, lineage, named)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The batch ledger of one ``foreach_batch``."""

    settings: BatchSettings

    def begin(self, identity: QueryIdentity, batch_id: int) -> tuple[BatchRecord, Sequence[str]]:
        """Begin a run of a batch; return its record, and notes for the user.

        Raises:
            ConfigurationError: the checkpoint was reset, and ``on_reset`` is "raise".
        """
        progress, name = history_at(self.settings.history).progress, self.settings.name
        latest = patiently(self.settings.patience, progress.latest, name)
        notes = [*self._resets(identity, batch_id, latest)]
        query = self._begun_under(identity, batch_id, latest)
        if query != identity.query:
            notes.append(f"begun under the name {query}, which the query had then")
        beginning = Beginning(
            query=query, batch=batch_id, lineage=identity.lineage, run=uuid4().hex[:12], name=identity.name
        )
        beginning = replace(beginning, restored=self._is_restored(beginning, latest))
        record = patiently(self.settings.patience, begin, progress, name, beginning, datetime.now(UTC))
        if record.attempt > 1:
            notes.append(f"run {record.attempt} of this batch")
        return record, notes

    def _is_restored(self, beginning: Beginning, latest: Sequence[BatchRecord]) -> bool:
        """Whether a later batch was the last, or the batch before has begun again since this one.

        Spark repeats only its last batch. So the checkpoint was restored.
        """
        own = (last for last in latest if last.query == beginning.query)
        if any(last.lineage == beginning.lineage and last.batch > beginning.batch for last in own):
            return True
        earlier = self._read(beginning.query, beginning.batch)
        if earlier is None or earlier.lineage != beginning.lineage:
            return False
        before = self._read(beginning.query, beginning.batch - 1)
        return (
            before is not None
            and before.lineage == beginning.lineage
            and before.started_at > earlier.started_at
        )

    def _begun_under(self, identity: QueryIdentity, batch_id: int, latest: Sequence[BatchRecord]) -> str:
        """Return the name under which a batch was begun: a query may be renamed, and keep its checkpoint."""
        own = [last for last in latest if last.lineage == identity.lineage and last.batch >= batch_id]
        if any(last.query == identity.query for last in own):
            return identity.query
        for last in own:
            record = self._read(last.query, batch_id)
            if record is not None and record.lineage == identity.lineage:
                return last.query
        return identity.query

    def _read(self, query: str, batch_id: int) -> BatchRecord | None:
        progress = history_at(self.settings.history).progress
        return patiently(self.settings.patience, progress.read, self.settings.name, query, batch_id)

    def was_completed(self, identity: QueryIdentity, batch_id: int) -> bool:
        """Whether the last run of a batch has completed it; call this before another run begins."""
        record = self._read(identity.query, batch_id)
        if record is None or record.lineage != identity.lineage:  # else it is another batch of this number
            return False
        return record.state in {BatchState.COMPLETED, BatchState.FAILED}

    def abandoned(self, identity: QueryIdentity) -> tuple[BatchRun, ...]:
        """Take over the batches that a lost checkpoint has left before their function was entered.

        Their runs can enter the function no more, so their rows have certainly not run. If a reset fails the
        query, nothing is taken over.
        """
        if self.settings.on_reset == "raise":
            return ()
        progress, name = history_at(self.settings.history).progress, self.settings.name
        patience = self.settings.patience
        records = patiently(patience, progress.batches, name, identity.query, limit=KEPT_BATCHES)
        return tuple(
            run_of(self._taken_over(record))
            for record in records
            if record.lineage != identity.lineage and record.state is BatchState.CLAIMING
        )

    def _taken_over(self, record: BatchRecord) -> BatchRecord:
        if record.run.startswith(_TAKEN_OVER):
            return record
        _log.warning(
            "batch %s of %s never came to its function, and its checkpoint %s is gone: its rows are NEW",
            record.batch,
            record.query,
            record.lineage,
            extra={"trigger": self.settings.name},
        )
        beginning = Beginning(
            query=record.query,
            batch=record.batch,
            lineage=record.lineage,
            run=_TAKEN_OVER + uuid4().hex[:12],
            name=record.name,
        )
        progress, now = history_at(self.settings.history).progress, datetime.now(UTC)
        return patiently(self.settings.patience, begin, progress, self.settings.name, beginning, now)

    def note(self, record: BatchRecord, state: BatchState, counts: dict[str, int] | None = None) -> None:
        """Record the present step of a run.

        Raises:
            StaleRunError: another run of the batch has begun since.
        """
        progress, name = history_at(self.settings.history).progress, self.settings.name
        now = datetime.now(UTC)
        patiently(self.settings.patience, change, progress, name, record, state, now, counts)

    def end(self, record: BatchRecord, owners: Sequence[BatchOwner], ending: Ending) -> None:
        """Complete or release the entries of a run, and record it, with one write.

        Raises:
            StaleRunError: another run of the batch has begun since.
            HistoryUnavailableError: it stayed unavailable, or has forgotten the claims.
        """
        store, now = history_at(self.settings.history), datetime.now(UTC)
        name, patience = self.settings.name, self.settings.patience
        if patiently(patience, end, store, store.progress, name, record, owners, ending, now) is None:
            raise HistoryUnavailableError(f"settling run {record.run}: it has forgotten what was claimed")

    def give_back(self, record: BatchRecord, owners: Sequence[BatchOwner]) -> None:
        """Release the entries of a run that never entered the user's function, and never will.

        Raises:
            StaleRunError: another run of the batch has begun since.
        """
        self.end(record, owners, Ending(outcome=None, state=BatchState.CLAIMING))

    def _resets(self, identity: QueryIdentity, batch_id: int, latest: Sequence[BatchRecord]) -> Sequence[str]:
        """Return a note if batch ids went back."""
        own = [last for last in latest if last.query == identity.query]
        if any(last.lineage == identity.lineage for last in own):
            back = [last for last in own if batch_id < last.batch]
        else:
            nameless = [last for last in latest if last.name is None] if identity.name is None else []
            back = [last for last in own or nameless if batch_id <= last.batch]
        return [self._report_reset(identity, batch_id, last) for last in back[:1]]

    def _report_reset(self, identity: QueryIdentity, batch_id: int, last: BatchRecord) -> str:
        old = last.lineage == identity.lineage
        what = "an older state of its checkpoint" if old else f"a new checkpoint ({identity.lineage})"
        when = f"{last.changed_at:%Y-%m-%d %H:%M}Z"
        problem = (
            f"batch {batch_id} of query {identity.query} comes from {what}, "
            f"but batch {last.batch} (checkpoint {last.lineage}) was there on {when}"
        )
        remembered = self.settings.trigger.history_time_to_live
        remedy = (
            "rows that the history remembers are duplicates and do not run again; rows from before its "
            f"history_time_to_live ({remembered}) would: let the source start after them, or restore the "
            "checkpoint. For a second query, set another queryName"
        )
        if self.settings.on_reset == "raise":
            raise ConfigurationError("checkpoint", problem, f"{remedy}. on_reset='warn' lets it go on")
        _log.warning("%s: %s", problem, remedy, extra={"trigger": self.settings.name})
        return f"{problem}: {remedy}"


def run_of(record: BatchRecord) -> BatchRun:
    """Return the run of a record, as the executors know it."""
    return BatchRun(
        lineage=record.lineage,
        batch=record.batch,
        token=record.run,
        line=record.line,
        entered=frozenset(record.entered),
        unentered=frozenset(record.unentered),
    )
