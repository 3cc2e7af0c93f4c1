"""``exactly_once_batch`` finds planted bugs in micro-batch functions, and lets correct functions pass."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from resolvers import Resolution
from tests.fixtures.servers.spark import SPARK
from triggers import ConfigurationError, Message
from triggers.spark import BatchInfo, ForeachBatch, foreach_batch
from triggers.testing import Effects, Report, exactly_once_batch

pytestmark = SPARK

ROWS = [{"uuid": "order-1", "amount": 10}, {"uuid": "order-2", "amount": 20}]

#: A history URL that the simulation replaces by its own file.
NOWHERE = "redis://127.0.0.1:1/0"

#: The most runs of batches that a shortest script may have.
SHORT = 4

#: The point behind the function, in a run of one batch of one row.
RUN = 7


@dataclass
class Sample:
    """A function, how its effects are counted, and whether it doubles or loses one."""

    function: ForeachBatch
    effects: Any
    planted: str = ""
    reset: Callable[[], object] | None = None
    rows: int = 1
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def made(function: Callable[..., None], **settings: Any) -> ForeachBatch:
    return foreach_batch("orders", name="load", uuid="uuid", history=NOWHERE, partitions=1, **settings)(
        function
    )


def recording(bank: Effects) -> Callable[[DataFrame, int], None]:
    def load(new: DataFrame, batch_id: int) -> None:
        for row in new.select("uuid").collect():
            bank.record(row.uuid)

    return load


def a_function_that_hands_over_each_row_once() -> Sample:
    bank = Effects()
    return Sample(made(recording(bank)), bank, rows=2)


def an_execute_over_a_sink_that_appends() -> Sample:
    bank = Effects()
    return Sample(made(recording(bank), on_replay="execute"), bank, "doubled")


def a_transient_failure_after_half_of_the_rows() -> Sample:
    bank = Effects()
    return Sample(made(recording(bank)), bank, "doubled", rows=2, options={"batch": 2})


def an_execute_over_an_idempotent_sink() -> Sample:
    bank = Effects(replies_lost=True)

    def load(new: DataFrame, batch_id: int) -> None:
        for row in new.select("uuid").collect():
            bank.record_once(row.uuid)

    return Sample(made(load, on_replay="execute"), bank)


def a_memory_that_dies_with_the_driver() -> Sample:
    bank = Effects()
    seen: set[str] = set()

    def load(new: DataFrame, batch_id: int) -> None:
        for row in new.select("uuid").collect():
            if row.uuid not in seen:
                bank.record(row.uuid)
                seen.add(row.uuid)

    return Sample(made(load, on_replay="execute"), bank, "doubled")


def a_failure_that_is_swallowed() -> Sample:
    bank = Effects()

    def load(new: DataFrame, batch_id: int) -> None:
        for row in new.select("uuid").collect():
            with suppress(ConnectionError):
                bank.record(row.uuid)

    return Sample(made(load), bank, "lost")


def rows_in_doubt_that_are_dropped() -> Sample:
    bank = Effects()
    return Sample(made(recording(bank), in_doubt="acknowledge"), bank, "lost")


def a_resolver_that_says_new_without_looking() -> Sample:
    bank = Effects()

    def always_new(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return Resolution.NEW

    return Sample(made(recording(bank), resolver=always_new), bank, "doubled")


def a_resolver_that_looks() -> Sample:
    bank = Effects()

    def looks(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return Resolution.DUPLICATE if bank.has(uuid) else Resolution.NEW

    return Sample(made(recording(bank), resolver=looks), bank)


def _knowing(known: Callable[[bool], bool], planted: str = "") -> Sample:
    """Return a sample with a sink that stores rows with their batch's name; ``known`` changes its answers."""
    sink: list[tuple[tuple[str, int], list[str]]] = []

    def load(new: DataFrame, batch: BatchInfo) -> None:
        rows = [row.uuid for row in new.select("uuid").collect()]
        sink.append(((batch.lineage, batch.batch_id), rows))

    def committed(batch: BatchInfo) -> bool:
        return known((batch.lineage, batch.batch_id) in [name for name, _ in sink])

    def effects() -> list[str]:
        return [row for _, rows in sink for row in rows]

    return Sample(made(load, committed=committed), effects, planted, sink.clear)


def a_sink_that_knows_its_commits() -> Sample:
    return _knowing(bool)


