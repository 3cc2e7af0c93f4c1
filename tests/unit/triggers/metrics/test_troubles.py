"""Troubles that a consumer reports: many messages fail, or calls do not end."""

import asyncio
import threading

import pytest

from history.store.control import Counts, TroubleKind
from triggers.metrics import troubles
from triggers.metrics.troubles import Begun, Failing, hanging


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(troubles, "LONG", 0.0)


class TestFailing:
    def test_one_in_twenty_is_no_trouble(self) -> None:
        failing = Failing()
        assert failing.trouble() is None
        for number in range(1, 101):
            failing.note("no room" if number % 20 == 0 else None)

        assert failing.trouble() is None

    def test_one_in_five_is_told_with_its_error_and_their_number(self) -> None:
        failing = Failing()
        for number in range(50):
            failing.note(f"no room in {number}" if number % 5 == 0 else None)

        trouble = failing.trouble()
        assert trouble is not None
        assert (trouble.kind, trouble.cause, trouble.count) == (TroubleKind.FAILING, "no room in 45", 10)

    def test_it_is_over_when_messages_run_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(troubles, "PERIOD", 0.0)
        failing = Failing()
        for _ in range(10):
            failing.note("no room")
        for _ in range(40):
            failing.note(None)

        assert failing.trouble() is None

    def test_a_failure_of_long_ago_is_no_trouble_any_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failing = Failing()
        failing.note("no room")
        monkeypatch.setattr(troubles, "PASSED", -1.0)

        assert failing.trouble() is None


def charge(entered: threading.Event, goes_on: threading.Event) -> None:
    entered.set()
    goes_on.wait()


@pytest.mark.usefixtures("at_once")
class TestHanging:
    def test_the_line_in_which_a_thread_hangs_is_named(self) -> None:
        entered, goes_on = threading.Event(), threading.Event()
        begun: list[Begun] = []

        def work() -> None:
            begun.append(Begun.now())
            charge(entered, goes_on)

        thread = threading.Thread(target=work)
        thread.start()
        entered.wait()
        found = hanging(begun, Counts())
        goes_on.set()
        thread.join()

        assert found is not None
        assert (found.kind, found.count) == (TroubleKind.HANGING, 1)
        assert found.cause.startswith("TestHanging.test_the_line_in_which_a_thread_hangs_is_named")
        assert "(test_troubles.py:" in found.cause

    async def test_the_line_in_which_a_task_hangs_is_named(self) -> None:
        begun: list[Begun] = []
        entered = asyncio.Event()

        async def look_up() -> None:
            begun.append(Begun.now())
            entered.set()
            await asyncio.sleep(3600)

        task = asyncio.create_task(look_up())
        await entered.wait()
        found = hanging(begun, Counts())
        task.cancel()

        assert found is not None
        assert "look_up (test_troubles.py:" in found.cause

    def test_a_call_that_takes_as_long_as_usual_does_not_hang(self) -> None:
        hour = Counts(runs=1, microseconds=3_600_000_000)

        assert hanging([Begun.now()], hour) is None


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("apart", [0.0, 1.0], ids=["at the same time", "one after another"])
async def test_the_oldest_of_several_tasks_says_since_when(apart: float) -> None:
    async def work() -> Begun:
        return Begun.now()

    one, other = await asyncio.gather(work(), work())
    begun = [one._replace(at=one.at - 5), other._replace(at=one.at - 5 + apart)]

    found = hanging(begun, Counts())

    assert found is not None
    assert (found.count, found.elapsed >= 5) == (2, True)
