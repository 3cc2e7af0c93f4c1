"""Leases are renewed while a service runs, however busy it is. A run that lost its lease is informed."""

import asyncio
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest

from history import Entry, EntryOutcome, State
from history.bridge import drive
from history.store import BatchOwner, HistoryStore
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import Delivery, LeaseLostError, Message, Outcome, Status, Trigger, trigger
from triggers.detection.table import HistoryUse
from triggers.pipeline.finding import Finding
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.run import Run

LEASE = timedelta(seconds=1)

#: A service under test runs so long that a lease without renewal ends.
LONG = 2.0


@contextmanager
def running(book: Trigger[..., Any], message: Message) -> Generator[list[Outcome]]:
    """Handle a message in a thread while the block runs. At the end of the block, wait for the thread."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(book.handle(message)))
    thread.start()
    try:
        yield outcomes
    finally:
        thread.join(PATIENCE)


def entry_of(store: HistoryStore) -> Entry | None:
    return drive(store.lookup("book", ["u-1"]))[0]


def compute_for(seconds: float) -> int:
    """Keep the interpreter busy, like a service that never waits."""
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        number = (number * 31 + 7) % 1_000_003
    return number


def take_over(store: HistoryStore, begun: threading.Event) -> None:
    """Take the entry over, like a consumer that considers the run dead. The service has begun."""
    assert begun.wait(PATIENCE)
    entry = eventually(lambda: entry_of(store))
    assert drive(store.take_over("book", "u-1", "somebody else", LEASE, entry.fence)) is not None


def test_a_busy_service_keeps_its_lease_also_where_it_blocks_the_event_loop(
    form: str, history_url: str, store: HistoryStore
) -> None:
    @trigger("orders", name="book", history=history_url, lease=LEASE)
    def book(message: Message) -> None:
        compute_for(LONG)

    @trigger("orders", name="book", history=history_url, lease=LEASE)
    async def abook(message: Message) -> None:
        compute_for(LONG)

    async def handled() -> Outcome:
        outcome = await abook.ahandle(Message(uuid="u-1", body="x"))
        await abook.aclose()
        return outcome

    def run() -> Outcome:
        return book.handle(Message(uuid="u-1", body="x")) if form == "blocking" else asyncio.run(handled())

    alive: list[bool] = []
    with closing(book), ThreadPoolExecutor(1) as thread:
        running = thread.submit(run)
        while not running.done():
            entry = entry_of(store)
            if entry is not None and entry.state is State.STARTED:
                alive.append(entry.lease_alive)
            time.sleep(0.02)

    assert alive
    assert all(alive)
    assert running.result().status is Status.NEW
    left = entry_of(store)
    assert left is not None
    assert left.outcome is EntryOutcome.OK


def test_a_run_that_lost_its_lease_can_stop_and_leaves_the_message_to_its_new_owner(
    history_url: str, store: HistoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[LeaseLostError] = []
    begun = threading.Event()

    @trigger("orders", name="book", history=history_url, lease=LEASE)
    def book(message: Message, delivery: Delivery) -> None:
        begun.set()
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                delivery.check()
            except LeaseLostError as error:
                seen.append(error)
                raise
            time.sleep(0.01)

    with closing(book), running(book, Message(uuid="u-1", body="x")) as outcomes:
        take_over(store, begun)

    (outcome,) = outcomes
    assert seen[0].taken_by == "somebody else"
    assert (outcome.acknowledge, outcome.parked, outcome.event) == (False, False, None)
    assert seen[0].owner in caplog.text
    assert "somebody else has the entry now" in caplog.text
    left = entry_of(store)
    assert left is not None
    assert (left.state, left.owner) == (State.STARTED, "somebody else")


def test_a_failure_after_the_lease_was_lost_is_the_new_owners_business(
    history_url: str, store: HistoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @trigger("orders", name="book", history=history_url, lease=LEASE)
    def book(message: Message) -> None:
        begun.set()
        may_end.wait(PATIENCE)
        raise ValueError("too late")

    with closing(book), running(book, Message(uuid="u-1", body="x")) as outcomes:
        take_over(store, begun)
        eventually(lambda: "has the entry now" in caplog.text)
        may_end.set()

    (outcome,) = outcomes
    assert isinstance(outcome.error, ValueError)
    assert (outcome.acknowledge, outcome.parked, outcome.event) == (False, False, None)


def test_a_run_that_outlives_its_time_to_live_is_not_forgotten(history_url: str) -> None:
    effects: list[float] = []

    @trigger("orders", name="book", history=history_url, lease=LEASE, history_time_to_live=1.5 * LEASE)
    def book(_: Message) -> None:
        effects.append(time.monotonic())
        time.sleep(2 * LONG)

    message = Message(uuid="u-1", body="x")
    with closing(book):
        with running(book, message) as first:
            eventually(lambda: effects, PATIENCE)
            copies: list[Outcome] = []
            while not first:
                copies.append(book.handle(message))
                time.sleep(0.1)
        copies.append(book.handle(message))

    assert len(effects) == 1
    assert first[0].status is Status.NEW
    assert first[0].acknowledge, "its completion was recorded"
    assert {copy.executed for copy in copies} == {False}
    assert copies[-1].status is Status.DUPLICATE


def test_only_the_runs_that_are_still_held_keep_their_leases(store: HistoryStore) -> None:
    uuids, lease = [f"u-{number}" for number in range(3)], timedelta(seconds=0.5)
    claims = drive(store.claim("book", uuids, "worker-1", lease))
    runs = [
        Run(Message(uuid=uuid, body="x"), Finding(HistoryUse.ON, fence=claim.fence, owner="worker-1"))
        for uuid, claim in zip(uuids, claims, strict=True)
    ]
    keeper = LeaseKeeper("book", lease, store)

    keeper.hold(runs, time.monotonic())
    keeper.let_go(runs[:1])
    eventually(lambda: not alive(store, uuids)[0], PATIENCE)

    assert alive(store, uuids) == [False, True, True]
    keeper.close()


def alive(store: HistoryStore, uuids: list[str]) -> list[bool]:
    """Return the leases that have not ended."""
    return [entry is not None and entry.lease_alive for entry in drive(store.lookup("book", uuids))]


def test_a_batch_that_will_be_forgotten_under_its_run_is_told_once(
    store: HistoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    batch, lease = BatchOwner("query/7"), timedelta(seconds=0.3)
    (claim,) = drive(store.claim("book", ["u-1"], batch, lease, time_to_live=2 * lease))
    keeper = LeaseKeeper("book", lease, store)
    run = Run(Message(uuid="u-1", body="x"), Finding(HistoryUse.ON, fence=claim.fence, owner=batch.token))

    keeper.hold([run], time.monotonic())
    eventually(lambda: drive(store.lookup("book", ["u-1"])) == [None], PATIENCE)
    keeper.close()

    told = [record for record in caplog.records if "raise history_time_to_live" in record.message]
    assert len(told) == 1
    assert "forgets the batch query/7" in told[0].message