def a_sink_that_denies_its_commits() -> Sample:
    return _knowing(lambda _: False, "doubled")


def a_sink_that_claims_to_have_everything() -> Sample:
    return _knowing(lambda _: True, "lost")


KINDS: tuple[Callable[[], Sample], ...] = (
    a_function_that_hands_over_each_row_once,
    an_execute_over_a_sink_that_appends,
    a_transient_failure_after_half_of_the_rows,
    an_execute_over_an_idempotent_sink,
    a_memory_that_dies_with_the_driver,
    a_failure_that_is_swallowed,
    rows_in_doubt_that_are_dropped,
    a_resolver_that_says_new_without_looking,
    a_resolver_that_looks,
    a_sink_that_knows_its_commits,
    a_sink_that_denies_its_commits,
    a_sink_that_claims_to_have_everything,
)


def check(report: Report, planted: str) -> None:
    match planted:
        case "doubled":
            assert not report.never_twice, report
        case "lost":
            assert not report.none_lost, report
        case _:
            assert report.never_twice, report
            assert report.none_lost, report
    assert report.shortest is None or len(report.shortest) <= SHORT


@pytest.mark.prove
@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_what_is_planted_is_found_and_nothing_else(spark: SparkSession, kind: Callable[[], Sample]) -> None:
    sample = kind()

    report = exactly_once_batch(
        sample.function,
        ROWS[: sample.rows],
        effects=sample.effects,
        reset=sample.reset,
        spark=spark,
        **sample.options,
    )

    check(report, sample.planted)


@pytest.mark.prove
@pytest.mark.parametrize(("by_batch", "planted"), [(True, ""), (False, "lost")])
def test_files_that_are_written_anew_are_counted(
    spark: SparkSession, tmp_path: Path, *, by_batch: bool, planted: str
) -> None:
    folder = tmp_path / "orders"

    def load(new: DataFrame, batch_id: int) -> None:
        place = folder / f"batch={batch_id}" if by_batch else folder / "all"
        new.select("uuid").write.mode("overwrite").parquet(str(place))

    def effects() -> list[str]:
        written = [str(one) for one in folder.glob("*") if (one / "_SUCCESS").exists()]
        return [row.uuid for row in spark.read.parquet(*written).collect()] if written else []

    report = exactly_once_batch(
        made(load, on_replay="execute"),
        ROWS,
        effects=effects,
        reset=lambda: shutil.rmtree(folder, ignore_errors=True),
        spark=spark,
    )

    check(report, planted)


@pytest.mark.prove
def test_a_script_that_was_found_runs_again(spark: SparkSession) -> None:
    sample = an_execute_over_a_sink_that_appends()

    report = exactly_once_batch(
        sample.function, ROWS[:1], effects=sample.effects, spark=spark, script=f"exact; dies; die-after@{RUN}"
    )

    found = report.shortest
    assert found is not None, report
    assert found.doubled == {"order-1": (2, 1)}
    assert [(line.cells[1], line.cells[-2]) for line in found.steps] == [
        ("0", "driver died"),
        ("0", "completed"),
    ]
    assert "the process dies after the function has run" in str(report)


@pytest.mark.parametrize(
    ("function", "rows", "options", "named"),
    [
        pytest.param(recording(Effects()), ROWS, {}, "was not made by @foreach_batch", id="plain"),
        pytest.param(made(recording(Effects())), [], {}, "there are none", id="no-rows"),
        pytest.param(made(recording(Effects())), [{"uuid": "1", "note": None}], {}, "rows: ", id="no-type"),
        pytest.param(made(recording(Effects())), ROWS, {"batch": 0}, "batch", id="batch"),
        pytest.param(made(recording(Effects())), ROWS, {"crashes": -1}, "crashes", id="crashes"),
    ],
)
def test_what_makes_no_sense_is_refused(
    spark: SparkSession, function: Any, rows: list[dict[str, Any]], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        exactly_once_batch(function, rows, effects=Effects(), spark=spark, **options)


@pytest.mark.prove
def test_a_function_that_fails_by_itself_is_told_of(spark: SparkSession) -> None:
    def load(new: DataFrame, batch_id: int) -> None:
        raise ValueError("no such table")

    with pytest.raises(
        ConfigurationError, match="fails although nothing goes wrong: ValueError: no such table"
    ):
        exactly_once_batch(made(load), ROWS[:1], effects=Effects(), spark=spark)
