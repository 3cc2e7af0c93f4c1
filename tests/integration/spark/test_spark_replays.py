"""A batch comes again after a death or a failure: its rows are new, In Doubt, or run again."""

import pickle
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from history import EntryOutcome, Evidence, HistoryUnavailableError, ParkedKind, open_history
from history.beside.progress import begin
from history.bridge import drive
from history.store import BatchOwner
from history.store.progress import KEPT_RUNS, BatchState, Beginning, StaleRunError
from resolvers import Resolution
from resolvers.effect_exists import spark_rows_exist
from tests.fixtures.histories import with_store
from tests.fixtures.network import Network
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.batches import Batches, DiedError, counts_of
from tests.integration.helpers.file_streams import FileStream, orders
from triggers import ConfigurationError, Message, TransientError, on_retrieval_failure
from triggers.events import RetrievalFailureEvent
from triggers.spark import BatchInfo, BatchReport, ForeachBatch, foreach_batch
from triggers.spark.batch.batch import BatchStep

pytestmark = SPARK


@pytest.fixture
def batches(spark: SparkSession, redis_url: str) -> Batches:
    return Batches(spark, redis_url)


def test_what_was_never_handed_over_is_new_and_what_was_is_in_doubt(batches: Batches) -> None:
    batches.run_and_die(BatchStep.CLAIMED, ["a", "b"])
    batches.run_and_die(BatchStep.RUN, ["a", "b"])
    assert batches.take() == ["a", "b"]

    report = batches.run(["a", "b", "b", "c"])

    assert batches.take() == ["c"]
    assert (counts_of(report), report.attempt) == ((4, 1, 0, 3, 0), 3)
    parked = batches.parked()
    assert {uuid: kind for uuid, (kind, _) in parked.items()} == dict.fromkeys("ab", ParkedKind.IN_DOUBT)
    assert counts_of(batches.run(["a", "b", "b", "c"])) == (4, 0, 1, 3, 0)


def test_rows_are_new_however_often_the_driver_died_before_the_function(batches: Batches) -> None:
    batches.run_and_die(BatchStep.CLAIMED, ["a", "b"])
    store = open_history(batches.url)
    for attempt in range(2 * KEPT_RUNS):
        anew = Beginning(query="q", batch=7, lineage="q", run=f"dead-{attempt}")
        drive(begin(store.progress, "load", anew, datetime.now(UTC)))
    drive(store.close())

    report = batches.run(["a", "b"])

    assert (batches.take(), report.new, report.in_doubt) == (["a", "b"], 2, 0)


@pytest.mark.parametrize("step", [BatchStep.CLAIMED, BatchStep.RUN, BatchStep.COMPLETED])
def test_rows_run_again_where_the_sink_is_idempotent(batches: Batches, step: BatchStep) -> None:
    batches.run_and_die(step, ["a", "b"], on_replay="execute")
    first = batches.take()

    report = batches.run(["a", "b", "c", "a"], on_replay="execute")

    assert first == ([] if step is BatchStep.CLAIMED else ["a", "b"])
    assert batches.take() == ["a", "b", "c"]
    assert (counts_of(report), report.again) == ((4, 3, 1, 0, 0), 2 if step is BatchStep.COMPLETED else 0)
    assert batches.run(["a", "b", "c"]).duplicate == 3


