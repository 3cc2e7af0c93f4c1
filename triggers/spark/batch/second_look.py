"""Rows that need a second look: rejected rows, rows In Doubt, and rows for a resolver.

There are few of them, so they travel to Python whole and are judged one by one, by the same
:class:`~triggers.pipeline.judge.Judge` as messages. The executors park the rows that the table orders to
park; the driver publishes events, because their subscribers are there.

If another process has a row, and its lease is alive, the batch waits for it. Meanwhile the batch keeps its
claims, and so two batches could wait for each other. One of them does not wait: its rows GIVE WAY. Its driver
releases its claims and begins again.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from history.errors import HistoryUnavailableError
from history.message import Message
from history.store.parking import Evidence, Parked, ParkedKind, parked_id, raw_fields
from resolvers.bulk import AnswerShape, AskedInBulk
from resolvers.resolution import NO_EVIDENCE, Resolution, Resolved
from triggers.detection.table import (
    Answer,
    Count,
    Facts,
    Found,
    HistoryUse,
    Status,
    Word,
    classify_count,
    decide,
)
from triggers.events import RetrievalFailureEvent
from triggers.pipeline.bodies import Bodies, keeper_of
from triggers.pipeline.finding import NOT_ASKED
from triggers.pipeline.judge import Judge
from triggers.pipeline.run import Run
from triggers.spark.batch.claims.findings import AGAIN, RowVerdict
from triggers.spark.batch.claims.verdicts import KEY, VERDICT, by_key
from triggers.spark.batch.frame_answers import answer_in, with_answers
from triggers.spark.batch.owners import BatchRun
from triggers.spark.batch.sink_commits import LEFT_OUT
from triggers.spark.connections import LONGEST_PAUSE, close_history, history_at, patiently
from triggers.spark.rows.arrow import RecordBatch, mapped, rows_of, widened
from triggers.spark.rows.columns import users_of
from triggers.spark.rows.fingerprints import FINGERPRINT, NOTHING, bytes_of
from triggers.spark.rows.messages import (
    NoIdentityError,
    identity_of_row,
    message_of,
    message_of_keyed,
    raw_of,
    unidentified,
)
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: Columns that are added to a row that was judged again.
STATUS, REASON = "__doubtless_status", "__doubtless_reason"
RUNS, PARKED, EVENT = "__doubtless_runs", "__doubtless_parked", "__doubtless_event"

#: The status of a row that was given up.
REJECTED = "REJECTED"

#: The status of a row that another running process has: after a wait for it, and without a wait.
IN_PROGRESS, GIVES_WAY = "IN_PROGRESS", "GIVES_WAY"

_ADDED = (
    StructField(STATUS, StringType()),
    StructField(REASON, StringType()),
    StructField(EVENT, StringType()),
    StructField(RUNS, BooleanType()),
    StructField(PARKED, BooleanType()),
)

_UNREADABLE = "its delivery count, uuid or message id is not valid"


def judged_again(verdicts: DataFrame, settings: BatchSettings, run: BatchRun) -> DataFrame:
    """Return the rows of the second look, with their results; computing it parks them."""
    aside = verdicts.filter(F.col(VERDICT) % AGAIN >= int(RowVerdict.ASIDE))
    for verdict, resolver in (
        (RowVerdict.ASKED, settings.resolver),
        (RowVerdict.REPLAYED, settings.replay_resolver),
    ):
        if resolver is not None and resolver.shape is AnswerShape.DATAFRAME:
            aside = with_answers(aside, resolver, verdict, settings.name)
    together = by_key(aside, settings).sortWithinPartitions(KEY, VERDICT)
    second = SecondLook(settings=settings.shipped, run=run)
    schema = StructType([*together.schema.fields, *_ADDED])
    return mapped(together, second.rows, schema, name="doubtless_second_look")


@dataclass(slots=True)
class _Row:
    """One row: its message and what is known of it, or None if it is not a message."""

    key: str | None
    values: Mapping[str, Any]
    again: bool
    run: Run | None
    parked: Parked | None = None
    event: RetrievalFailureEvent | None = None
    status: str = REJECTED
    reason: str = _UNREADABLE
    runs: bool = False
    waiting: str | None = None

    @property
    def is_in_progress(self) -> bool:
        """Whether another running process has it."""
        decision = None if self.run is None else self.run.decision
        return decision is not None and decision.answer is Answer.RECOVER_LATER


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of a resolver, by message; takes the place of the resolver that gave them."""

    given: dict[int, Resolved | Exception] = field(default_factory=dict[int, Resolved | Exception])

    async def ask(
        self, uuid: str, trigger_name: str, message: Message, evidence: Evidence = NO_EVIDENCE
    ) -> Resolved:
        """Return the answer that was given before."""
        _ = uuid, trigger_name, evidence
        answer = self.given[id(message)]
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass(frozen=True, kw_only=True)
class SecondLook:
    """The values that a task needs to judge rows again."""

    settings: BatchSettings
    run: BatchRun

    def rows(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        """Judge and park the rows of one partition, in which the keys are sorted."""
        last: _Row | None = None
        key: str | None = None
        for batch in batches:
            rows: list[_Row] = []
            for values in rows_of(batch):
                rows.append(self._row(values, key))
                key = key if values[VERDICT] == RowVerdict.OTHER_BODY else values[KEY]
            for row in rows:
                self._keep_if_left_out(row)
            self._judge(
                [row for row in rows if row.run is not None and row.run.decision is None and not row.again]
            )
            for row in rows:
                first = last if row.again and last is not None and last.key == row.key else None
                self._conclude(row, first)
                stays = (row.again and first is not None) or row.values[VERDICT] == RowVerdict.OTHER_BODY
                last = last if stays else row
            self._park([row.parked for row in rows if row.parked is not None])
            yield _with_results(batch, rows)
        if self.settings.claims is not None:
            close_history(self.settings.history)

    def _row(self, values: Mapping[str, Any], before: str | None) -> _Row:
        """Return a row; it is there ``again`` if the row ``before`` has its key, in whatever partition."""
        is_copy = (
            values[KEY] is not None and values[KEY] == before and values[VERDICT] != RowVerdict.OTHER_BODY
        )
        again = is_copy or values[VERDICT] >= AGAIN
        try:
            message = self._message(users_of(values), values[KEY])
        except NoIdentityError as error:
            return _Row(values[KEY], values, again, None, reason=str(error))
        except ValidationError:
            return _Row(values[KEY], values, again, None)
        return _Row(
            values[KEY], values, again, Run(message, NOT_ASKED, redact=self.settings.trigger.redaction)
        )

    def _message(self, user: Mapping[str, Any], key: str | None) -> Message:
        columns, destination = self.settings.columns, self.settings.trigger.destination
        if key is not None:
            return message_of_keyed(user, columns, destination=destination, uuid=key)
        uuid = identity_of_row(user, columns)
        row = user if uuid is not None else unidentified(user, columns)
        return message_of(row, columns, destination=destination, uuid=uuid)

    def _keep_if_left_out(self, row: _Row) -> None:
        """Decide that a row is In Doubt, and parked, if the sink has committed its batch without it."""
        if row.run is None or row.values[VERDICT] % AGAIN != RowVerdict.LEFT_OUT:
            return
        policy = replace(self.settings.trigger.policy, in_doubt="park")
        started = Facts(count=Count.FIRST, history=HistoryUse.ON, found=Found.STARTED, word=Word.NONE)
        row.run.decision = decide(started, policy)
        row.run.note(LEFT_OUT)

    def _judge(self, rows: Sequence[_Row]) -> None:
        """Claim the rows, ask resolvers, and decide; wait for rows that run elsewhere."""
        deadline = time.monotonic() + self.settings.patience.total_seconds()
        while rows:
            patiently(self.settings.patience, self._judge_once, rows)
            rows = [row for row in rows if row.is_in_progress]
            gives_way = any(self._gives_way(row) for row in rows)
            if gives_way or time.monotonic() > deadline:
                for row in rows:
                    row.waiting = GIVES_WAY if gives_way else IN_PROGRESS
                return
            if rows:
                time.sleep(LONGEST_PAUSE)

    def _gives_way(self, row: _Row) -> bool:
        entry = None if row.run is None else row.run.found
        return entry is not None and self.run.gives_way_to(entry)

    async def _judge_once(self, rows: Sequence[_Row]) -> None:
        runs = [row.run for row in rows if row.run is not None]
        for run in runs:
            run.begin_anew()
        judge = Judge(
            settings=self.settings.trigger,
            store=history_at(self.settings.history),
            resolver=None,
            batch=self.run.resolved_owner,
            bodies=self._bodies(rows),
        )
        await judge.claim(runs)
        for run in runs:
            run.finding = run.finding._replace(found=self.run.as_found(run.found))
        answers = _Answers()
        answers.given.update(await self._answers(rows, self.settings.resolver, replayed=False))
        answers.given.update(await self._answers(rows, self.settings.replay_resolver, replayed=True))
        answering = replace(judge, resolver=answers)
        for run in runs:
            await (answering if id(run.message) in answers.given else judge).judge(run)
            if run.history is HistoryUse.UNREACHABLE:
                raise run.error or HistoryUnavailableError("claiming")

    def _bodies(self, rows: Sequence[_Row]) -> Bodies | None:
        """Return the object that compares the bodies of rows, if that is wanted."""
        if self.settings.columns.fingerprint is None:
            return None
        prints = {id(row.run.message): row.values[FINGERPRINT] for row in rows if row.run is not None}

        def read(message: Message) -> bytes | None:
            number: int = prints[id(message)]
            return None if number == NOTHING else bytes_of(number)

        kept = keeper_of(history_at(self.settings.history))
        return Bodies(settings=self.settings.trigger, kept=kept, read=read)

    async def _answers(
        self, rows: Sequence[_Row], resolver: AskedInBulk | None, *, replayed: bool
    ) -> dict[int, Resolved | Exception]:
        """Ask a resolver about the rows for which the table needs it; return the answers by message."""
        executes = replayed and self.settings.on_replay == "execute"
        if resolver is None and not executes:
            return {}
        asked = [(row, row.run) for row in rows if row.run and self._asks(row.run, replayed=replayed)]
        runs = [run for _, run in asked]
        if executes:
            return {id(run.message): _EXECUTE for run in runs}
        if resolver is None or not runs:
            return {}
        if resolver.shape is AnswerShape.DATAFRAME:
            return {id(run.message): answer_in(row.values, resolver) for row, run in asked}
        answers = await resolver.ask(
            [run.message.uuid or "" for run in runs],
            self.settings.name,
            [run.message for run in runs],
            [run.evidence() for run in runs],
        )
        return {id(run.message): answer for run, answer in zip(runs, answers, strict=True)}

    def _asks(self, run: Run, *, replayed: bool) -> bool:
        """Whether the table needs the resolver for a row of this kind."""
        if run.history is not HistoryUse.ON:
            return False
        if (run.found is not None and self.run.is_replayed(run.found)) is not replayed:
            return False
        policy = self.settings.trigger.policy
        count = classify_count(run.message.delivery_count, policy.max_delivery_count)
        return decide(run.facts(count, Word.NOT_ASKED), policy).ask

    def _conclude(self, row: _Row, first: _Row | None) -> None:
        """Note the result of a row; a further row of a uuid follows its first row."""
        name = self.settings.name
        if row.run is None:
            row.parked, row.event = self._unreadable(row)
            return
        run = row.run
        if first is not None and first.run is not None:
            row.waiting = first.waiting
            if first.runs:
                row.status, row.reason = Status.DUPLICATE, "a duplicate of another row of this batch"
                return
            run.finding = run.finding._replace(found=first.run.found)
            run.decision, run.problem, run.notes = first.run.decision, first.run.error, first.run.notes
        decision = run.decision
        assert decision is not None  # noqa: S101  (every first row was judged)
        if row.waiting is not None:
            row.status, row.reason = row.waiting, f"{row.key}: {run.reason}"
            return
        row.runs, row.reason = decision.runs, run.reason
        row.status = REJECTED if decision.status is None else decision.status
        if decision.status is Status.IN_DOUBT and not decision.park and not decision.runs:
            _log.error(
                "row %s is In Doubt and is dropped, because of in_doubt='acknowledge'",
                row.key,
                extra={"trigger": name, "uuid": row.key},
            )
        if run.parks:
            row.parked = run.copy(name)
        if run.raises_event:
            row.event = run.make_event(name, self.settings.trigger.destination)

    def _unreadable(self, row: _Row) -> tuple[Parked, RetrievalFailureEvent]:
        name, destination = self.settings.name, self.settings.trigger.destination
        raw = raw_fields(raw_of(row.values))
        parked = Parked(
            id=parked_id(name, Message(body=repr(sorted(raw.items())))),
            trigger_name=name,
            kind=ParkedKind.UNREADABLE,
            reason=row.reason,
            destination=destination,
            raw=raw,
        )
        return parked, RetrievalFailureEvent.of_unreadable(name, destination, row.reason)

    def _park(self, parked: Sequence[Parked]) -> None:
        if not parked:
            return
        lot = history_at(self.settings.parking or self.settings.history).parking
        patiently(self.settings.patience, lot.park, parked)


def _with_results(batch: RecordBatch, rows: Sequence[_Row]) -> RecordBatch:
    texts: dict[str, Sequence[str | None]] = {
        STATUS: [str(row.status) for row in rows],
        REASON: [row.reason for row in rows],
        EVENT: [None if row.event is None else row.event.model_dump_json() for row in rows],
    }
    truths = {RUNS: [row.runs for row in rows], PARKED: [row.parked is not None for row in rows]}
    return widened(batch, texts, truths)


_EXECUTE = Resolved(Resolution.NEW, "on_replay='execute'")
