"""Both shells behave the same: each test runs over threads and over tasks."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from history.bridge import drive
from history.shell import Condition, Flag, Shell, TaskShell, ThreadShell, fail, fulfil
from history.support.fair import FairSemaphore
from tests.fixtures.waiting import PATIENCE, eventually

#: Seconds: long enough to notice, and short enough to wait for something that must not happen.
A_MOMENT = 0.02

Test = Callable[[Shell], Coroutine[Any, Any, None]]


@pytest.fixture(params=["threads", "tasks"])
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Run a coroutine function with a shell of either kind."""

    def run_with_tasks(test: Test) -> None:
        async def tested() -> None:
            await test(TaskShell())

        asyncio.run(tested())

    def run_with_threads(test: Test) -> None:
        drive(test(ThreadShell()))

    return run_with_threads if request.param == "threads" else run_with_tasks


Run = Callable[[Test], None]


def over_both(test: Test) -> Callable[[Run], None]:
    """Make two tests of a function that uses a shell: one over threads, one over tasks."""

    def tested(run: Run) -> None:
        run(test)

    return tested


@over_both
async def test_a_flag_is_waited_for_until_it_is_set(shell: Shell) -> None:
    flag = shell.flag()
    assert not await flag.wait(A_MOMENT)

    async def set_it() -> None:
        flag.set()

    shell.spawn("setting", set_it)
    assert await flag.wait(PATIENCE)
    assert flag.is_set()
    flag.clear()
    assert not await flag.wait(0)


@over_both
async def test_what_is_spawned_runs_until_the_shell_is_over(shell: Shell) -> None:
    ended: list[str] = []

    async def background() -> None:
        await shell.over.wait(PATIENCE)
        ended.append("ended")

    shell.spawn("waiting", background)
    shell.spawn("waiting, too", background)
    assert ended == []
    shell.over.set()
    await shell.join(PATIENCE)
    assert ended == ["ended", "ended"]


@over_both
async def test_joining_with_nothing_spawned_is_harmless(shell: Shell) -> None:
    await shell.join()
    await shell.join(A_MOMENT)


@over_both
async def test_who_joins_from_within_does_not_wait_for_itself(shell: Shell) -> None:
    joined = shell.flag()

    async def background() -> None:
        await shell.join()
        joined.set()

    shell.spawn("joining", background)
    assert await joined.wait(PATIENCE)


def test_what_fails_in_the_background_is_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test(shell: Shell) -> None:
        async def background() -> None:
            raise RuntimeError("a mistake")

        shell.spawn("failing", background)
        await shell.join()

    run(test)

    assert "failing ended unexpectedly" in caplog.text
    assert "a mistake" in caplog.text


@over_both
async def test_a_lock_lets_one_in_at_a_time(shell: Shell) -> None:
    lock, inside, most = shell.lock(), 0, 0

    async def background() -> None:
        nonlocal inside, most
        async with lock:
            inside += 1
            most = max(most, inside)
            await shell.sleep(A_MOMENT)
            inside -= 1

    for number in range(3):
        shell.spawn(f"entering {number}", background)
    await shell.join()
    assert most == 1


@over_both
async def test_a_semaphore_lets_in_as_many_as_it_has_permits(shell: Shell) -> None:
    semaphore = shell.semaphore(0)
    entered: list[int] = []

    async def background() -> None:
        await semaphore.acquire()
        entered.append(1)
        async with semaphore:
            entered.append(2)

    shell.spawn("entering", background)
    assert entered == []
    semaphore.release()
    semaphore.release()
    await shell.join()
    assert entered == [1, 2]


@over_both
async def test_a_permit_goes_to_those_who_wait_before_who_gave_it_back_and_asks_again(shell: Shell) -> None:
    semaphore = shell.semaphore(1)
    entered: list[str] = []

    async def enter(name: str, asking: Flag) -> None:
        asking.set()
        async with semaphore:
            entered.append(name)

    async with semaphore:
        for name in ("first", "second", "third"):
            asking = shell.flag()
            shell.spawn(name, partial(enter, name, asking))
            assert await asking.wait(PATIENCE)
        await shell.sleep(A_MOMENT)  # the last one has announced its call, and makes it now
    async with semaphore:
        entered.append("again")
    await shell.join()
    assert entered == ["first", "second", "third", "again"]


