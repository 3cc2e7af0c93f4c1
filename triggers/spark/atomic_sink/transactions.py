"""The tasks of an atomic sink: claim rows, write them and complete their entries in one transaction.

A transaction has at most some thousand rows, so that no lock is held for long and no task needs much memory.
Each transaction is complete: a killed task leaves whole transactions behind. Its next attempt, its
speculative twin or the next run of the batch finds their rows COMPLETED.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from history.beside.fingerprints import NO_FENCE
from history.beside.kept import beside_of
from history.entry import Claim, Entry, EntryOutcome, Fence, Settlement, State, digest
from history.errors import HistoryUnavailableError, TransactionConflictError, UnavailableError
from history.message import Uuid
from history.store import BatchOwner, HistoryStore
from resolvers.resolution import Asked
from triggers.detection.aftermath import Ending
from triggers.detection.table import Answer, HistoryUse, Status
from triggers.pipeline.bodies import keeper_of, lasting_for, note_other_body
from triggers.pipeline.end import failed
from triggers.pipeline.finding import Finding
from triggers.pipeline.judge import Judge
from triggers.pipeline.run import Run
from triggers.service.failures import FatalError
from triggers.spark.atomic_sink.writers import RowsWriter
from triggers.spark.batch.claims.verdicts import KEY
from triggers.spark.connections import history_at, patiently
from triggers.spark.rows.arrow import OddArrowRow, RecordBatch, record_batch, rows_of
from triggers.spark.rows.columns import users_of
from triggers.spark.rows.fingerprints import FINGERPRINT, NOTHING, bytes_of
from triggers.spark.rows.messages import message_of_keyed
from triggers.spark.settings import BatchSettings

if TYPE_CHECKING:
    from history.sql.history import SqlHistory
    from history.sql.transaction import SqlTransaction

#: What a task counts; ``keyless`` rows have no identity or no delivery count, and the driver judges them.
COUNTS = ("new", "duplicate", "in_doubt", "rejected", "keyless")

#: The result of a task: counts, and the events of rows that were given up.
RESULT = StructType(
    [
        *(StructField(name, LongType()) for name in COUNTS),
        StructField("events", ArrayType(StringType())),
    ]
)

Values = dict[str, Any]


class TransactionTally(Counter[str]):
    """Counts of rows by :data:`COUNTS`, and the events of rows that were given up."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def add(self, other: "TransactionTally") -> None:
        """Add the counts and events of another tally."""
        self.update(other)
        self.events += other.events

    def result(self) -> tuple[Any, ...]:
        """Return the row of :data:`RESULT`."""
        return (*(self[name] for name in COUNTS), self.events)


class InProgressError(UnavailableError):
    """Another running process has a row: look at it again later."""

    def __init__(self, uuid: str | None) -> None:
        super().__init__(f"the row {uuid}", "somebody else, who is alive, processes it")


