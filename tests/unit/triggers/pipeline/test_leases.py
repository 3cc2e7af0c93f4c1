"""A lease lasts from the claim to the end of a run, costs little, and only the running process renews it."""

import gc
import logging
import os
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from history import Entry, Fence, MemoryHistory, Message, Renewal, State, Uuid
from history.bridge import drive
from history.store import CLAIM_BATCH, ManyLeases
from resolvers import Resolution
from tests.fixtures.waiting import PATIENCE, eventually
from tests.unit.helpers.in_memory import NAME, Effects, made, message, resolving, state_of, store_of
from triggers import Outcome, Retry, Status, TransientError, Trigger, trigger
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.pipeline import MessagePipeline
from triggers.service.settings import DEFAULT_LEASE

SHORT = timedelta(seconds=0.6)


class Counting(MemoryHistory):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Sequence[str]] = []
        self.renewed: list[str] = []

    async def renew_many(self, trigger: str, renewals: Sequence[Renewal], lease: timedelta) -> Sequence[bool]:
        uuids = [renewal.uuid for renewal in renewals]
        self.calls.append(uuids)
        self.renewed.extend(uuids)
        return await super().renew_many(trigger, renewals, lease)


def keepers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "doubtless-leases"}


def test_a_copy_that_arrives_while_the_original_runs_waits_by_default() -> None:
    met: list[Outcome] = []

    def service(body: bytes) -> None:
        met.append(book.handle(message()))

    book = made(service, resolver=resolving(Resolution.NEW))

    first, again = book.handle(message()), book.handle(message())

    assert [(one.row, one.executed, one.acknowledge) for one in met] == [(12, False, False)]
    assert 29.0 < met[0].recover_after <= 30.0
    assert (first.status, again.status) == (Status.NEW, Status.DUPLICATE)


def test_without_a_lease_it_is_judged_at_once_as_in_the_reference_system() -> None:
    met: list[Outcome] = []

    def service(body: bytes) -> None:
        met.append(book.handle(message()))

    book = made(service, lease=None)
    book.handle(message())

    assert [(one.row, one.status) for one in met] == [(10, Status.IN_DOUBT)]


def test_no_lease_beside_a_resolver_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    book = made(Effects(), lease=None, resolver=resolving(Resolution.NEW))
    book.handle(message())

    [record] = caplog.records
    assert (record.levelno, vars(record)["trigger"]) == (logging.WARNING, NAME)
    assert "the service runs twice. Leave lease out" in record.message


