"""Another thread works while this process forks: the child finds no half-done work and no taken lock."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from history import MemoryHistory
from history.contract.forks import DONE, ended
from history.redis.connection.forks import survive_forks
from history.support.forks import forkable_lock, without_forks


def fork(is_well: Callable[[], bool]) -> int:
    """Return the number of a forked child, which reports whether all is well there."""
    return os.fork() or os._exit(DONE if is_well() else 1)


def test_a_fork_waits_for_work_that_it_must_not_interrupt() -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        with without_forks():
            begun.set()
            may_end.wait()
            done.append("imported")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    begun.wait()
    threading.Timer(0.05, may_end.set).start()

    child = fork(lambda: done == ["imported"])

    assert asyncio.run(ended([child])) == [DONE]
    thread.join()
    with without_forks():
        again = fork(lambda: True)
    assert asyncio.run(ended([again])) == [DONE]


def of_pool() -> Any:
    client = redis.Redis()
    survive_forks(client)
    return vars(client.connection_pool)["_lock"]


def of_memory() -> Any:
    return vars(MemoryHistory())["_lock"]


@pytest.mark.parametrize("made", [forkable_lock, of_pool, of_memory])
def test_a_lock_that_another_thread_holds_is_free_in_a_child(made: Callable[[], Any]) -> None:
    lock, held, may_end = made(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            may_end.wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait()

    child = fork(lambda: lock.acquire(blocking=False))

    assert asyncio.run(ended([child])) == [DONE]
    assert not lock.acquire(blocking=False), "it is still held in the parent"
    may_end.set()
    thread.join()
