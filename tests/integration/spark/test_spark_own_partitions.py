"""Each partition of a batch claims its own rows. Exactly one copy of a row is handed over."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from history import Entry, State, open_history
from history.bridge import drive
from history.store import BatchOwner
from resolvers import Resolution
from tests.fixtures.histories import with_store
from tests.fixtures.servers.spark import SPARK
from tests.fixtures.waiting import eventually
from tests.integration.helpers.batches import Batches, DiedError, counts_of, fixed
from triggers import Message
from triggers.spark import BatchReport
from triggers.spark.batch.batch import BatchStep
from triggers.spark.batch.claims.partitions import FEW_OWNERS, ROWS_OF_AN_OWNER, in_own_partitions

pytestmark = [SPARK, pytest.mark.prove]

#: Copies of "b" and "c" are in several partitions, and one of "a" in its own.
PARTITIONS = (("a", "b", "a"), ("b", "c"), ("c", "d", "b"))


class Apart(Batches):
    """Hands over batches with the given rows in the given partitions."""

    def frame(self, partitions: Sequence[Sequence[str]]) -> DataFrame:
        rows = [
            [(uuid, f"body of {uuid} in {place}") for uuid in uuids] for place, uuids in enumerate(partitions)
        ]
        spread = self.spark.sparkContext.parallelize(rows, len(rows)).flatMap(_each)
        return fixed(self.spark, spread, "uuid string, body string")

    def hand_over(
        self, rows: Sequence[Sequence[str]] | DataFrame, *, dies_at: BatchStep | None = None, **settings: Any
    ) -> BatchReport | None:
        """Hand a batch to a new run. Return its report, or None if the driver died."""

        def load(new: DataFrame, _: int) -> None:
            self.given += [row.uuid for row in new.collect()]

        made = self.make(load, **settings)
        self.dies_at = dies_at
        made.observe = self._observe
        frame = rows if isinstance(rows, DataFrame) else self.frame(rows)
        try:
            made(frame, 7)
        except DiedError:
            return None
        finally:
            self.dies_at = None
        return made.reports[-1]

    def owners(self, *uuids: str) -> list[str]:
        """Return the owner of each uuid: a part of a run, such as "#0", or "" for the whole run."""
        tokens = [entry.owner or "" for entry in self.entries(*uuids) if entry is not None]
        return [token[token.index("#") :] if "#" in token else "" for token in tokens]

    def entries(self, *uuids: str) -> Sequence[Entry | None]:
        return with_store(self.url, lambda store: store.lookup("load", uuids))


def _each(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return rows


@pytest.fixture
def batches(spark: SparkSession, redis_url: str) -> Apart:
    return Apart(spark, redis_url)


def test_of_copies_in_several_partitions_one_is_handed_over(batches: Apart) -> None:
    report = batches.hand_over(PARTITIONS[:2])

    assert report is not None
    assert (batches.take(), counts_of(report)) == (["a", "b", "c"], (5, 3, 2, 0, 0))
    assert batches.owners("a", "c") == ["#0", "#1"]
    assert {entry and entry.state for entry in batches.entries("a", "b", "c")} == {State.COMPLETED}
    again = batches.hand_over(PARTITIONS[:2])
    assert again is not None
    assert counts_of(again) == (5, 0, 5, 0, 0)


@pytest.mark.parametrize("on_replay", ["in_doubt", "execute"])
@pytest.mark.parametrize("step", sorted(set(BatchStep) - {BatchStep.KEPT_ASIDE, BatchStep.NOTED}))
@pytest.mark.parametrize(
    "after", [(("a", "b", "a", "b", "c", "c", "d", "b"),), PARTITIONS[::-1]], ids=["one", "three"]
)
def test_a_batch_whose_driver_died_comes_again_in_other_partitions(
    batches: Apart, step: BatchStep, after: Any, on_replay: str
) -> None:
    assert batches.hand_over(PARTITIONS, dies_at=step, on_replay=on_replay) is None
    before = batches.take()

    report = batches.hand_over(after, on_replay=on_replay)

    whole = ["a", "b", "c", "d"]
    was_entered = step >= BatchStep.ENTERED
    assert before == (whole if step > BatchStep.ENTERED else [])
    assert report is not None
    if on_replay == "execute":
        assert batches.take() == ([] if step is BatchStep.COMPLETED else whole)
    else:
        assert batches.take() == ([] if was_entered else whole)
    if was_entered and on_replay == "in_doubt" and step is not BatchStep.COMPLETED:
        assert set(batches.parked()) == set(whole)
    else:
        assert report.new + report.duplicate == 8
    last = batches.hand_over(PARTITIONS, on_replay=on_replay)
    assert last is not None
    assert (batches.take(), last.new) == ([], 0)


@pytest.mark.parametrize("how", ["again", "united", "coalesced"])
def test_rows_that_are_lost_and_computed_again_come_out_the_same(batches: Apart, how: str) -> None:
    seen: list[list[str]] = []

    def load(new: DataFrame, _: int) -> None:
        other = batches.spark.range(3).selectExpr("'other' as uuid", "'body' as body").repartition(3)
        for _attempt in range(2):
            match how:
                case "united":
                    rows = other.union(new).filter(
                        "uuid <> 'other'"
                    )  # its partitions have other numbers there
                case "coalesced":
                    rows = new.coalesce(1)
                case _:
                    rows = new
            seen.append(sorted(f"{row.uuid} {row.body}" for row in rows.collect()))
            batches.spark.catalog.clearCache()
            new.sparkSession.catalog.clearCache()

    made = batches.make(load)
    made(batches.frame(PARTITIONS[:2]), 7)

    assert seen[0] == seen[1]
    assert [one[0] for one in seen[0]] == ["a", "b", "c"]
    assert counts_of(made.reports[-1]) == (5, 3, 2, 0, 0)


def test_many_partitions_are_as_few_owners_as_there_are_cores(batches: Apart) -> None:
    parts: list[int] = []
    made = batches.make(lambda new, _: parts.append(new.rdd.getNumPartitions()))

    made(batches.frame([[f"u{number}", "x"] for number in range(7)]), 7)

    assert (parts, made.reports[-1].new) == ([2], 8)
    assert set(batches.owners(*(f"u{number}" for number in range(7)))) == {"#0", "#1"}


def always_new(uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]) -> Sequence[Resolution]:
    return [Resolution.NEW for _ in messages]


@pytest.mark.parametrize(
    "how", [{"in_doubt": "execute"}, {"resolver": always_new}, {}], ids=["run", "asked", "parked"]
)
def test_copies_that_are_looked_at_again_are_one_row(batches: Apart, how: Any) -> None:
    store = open_history(batches.url)
    drive(store.claim("load", ["x"], "a worker that died"))

    report = batches.hand_over([("x", "a"), ("b", "x", "x")], **how)

    assert report is not None
    if how:
        assert (batches.take(), report.duplicate) == (["a", "b", "x"], 2)
        assert {entry and entry.state for entry in batches.entries("a", "b", "x")} == {State.COMPLETED}
    else:
        assert (batches.take(), counts_of(report)) == (["a", "b"], (5, 2, 0, 3, 0))
        assert set(batches.parked()) == {"x"}
    drive(store.close())


def _released_once_partition_0_has_met_it(url: str, fence: int, rows: list[tuple[str, str]]) -> Any:
    store = open_history(url)
    if rows[0][0] == "b":
        eventually(lambda: drive(store.lookup("load", ["a"])) != [None])
        assert drive(store.release("load", "x", fence))
    drive(store.close())
    return rows


def test_a_copy_that_another_partition_has_got_since_is_a_duplicate(batches: Apart) -> None:
    url, store = batches.url, open_history(batches.url)
    ((_, fence),) = drive(store.claim("load", ["x"], "a worker", timedelta(hours=1)))
    rows = [[("a", ""), ("x", "")], [("b", ""), ("x", "")]]
    spread = batches.spark.sparkContext.parallelize(rows, 2).flatMap(
        lambda some: _released_once_partition_0_has_met_it(url, fence, some)
    )
    frame = fixed(batches.spark, spread, "uuid string, body string")

    report = batches.hand_over(frame, patience=timedelta(seconds=20))

    assert report is not None
    assert (batches.take(), counts_of(report)) == (["a", "b", "x"], (4, 3, 1, 0, 0))
    drive(store.close())


@pytest.fixture
def on_sqlite(spark: SparkSession, tmp_path: Path) -> Apart:
    return Apart(spark, f"sqlite:///{tmp_path}/history.db")


def test_what_a_forgotten_run_completed_is_handed_over_whole_and_once(on_sqlite: Apart) -> None:
    batches = on_sqlite
    batches.hand_over([("a",), ("b",)], on_replay="execute")
    batches.take()
    store = open_history(batches.url)
    drive(store.progress.purge_records("load", datetime.now(UTC) + timedelta(days=1)))
    assert drive(store.progress.read("load", "q", 7)) is None
    drive(store.close())

    report = batches.hand_over([("a", "c"), ("b", "a")], on_replay="execute")

    assert report is not None
    assert (batches.take(), report.new, report.attempt) == (["a", "b", "c"], 3, 2)


def test_sqlite_is_claimed_by_partitions_too(on_sqlite: Apart) -> None:
    report = on_sqlite.hand_over(PARTITIONS[:2])

    assert report is not None
    assert (on_sqlite.take(), counts_of(report)) == (["a", "b", "c"], (5, 3, 2, 0, 0))


def shuffled(batches: Apart) -> DataFrame:
    rows = batches.frame(PARTITIONS).repartition(2)
    return fixed(batches.spark, rows.rdd, rows.schema)


def planned(batches: Apart) -> DataFrame:
    return batches.spark.sql("SELECT 'a' AS uuid, 'body' AS body")


@pytest.mark.parametrize(
    ("frame", "settings", "owner"),
    [
        (None, {}, "#0"),
        (None, {"message_id": "body"}, "#0"),
        (None, {"partitions": 3}, "#0"),
        (None, {"partitions": 4}, ""),
        (None, {"delivery_count": "count"}, ""),
        (None, {"fingerprint": ["body"]}, ""),
        (None, {"claims": 1}, ""),
        (None, {"storage": "none"}, ""),
        (shuffled, {}, ""),
        (planned, {}, ""),
    ],
)
def test_rows_come_together_where_partitions_may_not_claim_them(
    batches: Apart, frame: Any, settings: Any, owner: str
) -> None:
    rows = batches.frame(PARTITIONS) if frame is None else frame(batches)
    if "delivery_count" in settings:
        rows = fixed(
            batches.spark, rows.selectExpr("*", "1L AS count").rdd, "uuid string, body string, count long"
        )

    batches.hand_over(rows, dies_at=BatchStep.CLAIMED, **settings)

    assert batches.owners("a") == [owner]


def test_small_batches_have_few_owners(batches: Apart) -> None:
    made = batches.make(lambda _new, _id: None, partitions=FEW_OWNERS + 1)
    rows, enough = batches.frame([["a"]] * 9), (FEW_OWNERS + 1) * ROWS_OF_AN_OWNER

    apart = {before: in_own_partitions(rows, made.settings, before) for before in (None, enough, enough - 1)}

    assert {before: one and one[1] for before, one in apart.items()} == {
        None: FEW_OWNERS + 1,
        enough: FEW_OWNERS + 1,
        enough - 1: None,
    }
    few = batches.make(lambda _new, _id: None, partitions=FEW_OWNERS)
    assert in_own_partitions(rows, few.settings, 0) is not None


def test_what_a_stale_task_claims_afterwards_is_its_run_s(batches: Apart) -> None:
    batches.hand_over([("a",), ("b",)], dies_at=BatchStep.CLAIMED)
    (entry, _) = batches.entries("a", "b")
    assert entry is not None
    assert entry.owner is not None
    store = open_history(batches.url)
    late = BatchOwner(entry.owner.replace("#0", "#1"))
    drive(store.claim("load", ["c"], late))
    drive(store.close())

    report = batches.hand_over([("a", "c"), ("b",)])

    assert report is not None
    assert (batches.take(), report.in_doubt) == (["a", "b", "c"], 0)
