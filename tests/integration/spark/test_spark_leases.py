"""Leases of micro-batches: while the driver lives, others wait for its rows."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from history import Entry, EntryOutcome, ParkedKind, State, open_history
from history.bridge import drive
from history.store import HistoryStore
from tests.fixtures.servers.spark import SPARK
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.batches import Batches
from triggers import Message, Outcome, Status, trigger
from triggers.spark.batch import leases
from triggers.spark.batch.batch import BatchStep, RowsInProgressError
from triggers.spark.batch.owners import BatchRun

pytestmark = [SPARK, pytest.mark.prove]

#: A lease that does not end while a test runs.
LONG = timedelta(hours=1)

#: A lease that is renewed several times while a test waits.
SHORT = timedelta(seconds=0.6)


@pytest.fixture
def batches(spark: SparkSession, redis_url: str) -> Batches:
    return Batches(spark, redis_url)


@pytest.fixture
def store(redis_url: str) -> Iterator[HistoryStore]:
    store = open_history(redis_url)
    yield store
    drive(store.close())


def entry_of(store: HistoryStore, uuid: str) -> Entry | None:
    return drive(store.lookup("load", [uuid]))[0]


def handed_to_a_service(url: str, uuid: str) -> Outcome:
    """Send a message to a service with the same name as the batches."""

    @trigger("orders", name="load", history=url)
    def load(message: Message) -> None:
        pytest.fail(f"{message.uuid} is the batch's")

    try:
        return load.handle(Message(body="", uuid=uuid))
    finally:
        load.close()


def test_a_service_waits_for_a_batch_that_has_its_message_and_then_finds_a_duplicate(
    batches: Batches, store: HistoryStore
) -> None:
    outcomes: list[Outcome] = []

    def meet() -> None:
        began = entry_of(store, "a")
        assert began is not None
        outcomes.append(handed_to_a_service(batches.url, "a"))
        # The first lease of the claim is over, and has been renewed.
        eventually(lambda: (entry := entry_of(store, "a")) is not None and _outlived(entry, began))
        outcomes.append(handed_to_a_service(batches.url, "a"))

    report = batches.run(["a", "b"], meet, lease=SHORT)
    after = handed_to_a_service(batches.url, "a")

    assert [(one.acknowledge, one.status, one.row) for one in outcomes] == [(False, None, 12)] * 2
    assert (report.new, after.status, after.acknowledge) == (2, Status.DUPLICATE, True)
    assert batches.parked() == {}


def _outlived(entry: Entry, began: Entry) -> bool:
    assert began.lease_until is not None
    return entry.lease_alive and entry.read_at > began.lease_until


def test_without_a_lease_such_a_message_is_in_doubt_at_once(batches: Batches) -> None:
    outcomes: list[Outcome] = []

    batches.run(["a"], lambda: outcomes.append(handed_to_a_service(batches.url, "a")), lease=None)

    assert [one.status for one in outcomes] == [Status.IN_DOUBT]


def test_a_batch_that_is_done_soon_is_not_renewed(batches: Batches, store: HistoryStore) -> None:
    seen: list[Entry | None] = []

    batches.run(["a"], lambda: seen.append(entry_of(store, "a")))

    (entry,) = seen
    assert entry is not None
    assert entry.lease_until is not None
    assert abs(entry.lease_until - entry.started_at - timedelta(seconds=30)) < timedelta(seconds=1)
    assert "doubtless-batch-lease" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("settings", "given", "in_doubt"),
    [
        ({}, ["c"], 2),
        ({"on_replay": "execute"}, ["a", "b", "c"], 0),
        ({"in_doubt": "execute"}, ["a", "b", "c"], 2),
    ],
    ids=["parked", "replayed", "executed"],
)
def test_a_batch_whose_driver_was_killed_goes_on_at_once_where_it_comes_again(
    batches: Batches, store: HistoryStore, settings: dict[str, Any], given: list[str], in_doubt: int
) -> None:
    batches.run_and_die(BatchStep.RUN, ["a", "b"], lease=LONG, **settings)
    batches.take()
    assert (killed := entry_of(store, "a")) is not None
    assert killed.lease_alive

    # Waiting for this lease would take an hour, and the batch would fail before.
    report = batches.run(["a", "b", "c"], lease=LONG, **settings)

    assert batches.take() == given
    assert (report.rows, report.in_doubt, report.attempt) == (3, in_doubt, 2)


def test_what_a_killed_driver_claimed_and_never_handed_over_is_new_at_once(batches: Batches) -> None:
    batches.run_and_die(BatchStep.CLAIMED, ["a", "b"], lease=LONG)

    assert (batches.run(["a", "b"], lease=LONG).new, batches.take()) == (2, ["a", "b"])


def test_what_was_taken_over_has_a_lease_too(batches: Batches, store: HistoryStore) -> None:
    batches.run_and_die(BatchStep.RUN, ["a", "b"], lease=None)
    batches.take()

    def meet() -> None:
        began = entry_of(store, "a")
        assert began is not None
        assert (began.owner or "").endswith("+")
        eventually(lambda: (entry := entry_of(store, "a")) is not None and _outlived(entry, began))

    batches.run(["a", "b"], meet, in_doubt="execute", lease=SHORT)

    assert batches.take() == ["a", "b"]


def test_a_dead_driver_of_another_query_is_in_doubt_when_its_lease_is_over(batches: Batches) -> None:
    batches.run_and_die(BatchStep.RUN, ["a"], query="another", lease=SHORT)

    report = batches.run(["a", "b"])

    assert (report.new, report.in_doubt) == (1, 1)
    assert {uuid: kind for uuid, (kind, _) in batches.parked().items()} == {"a": ParkedKind.IN_DOUBT}


def test_a_batch_waits_for_a_later_one_and_fails_when_that_takes_too_long(
    batches: Batches, store: HistoryStore
) -> None:
    def meet() -> None:
        with pytest.raises(
            RowsInProgressError,
            match="1 rows of batch 7 of query a are being processed elsewhere, such as x:",
        ) as caught:
            batches.run(["x", "y"], query="a", patience=timedelta(seconds=0.5))
        assert not caught.value.begin_anew
        assert entry_of(store, "y") is None, "what it had claimed is given back"

    batches.run(["x"], meet, query="z")

    report = batches.run(["x", "y"], query="a")
    assert (report.new, report.duplicate, report.attempt) == (1, 1, 2)


def test_of_two_batches_that_would_wait_for_each_other_one_begins_anew(
    batches: Batches, store: HistoryStore
) -> None:
    begun = threading.Semaphore(0)
    reports: list[Any] = []
    other = batches.make(lambda new, _: batches.given.extend(row.uuid for row in new.collect()), query="z")
    other.observe = lambda step: begun.release() if step is BatchStep.BEGUN else None

    def give_way() -> None:
        other(batches.rows(["x", "y"]), 7)
        reports.extend(other.reports)

    thread = threading.Thread(target=give_way)

    def meet() -> None:
        thread.start()
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE)

    batches.run(["x"], meet, query="a")
    thread.join(PATIENCE)

    (report,) = reports
    assert (report.new, report.duplicate) == (1, 1)
    assert report.attempt > 1
    assert sorted(batches.given) == ["x", "y"]
    assert drive(store.lookup("load", ["y"]))[0] is not None


class WithoutBatchLeases:
    """A third party's history with only the required methods."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name == "renew_batch":
            raise AttributeError(name)
        return getattr(self._store, name)