def test_who_stops_waiting_for_a_permit_takes_none() -> None:
    semaphore = FairSemaphore(0)

    def interrupt(*_: object) -> None:
        raise InterruptedError

    def interrupt_who_waits() -> None:
        eventually(lambda: semaphore.waiting)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        killing = threading.Thread(target=interrupt_who_waits)
        killing.start()
        with pytest.raises(InterruptedError):
            semaphore.acquire()
        killing.join()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert semaphore.waiting == 0
    semaphore.release()
    assert semaphore.acquire()
    assert semaphore.locked()


def test_a_signal_that_another_thread_gets_is_seen_while_threads_are_joined() -> None:
    seen = threading.Event()
    shell = ThreadShell()
    waits: list[bool] = []

    def note(*_: object) -> None:
        seen.set()

    async def raise_it_and_wait() -> None:
        signal.raise_signal(signal.SIGUSR1)  # goes to this thread
        waits.append(seen.wait(PATIENCE))

    before = signal.signal(signal.SIGUSR1, note)
    try:
        shell.spawn("signalled", raise_it_and_wait)
        drive(shell.join())
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert waits == [True]


@over_both
async def test_a_function_is_called_and_what_it_raises_is_raised(shell: Shell) -> None:
    assert await shell.call("calling", lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        await shell.call("calling", lambda: 1 // 0)


@over_both
async def test_a_future_is_waited_for_and_not_cancelled(shell: Shell) -> None:
    future: Future[str] = Future()
    with pytest.raises(TimeoutError):
        await shell.result(future, A_MOMENT)
    fulfil(future, "done")
    fail(future, RuntimeError("too late"))
    assert await shell.result(future, 0) == "done"


def test_a_change_wakes_who_waits_for_it_in_whatever_thread(run: Run) -> None:
    condition = Condition()

    def change() -> None:
        with condition.changed:
            condition.announce()

    async def test(shell: Shell) -> None:
        await condition.wait(shell, 0, A_MOMENT)
        assert condition.changes == 0
        thread = threading.Thread(target=change)
        thread.start()
        await condition.wait(shell, 0, PATIENCE)
        thread.join(PATIENCE)
        assert condition.changes == 1
        # One that came before is not slept through.
        await condition.wait(shell, 0, PATIENCE)

    run(test)


def test_the_event_loop_goes_on_while_a_function_takes_its_time() -> None:
    async def test() -> None:
        shell = TaskShell()
        may_end = threading.Event()
        called = asyncio.create_task(shell.call("hanging", lambda: may_end.wait(PATIENCE)))
        await asyncio.sleep(0)
        may_end.set()
        assert await called

    asyncio.run(test())


def test_an_event_loop_ends_before_a_function_that_hangs() -> None:
    may_end = threading.Event()

    async def test() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(TaskShell().call("hanging", lambda: may_end.wait(PATIENCE)), A_MOMENT)

    asyncio.run(test())

    assert any(thread.name == "hanging" for thread in threading.enumerate())
    may_end.set()
    eventually(lambda: all(thread.name != "hanging" for thread in threading.enumerate()))


@pytest.mark.parametrize("seconds", [A_MOMENT, None])
def test_tasks_that_hang_are_cancelled(seconds: float | None) -> None:
    async def test() -> None:
        shell = TaskShell()
        cancelled: list[bool] = []

        async def background() -> None:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                cancelled.append(True)
                raise

        shell.spawn("hanging", background)
        if seconds is None:  # without a time limit: the waiting task itself is cancelled
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(shell.join(), A_MOMENT)
        else:
            await shell.join(seconds)
        assert cancelled == [True]

    asyncio.run(test())


def test_what_must_come_to_its_end_does_so_though_its_task_is_cancelled_again_and_again() -> None:
    async def ended() -> tuple[bool, bool]:
        begun, may_end, has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            await may_end.wait()
            has_ended.set()

        task = asyncio.create_task(TaskShell().finish(work()))
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        waits = not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return waits, has_ended.is_set()

    assert asyncio.run(ended()) == (True, True)


def test_who_is_cancelled_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("history.shell.PATIENCE", A_MOMENT)

    async def ended() -> bool:
        may_end, has_ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            await may_end.wait()
            has_ended.set()

        task = asyncio.create_task(TaskShell().finish(work()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_end.set()
        await asyncio.wait_for(has_ended.wait(), PATIENCE)
        return True

    assert asyncio.run(ended())


@over_both
async def test_what_is_finished_returns_and_raises_as_it_does(shell: Shell) -> None:
    async def one() -> int:
        return 1

    async def fails() -> int:
        raise KeyError("no")

    assert await shell.finish(one()) == 1
    with pytest.raises(KeyError):
        await shell.finish(fails())
