"""The process adds up the counts of guards, and a thread reports them; no message depends on them."""

import asyncio
import gc
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history import MemoryHistory
from history.beside.charts import ChartStep
from history.beside.control import Control
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.errors import HistoryUnavailableError
from history.opening import open_history
from history.store.control import Counts, Overview, Report
from tests.fixtures.beside import kept_in
from tests.fixtures.waiting import eventually
from triggers import Status
from triggers.guards import Guard, protect
from triggers.metrics import reporting
from triggers.metrics.reporting import CountReports, reports_to


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the last report enough time on a busy machine."""
    monkeypatch.setattr(reporting, "PATIENCE", 60.0)


@pytest.fixture
def store() -> MemoryHistory:
    return MemoryHistory()


def overview(store: KeepsBeside) -> Overview:
    return drive(store.control.overview())


def counts(store: KeepsBeside, trigger: str = "charge") -> Counts:
    """Return the reported counts, without the time that the calls took."""
    return overview(store).statistics.get(trigger, Counts()).model_copy(update={"microseconds": 0})


def steps(store: KeepsBeside, trigger: str = "charge") -> Sequence[ChartStep]:
    charts = kept_in(store).charts
    return drive(charts.steps(trigger))


def fail() -> None:
    raise ValueError("no such card")


def charge(guard: Guard, *uuids: str) -> None:
    for uuid in uuids:
        guard.handle(uuid, lambda: None)


class Beats:
    """Counts the reports that reach any history, and lets them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reports: list[list[Report]] = []
        self.error: Exception | None = None
        original = Control.beat

        async def beat(control: Control, token: str, reports: Sequence[Report]) -> Any:
            self.reports.append([*reports])
            if self.error is not None:
                raise self.error
            return await original(control, token, reports)

        monkeypatch.setattr(Control, "beat", beat)


def test_outcomes_are_counted_and_a_step_is_added_to_the_charts(store: MemoryHistory) -> None:
    guard = protect("charge", history=store)

    charge(guard, "order-1", "order-1", "order-2")
    guard.handle("order-3", fail)
    with guard.once("order-4"):
        pass
    with guard.once("order-4"):
        pass
    guard.close()

    assert counts(store) == Counts(new=4, duplicate=2, failed=1, runs=4)
    assert [step.counts.new for step in steps(store)] == [4]
    assert [step.parked for step in steps(store)] == [1]


async def test_outcomes_under_asyncio_are_counted(store: MemoryHistory) -> None:
    guard = protect("charge", history=store)

    async with guard.aonce("order-1"):
        await asyncio.sleep(0)
    await guard.ahandle("order-1", lambda: None)
    await guard.aclose()

    assert counts(store) == Counts(new=1, duplicate=1, runs=1)


def test_a_guard_is_no_consumer(store: MemoryHistory) -> None:
    guard = protect("charge", history=store)

    charge(guard, "order-1")
    guard.close()

    assert list(overview(store).beats) == []
    assert not overview(store).had_consumer("charge")