class Folder:
    """A sink that each batch overwrites. It holds the rows of the function's last call."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self.holds: list[str] | None = None
        self.calls = 0

    def write(self) -> None:
        self.holds, self.calls = self.batches.take(), self.calls + 1

    def run(self, uuids: Sequence[str], **settings: Any) -> BatchReport:
        return self.batches.run(uuids, self.write, on_replay="execute", **settings)

    def run_and_die(self, step: BatchStep, uuids: Sequence[str], **settings: Any) -> None:
        self.batches.dies_at = step
        with pytest.raises(DiedError):
            self.run(uuids, **settings)
        self.batches.dies_at = None

    def fail(self, uuids: Sequence[str]) -> None:
        def load() -> None:
            self.write()
            raise TransientError("the disk is full")

        with pytest.raises(TransientError):
            self.batches.run(uuids, load, on_replay="execute")


@pytest.fixture
def folder(batches: Batches) -> Folder:
    return Folder(batches)


def _claimed_by_others(url: str, *uuids: str) -> None:
    with_store(url, lambda store: store.claim("load", uuids, "a worker that died"))


def _released_by_others(url: str, *uuids: str) -> None:
    store = open_history(url)
    for uuid, claim in zip(uuids, drive(store.claim("load", uuids, "a worker that died")), strict=True):
        assert drive(store.release("load", uuid, claim.fence))
    drive(store.close())


#: Other tests cover these steps, so a death there is tested only by ``make prove``.
MARKS = dict.fromkeys(set(BatchStep) - {BatchStep.CLAIMED, BatchStep.COMPLETED}, pytest.mark.prove)


def always_new(uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]) -> Sequence[Resolution]:
    return [Resolution.NEW for _ in messages]


@pytest.mark.prove
@pytest.mark.parametrize(
    ("step", "how"),
    [
        *(pytest.param(step, {"resolver": always_new}, marks=MARKS.get(step, ())) for step in BatchStep),
        pytest.param(BatchStep.RUN, {"in_doubt": "execute"}, marks=pytest.mark.prove),
    ],
)
def test_a_batch_whose_rows_have_two_owners_is_completed_as_one(
    batches: Batches, folder: Folder, step: BatchStep, how: Any
) -> None:
    _claimed_by_others(batches.url, "x", "y")

    folder.run_and_die(step, ["a", "x", "b", "y"], **how)
    calls = folder.calls
    report = folder.run(["a", "x", "b", "y"], **how)

    assert folder.holds == ["a", "b", "x", "y"]
    assert folder.calls - calls == (0 if step >= BatchStep.COMPLETED else 1)
    assert report.new + report.in_doubt == (0 if step >= BatchStep.COMPLETED else 4)
    assert folder.run(["a", "x", "b", "y"], **how).duplicate == 4
    assert folder.calls - calls == (0 if step >= BatchStep.COMPLETED else 1)
    assert _is_all_completed(batches.url, "a", "b", "x", "y")


def _is_all_completed(url: str, *uuids: str) -> bool:
    entries = with_store(url, lambda store: store.lookup("load", uuids))
    return all(entry is not None and entry.outcome == "ok" for entry in entries)


@pytest.mark.prove
@pytest.mark.parametrize("parts", [["#0", "#1"], ["+"]], ids=["claimed", "taken over"])
def test_a_batch_that_an_older_version_left_half_completed_is_handed_over_whole(
    batches: Batches, folder: Folder, parts: list[str]
) -> None:
    _claimed_by_others(batches.url, "x")
    folder.run_and_die(BatchStep.RUN, ["a", "b", "x"], in_doubt="execute")
    store = open_history(batches.url)
    record = drive(store.progress.read("load", "q", 7))
    assert record is not None
    owners = [BatchOwner(f"{record.lineage}/7/{record.line}.{record.run}{part}") for part in parts]
    assert drive(store.settle_batches("load", owners, EntryOutcome.OK))
    drive(store.close())

    report = folder.run(["a", "b", "x"], in_doubt="execute")

    assert (folder.holds, report.new) == (["a", "b", "x"], 3)
    assert _is_all_completed(batches.url, "a", "b", "x")


@pytest.mark.prove
def test_a_row_that_comes_to_a_completed_batch_does_not_push_the_others_out(
    batches: Batches, folder: Folder
) -> None:
    _claimed_by_others(batches.url, "x")
    folder.run(["a", "b", "x"])
    assert folder.holds == ["a", "b"]
    _released_by_others(batches.url, "x")

    folder.run_and_die(BatchStep.RUN, ["a", "b", "x"])
    assert folder.holds == ["a", "b", "x"]
    folder.run(["a", "b", "x"])

    assert folder.holds == ["a", "b", "x"]
    assert (folder.calls, _is_all_completed(batches.url, "a", "b", "x")) == (3, True)


@pytest.mark.prove
def test_what_a_released_attempt_wrote_does_not_stay_when_somebody_else_has_processed_it(
    batches: Batches, folder: Folder
) -> None:
    folder.fail(["a", "b"])
    assert folder.holds == ["a", "b"]
    batches.run(["a", "b"], batch_id=1, query="another")
    assert batches.take() == ["a", "b"]

    report = folder.run(["a", "b"])

    assert folder.holds == []
    assert counts_of(report) == (2, 0, 2, 0, 0)
    assert (folder.run(["a", "b"]).duplicate, folder.calls) == (2, 2)


@pytest.mark.prove
def test_what_a_dead_attempt_wrote_does_not_stay_either(batches: Batches, folder: Folder) -> None:
    folder.run_and_die(BatchStep.RUN, ["a", "b"], lease=None)
    batches.run(["a"], batch_id=1, query="another", in_doubt="execute")
    batches.take()

    folder.run_and_die(BatchStep.CLAIMED, ["a", "b"])
    folder.run(["a", "b"])

    assert folder.holds == ["b"]


@pytest.mark.prove
def test_a_batch_that_never_entered_the_function_is_not_handed_over_empty(
    batches: Batches, folder: Folder
) -> None:
    folder.run_and_die(BatchStep.CLAIMED, ["a"], lease=None)
    batches.run(["a"], batch_id=1, query="another", in_doubt="execute")
    batches.take()

    folder.run(["a"])
    folder.run(["a"])

    assert (folder.holds, folder.calls) == (None, 0)


def test_a_sink_that_is_not_written_anew_gets_no_empty_batch(batches: Batches) -> None:
    batches.run_and_die(BatchStep.RUN, ["a", "b"])
    batches.take()

    batches.run(["a", "b"], lambda: pytest.fail("it was called"))


def by_row(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolution:
    assert (trigger_name, message.uuid) == ("load", uuid)
    assert evidence.owner is not None
    return {"a": Resolution.NEW, "b": Resolution.DUPLICATE, "c": Resolution.IN_DOUBT}[uuid]


def by_sequence(uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]) -> Sequence[Resolution]:
    answers = {"a": Resolution.NEW, "b": Resolution.DUPLICATE, "c": Resolution.IN_DOUBT}
    assert [message.uuid for message in messages] == list(uuids)
    return [answers[uuid] for uuid in uuids]


def by_rows(rows: DataFrame, trigger_name: str) -> DataFrame:
    answer = F.when(F.col("doubtless_uuid") == "a", "NEW").when(F.col("doubtless_uuid") == "b", "DUPLICATE")
    return rows.select("doubtless_uuid", answer.otherwise("IN_DOUBT").alias("resolution"))


@pytest.mark.prove
@pytest.mark.parametrize(
    ("setting", "resolver"),
    [
        ("on_replay", by_sequence),
        ("resolver", by_row),
        pytest.param("resolver", by_rows, marks=pytest.mark.prove),
        pytest.param("on_replay", by_row, marks=pytest.mark.prove),
        pytest.param("on_replay", by_rows, marks=pytest.mark.prove),
        pytest.param("resolver", by_sequence, marks=pytest.mark.prove),
    ],
)
def test_a_resolver_has_the_last_word_on_what_was_handed_over(
    batches: Batches, resolver: Any, setting: str
) -> None:
    batches.run_and_die(BatchStep.RUN, ["a", "b", "c"])
    batches.take()

    report = batches.run(["a", "a", "b", "c", "d"], **{setting: resolver})

    assert batches.take() == ["a", "d"]
    assert counts_of(report) == (5, 2, 2, 1, 0)
    assert batches.run(["a", "d"]).duplicate == 2


@pytest.mark.prove
def test_effects_in_a_table_tell_what_has_run(batches: Batches, tmp_path: Path) -> None:
    effects = str(tmp_path / "effects")
    batches.rows(["b", "x"]).write.parquet(effects)
    batches.run_and_die(BatchStep.RUN, ["a", "b"])
    batches.take()

    report = batches.run(
        ["a", "b"], on_replay=spark_rows_exist(lambda: batches.spark.read.parquet(effects), "uuid")
    )

    assert batches.take() == ["a"]
    assert counts_of(report) == (2, 1, 1, 0, 0)


def test_a_resolver_that_fails_leaves_rows_in_doubt_with_the_event(batches: Batches) -> None:
    def broken(uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]) -> Sequence[Resolution]:
        raise ValueError("no such table")

    heard: list[RetrievalFailureEvent] = []
    batches.run_and_die(BatchStep.RUN, ["a", "b"])

    subscription = on_retrieval_failure(trigger="load")(heard.append)
    report = batches.run(["a", "b"], resolver=broken)

    assert subscription is not None
    assert counts_of(report) == (2, 0, 0, 2, 0)
    assert sorted(str(event.uuid) for event in heard) == ["a", "b"]
    assert {event.exception_message for event in heard} == {"no such table"}


def test_a_transient_failure_releases_the_batch_and_its_rows_are_new_again(batches: Batches) -> None:
    def fail() -> None:
        raise TransientError("the sink is away")

    with pytest.raises(TransientError, match="the sink is away"):
        batches.run(["a", "b"], fail)
    batches.take()

    assert counts_of(batches.run(["a", "b"])) == (2, 2, 0, 0, 0)
    assert batches.take() == ["a", "b"]


def test_a_fatal_failure_leaves_the_batch_to_its_next_run(batches: Batches) -> None:
    def fail() -> None:
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"):
        batches.run(["a", "b"], fail)

    assert counts_of(batches.run(["a", "b"])) == (2, 0, 0, 2, 0)


@pytest.mark.prove
def test_a_fatal_failure_rejects_the_new_rows_where_it_is_told_to(batches: Batches) -> None:
    def fail() -> None:
        raise ValueError("no such column")

    heard: list[RetrievalFailureEvent] = []
    on_retrieval_failure(trigger="load")(heard.append)
    batches.run(["old"], batch_id=6)

    assert counts_of(batches.run(["a", "b", "old"], fail, on_fatal="reject")) == (3, 0, 1, 0, 2)
    parked = batches.parked()
    assert {uuid: kind for uuid, (kind, _) in parked.items()} == dict.fromkeys("ab", ParkedKind.REJECTED)
    assert sorted((str(event.uuid), str(event.exception_class)) for event in heard) == [
        ("a", "builtins.ValueError"),
        ("b", "builtins.ValueError"),
    ]
    assert batches.run(["a"], batch_id=8).duplicate == 1


def test_what_is_kept_aside_is_handed_to_a_writer_with_reasons(batches: Batches) -> None:
    batches.run_and_die(BatchStep.RUN, ["a", "b"])
    written: list[Any] = []

    def write(rows: DataFrame, batch_id: int) -> None:
        written.extend([*rows.collect(), batch_id])

    batches.run(["a", "b", "c"], parked_to=write)

    *rows, batch_id = written
    assert batch_id == 7
    assert sorted((row.uuid, row.doubtless_status) for row in rows) == [("a", "IN_DOUBT"), ("b", "IN_DOUBT")]
    assert "row 10" in rows[0].doubtless_reason


@pytest.mark.prove
def test_verdicts_that_are_computed_again_come_out_the_same(batches: Batches) -> None:
    seen: list[list[str]] = []

    def load(new: DataFrame, _: int) -> None:
        for _again in range(2):
            seen.append(sorted(f"{row.uuid} {row.body}" for row in new.collect()))
            batches.spark.catalog.clearCache()
            new.sparkSession.catalog.clearCache()

    batches.run(["old"], batch_id=6)
    made = batches.make(load)
    made(batches.rows(["a", "b", "a", "old"]), 7)

    assert seen == [["a body of a", "b body of b"]] * 2
    assert counts_of(made.reports[-1]) == (4, 2, 2, 0, 0)


@pytest.mark.prove
def test_a_run_that_somebody_began_anew_does_not_enter(batches: Batches) -> None:
    def load(new: DataFrame, _: int) -> None:
        batches.given.append("too late")

    def overtake(step: BatchStep) -> None:
        if step is BatchStep.CLAIMED:
            batches.run(["a"])

    made = batches.make(load)
    made.observe = overtake

    with pytest.raises(StaleRunError, match="was replaced by run"):
        made(batches.rows(["a", "b"]), 7)

    assert batches.take() == ["a"]


@pytest.mark.prove
def test_a_run_that_somebody_began_anew_completes_nothing(batches: Batches, folder: Folder) -> None:
    def load(new: DataFrame, _: int) -> None:
        assert new.count() == 2

    def overtake(step: BatchStep) -> None:
        if step is BatchStep.RUN:
            batches.run_and_die(BatchStep.RUN, ["a", "b"], on_replay="execute")
            batches.take()

    made = batches.make(load)
    made.observe = overtake

    with pytest.raises(StaleRunError, match="was replaced by run"):
        made(batches.rows(["a", "b"]), 7)

    assert not _is_all_completed(batches.url, "a", "b")
    folder.run(["a", "b"])
    assert (folder.holds, _is_all_completed(batches.url, "a", "b")) == (["a", "b"], True)


def test_the_ledger_holds_each_batch_with_its_counts(batches: Batches) -> None:
    batches.run(["a", "b"], batch_id=0)
    batches.run(["b", "c"], batch_id=1)

    records = with_store(batches.url, lambda store: store.progress.batches("load", "q"))
    assert [(one.batch, one.state, one.counts["new"]) for one in records] == [
        (1, BatchState.COMPLETED, 1),
        (0, BatchState.COMPLETED, 2),
    ]


@pytest.mark.prove
def test_the_claims_wait_for_a_history_that_is_away(batches: Batches, redis_url: str) -> None:
    address = urlsplit(redis_url)
    with Network(address.hostname or "", address.port or 0) as network:
        batches.url = network.url(redis_url)
        batches.run(["old"], batch_id=6)
        network.take_down()
        threading.Timer(2, network.bring_up).start()

        assert counts_of(batches.run(["a", "old"])) == (2, 1, 1, 0, 0)
        network.take_down()
        with pytest.raises(HistoryUnavailableError):
            batches.run(["b"], batch_id=8, patience=timedelta(seconds=0.5))
        network.bring_up()
        assert batches.run(["b"], batch_id=8).new == 1


@pytest.mark.prove
def test_a_reset_checkpoint_is_noticed_and_said(
    spark: SparkSession, redis_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add(orders(["a"]))
    stream.add(orders(["b"]))
    given: list[str] = []

    def made(**more: Any) -> ForeachBatch:
        return foreach_batch("orders", name="load", uuid="uuid", history=redis_url, **more)(
            lambda new, _: given.extend(row.uuid for row in new.collect())
        )

    stream.run(made(), name="orders")
    with pytest.raises(Exception, match="on_reset='warn' lets it go on"):
        stream.run(made(on_reset="raise"), "another", name="orders")
    again = made()
    stream.run(again, "another", name="orders")
    second = made()
    stream.run(second, "third", name="second")

    assert sorted(given) == ["a", "b"]
    assert [(one.new, one.duplicate) for one in again.reports] == [(0, 1)] * 2
    assert "a new checkpoint" in again.reports[0].notes[0]
    assert [one.notes for one in second.reports] == [(), ()]
    assert "let the source start after them, or restore the checkpoint" in caplog.text


def dying(one: ForeachBatch, at: BatchStep | None) -> ForeachBatch:
    """Let the driver die at a step. Without a step it lives."""

    def observe(step: BatchStep) -> None:
        if step is at:
            raise RuntimeError("the driver dies")

    one.observe = observe
    return one


@pytest.mark.prove
def test_a_batch_is_known_where_its_query_has_another_name_since(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add(orders(["a", "b"]))
    given: list[str] = []
    asked: list[str] = []

    def committed(batch: BatchInfo) -> bool:
        asked.append(batch.query)
        return True

    def made(dies_at: BatchStep | None = None) -> ForeachBatch:
        def load(new: DataFrame, _: int) -> None:
            given.extend(row.uuid for row in new.collect())

        terms: Any = {"uuid": "uuid", "history": redis_url, "committed": committed}
        return dying(foreach_batch("orders", name="load", **terms)(load), dies_at)

    for name, step in (("first", BatchStep.CLAIMED), ("second", BatchStep.RUN)):
        with pytest.raises(Exception, match="the driver dies"):
            stream.run(made(step), name=name)
    third = made()
    stream.run(third, name="third")
    stream.add(orders(["c"]))
    stream.run(third, name="third")

    assert (given, asked) == (["a", "b", "c"], ["first"])
    assert [(one.query, one.new, one.in_doubt) for one in third.reports] == [("first", 2, 0), ("third", 1, 0)]
    assert "begun under the name first, which the query had then" in third.reports[0].notes


def test_what_never_ran_is_new_under_a_new_checkpoint(
    spark: SparkSession, redis_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add(orders(["a", "b"]))
    given: list[str] = []

    def made(dies_at: BatchStep | None = None) -> ForeachBatch:
        def load(new: DataFrame, _: int) -> None:
            given.extend(row.uuid for row in new.collect())

        return dying(foreach_batch("orders", name="load", uuid="uuid", history=redis_url)(load), dies_at)

    with pytest.raises(Exception, match="the driver dies"):
        stream.run(made(BatchStep.CLAIMED), "first", name="orders")
    stream.add(orders(["c"]))
    with pytest.raises(Exception, match="the driver dies"):
        stream.run(made(BatchStep.CLAIMED), "second", name="orders")
    last = made()
    stream.run(last, "second", name="orders")

    assert sorted(given) == ["a", "b", "c"]
    assert sum(one.in_doubt for one in last.reports) == 0
    assert "never came to its function" in caplog.text


@pytest.mark.prove
def test_what_ran_and_did_not_end_stays_in_doubt_under_a_new_checkpoint(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add(orders(["a"]))

    def fail(new: DataFrame, batch_id: int) -> None:
        raise ValueError("no such column")

    def load(new: DataFrame, batch_id: int) -> None:
        pytest.fail("it was called")

    made = foreach_batch("orders", name="load", uuid="uuid", history=redis_url, lease=None)
    with pytest.raises(Exception, match="no such column"):
        stream.run(made(fail), "first", name="orders")
    again = made(load)
    stream.run(again, "second", name="orders")

    assert [one.in_doubt for one in again.reports] == [1]


@pytest.mark.prove
def test_rows_that_are_wanted_once_more_are_a_generation_of_their_own(batches: Batches) -> None:
    batches.run(["a", "b"])
    batches.take()

    refill = batches.run(["a", "a", "b"], reprocess="2026-11 refill")

    assert (batches.take(), refill.new, refill.duplicate, refill.notes) == (["a", "b"], 2, 1, ())
    assert batches.run(["a"], reprocess="2026-11 refill").duplicate == 1
    assert batches.run(["a"], batch_id=8).duplicate == 1
    assert batches.make(lambda _, __: None, reprocess="2026-11 refill").name == "load/2026-11 refill"


def test_misuse_is_refused_before_anything_starts(
    spark: SparkSession, tmp_path: Path, redis_url: str
) -> None:
    def load(new: DataFrame, batch_id: int) -> None: ...

    stream = FileStream(spark, tmp_path)
    stream.add(orders(["a"]))
    made = foreach_batch("orders", uuid="id", history=redis_url)(load)

    with pytest.raises(ConfigurationError, match="the stream has no column 'id'; it has uuid, JMSMessageID"):
        made.write_stream(stream.read())
    with pytest.raises(Exception, match="the stream has no column 'id'"):
        stream.run(made)
    with pytest.raises(ConfigurationError, match="each executor would have a memory of its own"):
        foreach_batch("orders", uuid="id", history="memory://")(load)
    with pytest.raises(ConfigurationError, match="on_replay"):
        foreach_batch("orders", uuid="id", history=redis_url, on_replay="sometimes")(load)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="cannot take"):
        foreach_batch("orders", name="load", uuid="id", history=redis_url)(lambda: None)  # type: ignore[arg-type]


def test_a_run_that_was_replaced_is_told_so_and_may_be_asked_from_a_task(batches: Batches) -> None:
    runs: list[BatchInfo] = []

    def load(new: DataFrame, batch: BatchInfo) -> None:
        runs.append(pickle.loads(pickle.dumps(batch)))  # noqa: S301  (as Spark sends it to a task)
        assert batch.still_mine()
        if len(runs) == 1:
            raise DiedError

    made = batches.make(load, on_replay="execute")
    with pytest.raises(DiedError):
        made(batches.rows(["a"]), 7)
    made(batches.rows(["a"]), 7)

    assert [(run.attempt, run.still_mine()) for run in runs] == [(1, False), (2, True)]
    assert batches.url not in repr(runs)