@pytest.mark.parametrize(
    "settings",
    [
        {"resolver": resolving(Resolution.NEW)},
        {"lease": None},
        {"lease": None, "resolver": resolving(Resolution.NEW), "history": None},
        {"lease": None, "resolver": resolving(Resolution.NEW), "detect_duplicates": False},
        {"lease": None, "resolver": resolving(Resolution.NEW), "acknowledge_mode": "auto"},
    ],
    ids=["lease", "no resolver", "no history", "no detection", "auto"],
)
def test_nothing_else_is_warned_about(settings: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    made(Effects(), **settings)

    assert caplog.records == []


@pytest.mark.parametrize(
    ("time_to_live", "lease"),
    [
        (timedelta(days=7), DEFAULT_LEASE),
        (timedelta(seconds=90), DEFAULT_LEASE),
        (timedelta(seconds=9), timedelta(seconds=3)),
        (timedelta(milliseconds=1), timedelta(milliseconds=1)),
    ],
    ids=str,
)
def test_the_usual_lease_fits_into_the_time_to_live(time_to_live: timedelta, lease: timedelta) -> None:
    assert made(Effects(), history_time_to_live=time_to_live).settings.lease == lease


def keeper_of(book: Trigger[..., Any]) -> LeaseKeeper | None:
    pipeline = book.pipeline()
    assert isinstance(pipeline, MessagePipeline)
    return pipeline.judge.leases


def test_a_thousand_short_runs_ask_the_history_nothing_and_leave_nothing_behind() -> None:
    # A long run goes on meanwhile: the ended runs must not stay in memory until it ends.
    bodies: list[weakref.ref[Message]] = []
    history, going_on, may_end = Counting(), threading.Event(), threading.Event()

    def service(message: Message) -> None:
        if message.uuid == "long":
            going_on.set()
            assert may_end.wait(PATIENCE)
        else:
            bodies.append(weakref.ref(message))

    book = trigger("orders", name=NAME, history=history)(service)
    long = threading.Thread(target=book.handle, args=(message("long"),))
    long.start()
    try:
        assert going_on.wait(PATIENCE)
        for number in range(1000):
            book.handle(message(f"u-{number}"))
        gc.collect()
        left = [body for body in bodies if body() is not None]
    finally:
        may_end.set()
        long.join()

    assert (len(bodies), left, history.renewed) == (1000, [], [])


def test_a_pause_between_retries_is_a_part_of_the_run() -> None:
    history, effects = MemoryHistory(), Effects(TransientError("busy"))
    book = made(effects, history=history, lease=SHORT, retry=Retry(max_attempts=1, interval=3 * SHORT))
    running = threading.Thread(target=book.handle, args=(message(),))
    running.start()
    alive: list[bool] = []
    while running.is_alive():
        (entry,) = drive(history.lookup(NAME, ["u-1"]))
        alive.append(entry is None or entry.outcome is not None or entry.lease_alive)
        time.sleep(0.02)

    assert all(alive)
    assert len(effects.runs) == 2


@pytest.mark.parametrize("taken_over", [True, False])
def test_what_waited_behind_a_frozen_process_runs_unless_another_has_run_it(*, taken_over: bool) -> None:
    """The lease keeper stops, as if the process froze after its claim; another run may take the entry."""
    effects = Effects()
    history = Counting()

    def other(body: bytes) -> None:
        effects.runs.append("by the other")

    def service(body: bytes, message: Message) -> None:
        effects.runs.append(message.uuid)
        if message.uuid == "u-1":
            keeper = keeper_of(book)
            assert keeper is not None
            keeper.close()
            eventually(lambda: not _alive(history, "u-2"))
            if taken_over:
                successor = made(other, history=history, resolver=resolving(Resolution.NEW))
                assert successor.handle(message.model_copy(update={"uuid": "u-2"})).executed

    book = made(service, history=history, lease=SHORT)
    outcomes = book.handle_batch([message("u-1"), message("u-2")])

    assert effects.runs == ["u-1", "by the other" if taken_over else "u-2"]
    assert [one.status for one in outcomes] == [Status.NEW, Status.DUPLICATE if taken_over else Status.NEW]


def _alive(history: MemoryHistory, uuid: str) -> bool:
    entry = drive(history.lookup(NAME, [uuid]))[0]
    return entry is not None and entry.lease_alive


def test_the_thread_ends_when_nothing_is_held_and_starts_again() -> None:
    before = keepers()  # threads of earlier tests, which may end at any moment
    begun: list[set[threading.Thread]] = []
    history = Counting()

    def service(body: bytes) -> None:
        renewed = len(history.renewed)
        eventually(lambda: len(history.renewed) > renewed)
        begun.append(keepers() - before)

    book = made(service, history=history, lease=timedelta(seconds=0.3))

    book.handle(message("u-1"))
    eventually(lambda: not keepers() - before)
    book.handle(message("u-2"))

    first, second = begun
    assert (len(first), len(second)) == (1, 1)
    assert first.isdisjoint(second)
    assert set(history.renewed) == {"u-1", "u-2"}
    assert all(thread.daemon for thread in first | second)


def test_a_renewal_that_fails_is_tried_again_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Counting):
        async def renew_many(
            self, trigger: str, renewals: Sequence[Renewal], lease: timedelta
        ) -> Sequence[bool]:
            renewed = await super().renew_many(trigger, renewals, lease)
            if "u-1" in [renewal.uuid for renewal in renewals]:
                raise RuntimeError("a bug of the store")
            return renewed

    history = Failing()

    def service(body: bytes) -> None:
        if not caplog.records:
            eventually(lambda: history.calls.count(["u-1"]) > 1 and history.calls.count(["u-2"]) > 1)

    book = made(service, history=history, lease=SHORT)
    outcomes = book.handle_batch([message("u-1"), message("u-2")])

    assert [one.status for one in outcomes] == [Status.NEW, Status.NEW]
    assert {record.message for record in caplog.records} == {"a lease could not be renewed"}
    assert len(history.renewed) < 20


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_renews_its_own_leases_and_not_its_parents() -> None:
    history = Counting()

    def service(body: bytes, message: Message) -> None:
        if message.uuid == "childs":
            eventually(lambda: "childs" in history.renewed)
            return
        eventually(lambda: "parents" in history.renewed)
        child = os.fork()
        if child == 0:
            os._exit(in_child())
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0

    def in_child() -> int:
        history.renewed.clear()
        time.sleep(SHORT.total_seconds())
        idle = not history.renewed
        own = book.handle(message("childs"))
        return 0 if idle and own.executed and own.error is None and set(history.renewed) == {"childs"} else 1

    book = made(service, history=history, lease=SHORT)

    assert book.handle(message("parents")).error is None
    assert set(history.renewed) == {"parents"}