@dataclass(frozen=True, kw_only=True)
class SinkTask:
    """The plain values and functions that a task needs, and that travel with it.

    ``token`` begins the tokens of all attempts of the batch.
    """

    batch: BatchSettings
    write: RowsWriter
    resolver: Asked | None
    rows: int
    token: str

    def partition(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Write the rows of one partition, with the rows of each uuid next to each other; yield the tally."""
        context = TaskContext.get()
        mine = f"{self.token}/{0 if context is None else context.partitionId()}."
        tally, before = TransactionTally(), None
        for rows in _pieces(batches, self.rows):
            chunk = Chunk(self, rows, mine, before)
            tally.add(patiently(self.batch.patience, chunk.write))
            before = rows[-1][KEY]
        yield record_batch([tally.result()], RESULT)


@dataclass(slots=True)
class Chunk:
    """The rows of one transaction. ``before`` is the uuid of the row before them."""

    of: SinkTask
    rows: Sequence[Values]
    mine: str
    before: str | None
    tally: TransactionTally = field(default_factory=TransactionTally)
    #: The fingerprint that came first, by the index of a row that has another one.
    unlike: dict[int, bytes] = field(default_factory=dict[int, bytes])

    async def write(self) -> TransactionTally:
        """Do all of it, or nothing; may be called again after any error.

        Raises:
            UnavailableError: another try may succeed.
            Exception: the exception of the writer.
        """
        history = cast("SqlHistory", history_at(self.of.batch.history))
        self.tally = TransactionTally()
        # Before the transaction begins: a stored fingerprint outlives it.
        self.unlike = await self._compare(history)
        async with await history.transaction() as transaction:
            await self._inside(transaction)
        return self.tally

    async def _inside(self, transaction: "SqlTransaction") -> None:
        store, owner = transaction.history, BatchOwner(self.mine + uuid4().hex)
        judge = Judge(
            settings=self.of.batch.trigger, store=store, resolver=self.of.resolver, inside=True, batch=owner
        )
        claims = await self._claim(store, owner)
        new: dict[str, Values] = {}
        seen = {self.before or ""}
        for index, row in enumerate(self.rows):
            uuid: str | None = row[KEY]
            if uuid is None:
                self.tally["keyless"] += 1
                continue
            if index in self.unlike:
                await self._refuse_body(judge, row, self.unlike[index])
                continue
            if uuid in seen and (uuid in new or not _is_open(claims[uuid].found)):
                self.tally["duplicate"] += 1
            elif claims[uuid].found is None or await self._judged(judge, row, claims[uuid]):
                new[uuid] = row
            seen.add(uuid)
        failed = await self._hand_over(transaction, list(new.values()))
        await self._give_up(judge, failed)
        self.tally["new"] += len(new) - len(failed)
        if claims and not await store.settle_batch(
            self.of.batch.trigger.name, owner, EntryOutcome.OK if new else None
        ):
            raise HistoryUnavailableError("completing a transaction's rows: it has forgotten them")

    async def _claim(self, store: HistoryStore, owner: BatchOwner) -> dict[str, Claim]:
        """Claim all uuids in one order, in which no two transactions can wait for each other."""
        same = (row[KEY] for index, row in enumerate(self.rows) if index not in self.unlike)
        uuids = sorted({key for key in same if key is not None}, key=digest)
        claims = await store.claim(
            self.of.batch.trigger.name, uuids, owner, time_to_live=self.of.batch.trigger.history_time_to_live
        )
        return dict(zip(uuids, claims, strict=True))

    async def _compare(self, history: HistoryStore) -> dict[int, bytes]:
        """Find the rows that do not have the first body of their uuid."""
        if self.of.batch.columns.fingerprint is None:
            return {}
        compared = [
            (index, row[KEY], bytes_of(row[FINGERPRINT]))
            for index, row in enumerate(self.rows)
            if row[KEY] is not None and row[FINGERPRINT] != NOTHING
        ]
        bodies = [(uuid, mine) for _, uuid, mine in compared]
        settings, kept = self.of.batch.trigger, keeper_of(history)
        lasting = lasting_for(settings.history_time_to_live)
        firsts = await kept.first_of_each(settings.name, bodies, lasting)
        return {
            index: first for (index, _, mine), first in zip(compared, firsts, strict=True) if first != mine
        }

    async def _refuse_body(self, judge: Judge, row: Values, first: bytes) -> None:
        """Reject a row that has the uuid of another row and another body."""
        run = self._run(row, Claim(None, Fence(NO_FENCE)))
        note_other_body(run, bytes_of(row[FINGERPRINT]), first)
        await judge.judge(run)
        self.tally["rejected"] += 1
        await self._put_aside(judge, [run])

    async def _judged(self, judge: Judge, row: Values, claim: Claim) -> bool:
        """Decide about a row with an existing entry; return whether it is to be written."""
        entry = claim.found
        if entry is not None and entry.state is State.COMPLETED and (entry.owner or "").startswith(self.mine):
            self._count_again(row, entry)
            return False
        run = self._run(row, claim)
        decision = await judge.judge(run)
        if decision.answer is Answer.RECOVER_LATER:
            raise InProgressError(run.message.uuid)
        if decision.runs:
            return True
        if decision.status is Status.DUPLICATE:
            self.tally["duplicate"] += 1
        elif decision.status is Status.IN_DOUBT:
            self.tally["in_doubt"] += 1
        else:
            self.tally["rejected"] += 1
        await self._put_aside(judge, [run])
        return False

    def _count_again(self, row: Values, entry: Entry) -> None:
        """Count the work of an earlier attempt of this task after its tally was lost."""
        if entry.outcome is not EntryOutcome.FAILED:
            self.tally["new"] += 1
            return
        run = self._run(row, Claim(None, entry.fence))
        self._fail(run, FatalError("it failed in an attempt of this task that did not come to its end"))
        self.tally["rejected"] += 1
        self._note_event(run)

    async def _hand_over(
        self, transaction: "SqlTransaction", rows: Sequence[Values]
    ) -> list[tuple[Values, Exception]]:
        """Let the writer write; return the rows that it cannot write, if they are to be rejected."""
        if not rows:
            return []
        await transaction.mark()
        try:
            _refuse_odd(rows)
            self.of.write(cast("Any", transaction.connection), [users_of(row) for row in rows])
            await transaction.keep()
        except Exception as error:
            if transaction.is_worth_another_try(error):
                raise TransactionConflictError("writing rows") from error
            if self.of.batch.on_fatal == "raise" or self.of.batch.trigger.is_transient(error):
                raise
            await transaction.undo()
            if len(rows) == 1:
                return [(rows[0], error)]
        else:
            return []
        half = len(rows) // 2
        first = await self._hand_over(transaction, rows[:half])
        return [*first, *await self._hand_over(transaction, rows[half:])]

    async def _give_up(self, judge: Judge, failed: Sequence[tuple[Values, Exception]]) -> None:
        if not failed or judge.store is None:
            return
        name = self.of.batch.trigger.name
        runs: list[Run] = []
        # Not the fences of the claims: an entry that was taken over has another.
        entries = await judge.store.lookup(name, [row[KEY] for row, _ in failed])
        for (row, error), entry in zip(failed, entries, strict=True):
            run = self._run(row, Claim(None, Fence(0) if entry is None else entry.fence))
            await judge.judge(run)
            self._fail(run, error)
            runs.append(run)
        wishes = [
            Settlement(Uuid(run.message.uuid or ""), run.fence or Fence(0), EntryOutcome.FAILED)
            for run in runs
        ]
        if not all(await judge.store.settle(name, wishes)):
            raise HistoryUnavailableError("noting rows that failed: it has forgotten them")
        self.tally["rejected"] += len(failed)
        await self._put_aside(judge, runs)

    def _fail(self, run: Run, error: Exception) -> None:
        run.end = failed(Ending.FATAL, error, self.of.batch.trigger.policy, recorded=True)

    async def _put_aside(self, judge: Judge, runs: Sequence[Run]) -> None:
        parked = [run.copy(self.of.batch.trigger.name) for run in runs if run.parks]
        if parked and (kept := beside_of(judge.store)) is not None:
            await kept.parking.park(parked)
        for run in runs:
            self._note_event(run)

    def _note_event(self, run: Run) -> None:
        if run.raises_event:
            settings = self.of.batch.trigger
            event = run.make_event(settings.name, settings.destination)
            self.tally.events.append(event.model_dump_json())

    def _run(self, row: Values, claim: Claim) -> Run:
        values, settings, columns = users_of(row), self.of.batch.trigger, self.of.batch.columns
        message = message_of_keyed(values, columns, destination=settings.destination, uuid=row[KEY])
        finding = Finding(HistoryUse.ON, claim.found, claim.fence)
        return Run(message, finding, redact=settings.redaction)


def _is_open(entry: Entry | None) -> bool:
    """Whether an entry is free, or its run did not end."""
    return entry is None or entry.state is State.STARTED


def _refuse_odd(rows: Sequence[Values]) -> None:
    """Refuse a row with a value that Python cannot hold: the table would not get the original.

    Raises:
        FatalError: Python has no such value.
    """
    for row in rows:
        if isinstance(row, OddArrowRow):
            problem = "is no UTF-8, no instant of Python's, a map with a key twice, or an unreadable variant"
            raise FatalError(f"column {row.column} of row {row[KEY]} {problem}")


def _pieces(batches: Iterator[RecordBatch], most: int) -> Iterator[Sequence[Values]]:
    """Yield at most ``most`` rows at a time."""
    waiting: list[Values] = []
    for batch in batches:
        waiting += rows_of(batch)
        while len(waiting) >= most:
            yield waiting[:most]
            waiting = waiting[most:]
    if waiting:
        yield waiting