def test_many_messages_of_many_guards_need_one_report(
    store: MemoryHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = Beats(monkeypatch)
    guards = [protect(f"charge-{n}", history=store) for n in range(3)]

    for n in range(50):
        for guard in guards:
            charge(guard, f"order-{n}")
    for guard in guards:
        guard.close()

    assert [sorted(one.trigger for one in reports) for reports in beats.reports] == [
        ["charge-0", "charge-1", "charge-2"]
    ]
    assert [counts(store, f"charge-{n}").new for n in range(3)] == [50, 50, 50]


def test_the_thread_reports_by_itself_and_goes_on_without_new_counts(
    store: MemoryHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "PAUSE", 0.01)
    monkeypatch.setattr(reporting, "IDLE", 0.02)
    beats = Beats(monkeypatch)
    guard = protect("charge", history=store)

    charge(guard, "order-1")

    assert eventually(lambda: counts(store).new == 1)
    assert eventually(lambda: len(beats.reports) > 3)
    assert counts(store) == Counts(new=1, runs=1)
    guard.close()


def test_a_history_that_takes_no_report_hurts_no_message_and_loses_no_count(
    store: MemoryHistory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reporting, "PAUSE", 0.01)
    monkeypatch.setattr(reporting, "IDLE", 0.01)
    beats = Beats(monkeypatch)
    beats.error = HistoryUnavailableError("reporting")
    guard = protect("charge", history=store)

    with caplog.at_level(logging.WARNING, reporting.__name__):
        statuses = [guard.handle(f"order-{n}", lambda: None).status for n in range(3)]
        assert eventually(lambda: len(beats.reports) > 3)
    beats.error = None

    assert statuses == [Status.NEW] * 3
    assert eventually(lambda: counts(store) == Counts(new=3, runs=3))
    assert len([one for one in caplog.records if one.name == reporting.__name__]) == 1
    guard.close()


def test_counts_that_were_swept_after_a_silence_are_counted_once(
    store: MemoryHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "FORGOTTEN_AFTER", timedelta(0))
    guard = protect("charge", history=store)

    for n in range(3):
        charge(guard, f"order-{n}")
        guard.close()
        drive(store.control.sweep(silence=timedelta(days=-1)))

    assert counts(store) == Counts(new=3, runs=3)
    assert not overview(store).had_consumer("charge")


def test_a_store_without_records_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    beats, store = Beats(monkeypatch), MemoryHistory()

    def nothing_beside(_: KeepsBeside) -> None:
        return None

    monkeypatch.setattr(reporting, "beside_of", nothing_beside)
    guard = protect("charge", history=store)

    charge(guard, "order-1")
    guard.close()
    charge(guard, "order-2")
    guard.close()

    assert beats.reports == []


def test_a_forked_worker_reports_its_own_counts_and_not_its_parents(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite3"
    guard = protect("charge", history=url)
    charge(guard, "order-1", "order-2")

    workers = [_forked(guard, f"order-{n}") for n in range(3, 6)]

    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0, 0, 0]
    guard.close()
    store = open_history(url)
    assert counts(store) == Counts(new=5, runs=5)
    drive(store.close())


def _forked(guard: Guard, uuid: str) -> int:
    """Fork while a lock of the counts is held, as another thread might hold it; return the child's id."""
    reports = reports_to(str(guard.trigger.history_source))
    with reports._lock:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (the moment of the fork)
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        charge(guard, uuid)
        guard.close()
        status = 0
    finally:
        os._exit(status)


class Closing(MemoryHistory):
    closed = False

    async def close(self) -> None:
        self.closed = True
        await super().close()


def test_reports_that_nobody_keeps_close_the_history_that_they_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Closing()

    def opening(_url: str) -> Closing:
        return store

    monkeypatch.setattr(reporting, "PAUSE", 0.01)
    monkeypatch.setattr(reporting, "open_history", opening)
    reports = CountReports("redis://away")
    reports.add("charge", {"new": 1})
    eventually(lambda: counts(store).new == 1)
    assert not store.closed

    del reports

    eventually(lambda: gc.collect() >= 0 and store.closed)


#: A program that ends without closing its guard.
SCRIPT = """
import multiprocessing, sys
from triggers.guards import protect
from triggers.metrics import reporting

reporting.PATIENCE = 60.0
guard = protect("charge", history=sys.argv[1])
guard.handle("order-1", lambda: None)
"""

#: The rest of the program: a child that skips its parent's exit handlers.
CHILD = """
child = multiprocessing.get_context("fork").Process(target=guard.handle, args=("order-2", str))
child.start()
child.join()
sys.exit(child.exitcode)
"""


@pytest.mark.parametrize(("program", "runs"), [(SCRIPT, 1), (SCRIPT + CHILD, 2)], ids=["program", "child"])
def test_what_ends_without_closing_reports_its_last_counts(tmp_path: Path, program: str, runs: int) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite3"

    subprocess.run([sys.executable, "-c", program, url], check=True)

    store = open_history(url)
    assert counts(store) == Counts(new=runs, runs=runs)
    drive(store.close())
