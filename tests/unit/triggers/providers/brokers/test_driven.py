"""A provider for asyncio whose blocking form works in a thread."""

import asyncio
import threading
from typing import Any, cast

import pytest

from tests.fixtures.waiting import PATIENCE, eventually
from triggers import ProviderUnavailableError
from triggers.providers.brokers.driven import DrivenProvider
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
