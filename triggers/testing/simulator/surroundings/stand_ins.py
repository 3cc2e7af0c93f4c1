"""Replacements, during a simulation, of the clocks and locks that a service names.

Clocks follow the run's time: ``datetime.now``, ``date.today`` and those of ``time``, named as modules or
separately. Locks are always free: a copy that comes meanwhile runs in another process, which has its own
locks.
"""

import asyncio
import datetime as dt
import threading
import time as times
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Self

from history.errors import ConfigurationError
from triggers.testing.simulator.process_memory import named_by

_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Semaphore, asyncio.Lock)
_SEMAPHORES = (asyncio.Semaphore,)
#: These wait for another thread, and there is none here.
_WAITING = (threading.Condition, threading.Barrier, asyncio.Condition, asyncio.Barrier)

#: The clocks of the module ``time``, and how many of their units a second has.
_CLOCKS = {
    "time": 1,
    "time_ns": 10**9,
    "monotonic": 1,
    "monotonic_ns": 10**9,
    "perf_counter": 1,
    "perf_counter_ns": 10**9,
}


class FreeLock:
    """A lock that nobody else has."""

    def acquire(self, *_: Any, **__: Any) -> bool:
        """Take it."""
        return True

    def release(self, *_: Any) -> None:
        """Release it."""

    def locked(self) -> bool:
        """Whether somebody has it."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release it."""


class FreeAsyncLock(FreeLock):
    """The same for coroutines."""

    async def acquire(self, *_: Any, **__: Any) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take it."""
        return True

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        """Release it."""


@dataclass(slots=True)
class StandIns:
    """The replacements, and the originals to put back. ``ahead`` is how many seconds the run is ahead."""

    ahead: Callable[[], float]
    #: Whether the service names a clock, so that a long time makes a difference.
    clocks: bool = False
    _put_back: list[tuple[Callable[[Any], None], Any]] = field(
        default_factory=list[tuple[Callable[[Any], None], Any]]
    )

    def put(self, services: Iterable[Callable[..., Any]]) -> None:
        """Replace the clocks and locks that the services name.

        Raises:
            ConfigurationError: a service waits for another thread.
        """
        known: dict[int, Any] = {}
        for service in services:
            for name, value, assign in named_by(service):
                instead = known.setdefault(id(value), self._instead_of(name, value))
                if instead is not None and assign is not None:
                    self._put_back.append((assign, value))
                    assign(instead)

    def take_away(self) -> None:
        """Put everything back."""
        for assign, value in reversed(self._put_back):
            assign(value)
        self._put_back.clear()

    def _instead_of(self, name: str, value: Any) -> Any:
        if isinstance(value, _WAITING):
            raise ConfigurationError(
                "trigger",
                f"its service uses {name}, a {type(value).__name__}, and runs in one thread here",
                "test it with handle(), or give the service something else while it is simulated",
            )
        if isinstance(value, (asyncio.Lock, *_SEMAPHORES)):
            return FreeAsyncLock()
        if isinstance(value, _LOCKS):
            return FreeLock()
        clock = self._clock_instead_of(value)
        self.clocks = self.clocks or clock is not None
        return clock

    def _clock_instead_of(self, value: Any) -> Any:
        if value is dt.datetime:
            return self._datetime()
        if value is dt.date:
            return self._date()
        if value is dt:
            return _like(dt, datetime=self._datetime(), date=self._date())
        if value is times:
            return _like(times, **{name: self._clock(name) for name in _CLOCKS})
        for name in _CLOCKS:
            if value is _REAL[name]:
                return self._clock(name)
        return None

    def _clock(self, name: str) -> Callable[[], float]:
        real, a_second = _REAL[name], _CLOCKS[name]
        if a_second == 1:
            return lambda: real() + self.ahead()
        return lambda: real() + int(self.ahead() * a_second)

    def _datetime(self) -> type[dt.datetime]:
        ahead = self.ahead

        class Simulated(dt.datetime, metaclass=_Alike):
            stands_for = dt.datetime

            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> Any:
                return dt.datetime.now(tz) + dt.timedelta(seconds=ahead())

            @classmethod
            def utcnow(cls) -> Any:
                return cls.now(dt.UTC).replace(tzinfo=None)

            @classmethod
            def today(cls) -> Any:
                return cls.now()

        return Simulated

    def _date(self) -> type[dt.date]:
        now = self._datetime().now

        class Simulated(dt.date, metaclass=_Alike):
            stands_for = dt.date

            @classmethod
            def today(cls) -> Any:
                return now().date()

        return Simulated


class _Alike(type):
    """The type of a class that makes instances of the original, and accepts them as its own."""

    stands_for: type

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return cls.stands_for(*arguments, **named)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.stands_for)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.stands_for)


#: The original clocks, before any replacement.
_REAL: dict[str, Callable[[], Any]] = {name: getattr(times, name) for name in _CLOCKS}


def _like(module: ModuleType, **others: Any) -> ModuleType:
    """Return a module with some other names, which is otherwise the same."""
    like = ModuleType(module.__name__, module.__doc__)
    like.__getattr__ = lambda name: getattr(module, name)  # type: ignore[method-assign]
    vars(like).update(others)
    return like