def test_over_a_history_that_renews_no_batches_there_is_no_lease(
    batches: Batches, store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_url: str) -> WithoutBatchLeases:
        return WithoutBatchLeases(store)

    monkeypatch.setattr(leases, "history_at", opened)
    seen: list[Entry | None] = []

    assert batches.run(["a"], lambda: seen.append(entry_of(store, "a"))).new == 1
    assert [entry and (entry.state, entry.lease_until) for entry in seen] == [(State.STARTED, None)]


def test_the_log_says_that_a_batch_outlives_what_the_history_remembers(
    batches: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    made = batches.make(lambda _new, _id: None, lease=SHORT / 2, history_time_to_live=SHORT)
    run = BatchRun(lineage="q", batch=7, token="run")  # noqa: S106

    with leases.BatchLease(made.settings, run):
        eventually(lambda: "raise history_time_to_live above the time that a batch may take" in caplog.text)

    assert caplog.text.count("raise history_time_to_live") == 1


def test_a_lease_ends_with_its_driver(batches: Batches, store: HistoryStore) -> None:
    run = BatchRun(lineage="q", batch=7, token="run")  # noqa: S106
    made = batches.make(lambda _new, _id: None, lease=SHORT)
    drive(store.claim("load", ["a"], run.owner, SHORT))
    first = entry_of(store, "a")
    assert first is not None

    with leases.BatchLease(made.settings, run):
        eventually(lambda: (entry := entry_of(store, "a")) is not None and _outlived(entry, first))

    eventually(lambda: (entry := entry_of(store, "a")) is not None and not entry.lease_alive)
    assert drive(store.settle_batch("load", run.owner, EntryOutcome.OK))