def test_a_run_that_was_released_and_begun_by_another_is_no_lease_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A third of a lease may pass between the release and the store's answer to it."""

    class Slow(Counting):
        async def settle(self, trigger: str, settlements: Sequence[Any]) -> Sequence[bool]:
            settled = await super().settle(trigger, settlements)
            await self.claim(trigger, [one.uuid for one in settlements], "somebody else", DEFAULT_LEASE)
            eventually(lambda: len(self.renewed) > 1)  # then the answer to the first one was checked
            return settled

    book = made(Effects(TransientError("busy")), history=Slow(), lease=SHORT, transacted=True)

    assert (book.handle(message()).acknowledge, state_of(book)) == (False, State.STARTED)
    assert isinstance(store_of(book), Slow)
    assert [record.message for record in caplog.records if "is lost" in record.message] == []


def test_what_is_due_is_renewed_by_one_call_for_two_hundred() -> None:
    uuids = [f"u-{number}" for number in range(CLAIM_BATCH + 50)]
    history = Counting()

    def service(body: bytes, message: Message) -> None:
        if message.uuid == uuids[0]:
            eventually(lambda: len(history.calls) >= 4)

    book = made(service, history=history, lease=SHORT)
    outcomes = book.handle_batch([message(uuid) for uuid in uuids])

    assert {one.status for one in outcomes} == {Status.NEW}
    assert [len(call) for call in history.calls[:4]] == [CLAIM_BATCH, 50, CLAIM_BATCH, 50]
    assert {*history.calls[0], *history.calls[1]} == set(uuids)


def test_of_leases_that_are_renewed_together_one_that_is_lost_leaves_the_others_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history, met, calls = Counting(), list[Entry | None](), list[Sequence[str]]()

    def service(body: bytes, message: Message) -> None:
        if message.uuid == "u-1":
            (lost,) = drive(history.lookup(NAME, ["u-2"]))
            assert lost is not None
            drive(history.take_over(NAME, "u-2", "somebody else", DEFAULT_LEASE, lost.fence))
            eventually(lambda: "somebody else" in caplog.text and len(history.calls) > 3)
            met.extend(drive(history.lookup(NAME, ["u-1", "u-3"])))
            calls.extend(history.calls)

    book = made(service, history=history, lease=SHORT)
    outcomes = book.handle_batch([message(f"u-{number}") for number in (1, 2, 3)])

    assert [one.executed for one in outcomes] == [True, False, True]
    assert all(entry is not None and entry.lease_alive for entry in met)
    assert set(calls[0]) == {"u-1", "u-2", "u-3"}
    assert set(calls[-1]) == {"u-1", "u-3"}, "a lost lease is not renewed again"
    assert [record.message for record in caplog.records if "is lost" in record.message]


def test_a_history_that_renews_one_at_a_time_is_asked_for_each() -> None:
    class OneByOne(MemoryHistory):
        renewed: ClassVar[list[str]] = []
        renew_many: ClassVar[Any] = None  # as if it had no such method

        async def renew(
            self, trigger: str, uuid: str, fence: int, lease: timedelta, *, owner: str | None = None
        ) -> bool:
            self.renewed.append(uuid)
            renewal = Renewal(Uuid(uuid), Fence(fence), owner)
            return (await MemoryHistory.renew_many(self, trigger, [renewal], lease))[0]

    history = OneByOne()

    def service(body: bytes, message: Message) -> None:
        if message.uuid == "u-1":
            eventually(lambda: min(history.renewed.count(uuid) for uuid in ("u-1", "u-2")) > 2)

    book = made(service, history=history, lease=SHORT)
    outcomes = book.handle_batch([message("u-1"), message("u-2")])

    assert not isinstance(history, ManyLeases)
    assert [one.status for one in outcomes] == [Status.NEW, Status.NEW]
