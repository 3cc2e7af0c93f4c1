"""A provider for asyncio that runs its blocking form in a thread."""

import asyncio
import threading
from typing import Any, cast

import pytest

from tests.fixtures.waiting import PATIENCE, eventually
from triggers import ProviderUnavailableError
from triggers.providers.brokers.driven import DrivenProvider, DrivenReceiver
from triggers.providers.brokers.driver_thread import DriverThread


class Blocking:
    """The blocking form: it can be closed once."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = 0
        self._error = error

    async def close(self) -> None:
        self.closed += 1
        if self._error is not None:
            raise self._error


def is_over(name: str) -> bool:
    return not any(thread.name == name for thread in threading.enumerate())


def driven(blocking: Blocking, name: str) -> DrivenProvider[Any]:
    return DrivenProvider(cast("Any", blocking), DriverThread(name))


async def test_it_can_be_closed_twice() -> None:
    blocking = Blocking()
    provider = driven(blocking, "twice")

    await provider.close()
    eventually(lambda: is_over("twice"))
    await asyncio.wait_for(provider.close(), PATIENCE)

    assert blocking.closed == 1


async def test_its_thread_ends_although_closing_fails() -> None:
    provider = driven(Blocking(ProviderUnavailableError("the provider", "closing")), "failing")

    with pytest.raises(ProviderUnavailableError):
        await provider.close()

    eventually(lambda: is_over("failing"))


async def test_a_receiver_that_nobody_waits_for_any_more_is_closed_before_its_thread_ends() -> None:
    begun, goes_on, receiver = threading.Event(), threading.Event(), Blocking()

    async def opening() -> Any:
        begun.set()
        assert goes_on.wait(PATIENCE)
        return receiver

    opened = asyncio.create_task(DrivenReceiver[Any].opened(DriverThread("opening"), opening()))
    await asyncio.to_thread(begun.wait, PATIENCE)
    opened.cancel()
    await asyncio.gather(opened, return_exceptions=True)
    goes_on.set()
    await asyncio.to_thread(eventually, lambda: is_over("opening"))

    assert (opened.cancelled(), receiver.closed) == (True, 1)


async def test_a_result_that_came_just_before_the_task_was_cancelled_is_not_lost() -> None:
    unwanted: list[int] = []
    answered = threading.Event()

    async def answer() -> int:
        return 7

    async def note() -> None:
        answered.set()

    async def take(result: int) -> None:
        unwanted.append(result)

    thread = DriverThread("answering")
    task = asyncio.create_task(thread.do(answer(), unwanted=take))
    after = asyncio.create_task(thread.do(note()))
    await asyncio.sleep(0)
    assert answered.wait(PATIENCE)  # the event loop does not see the answer meanwhile
    task.cancel()
    await asyncio.gather(task, after, return_exceptions=True)
    thread.end()
    await asyncio.to_thread(eventually, lambda: is_over("answering"))

    assert (task.cancelled(), unwanted) == (True, [7])
