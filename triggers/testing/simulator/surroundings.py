"""What a simulated service uses of its process: clocks, locks, threads and pools of threads.

:func:`patched` replaces what all code shares, and :class:`StandIns` the clocks and locks that a service
names. Clocks follow the run's time: ``datetime.now``, ``date.today`` and those of ``time``, named as modules
or separately. Locks are always free: a copy that comes meanwhile runs in another process, which has its own
locks.
"""

import asyncio
import builtins
import datetime as dt
import logging
import multiprocessing
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinMethodType, ModuleType
from typing import Any, Self, cast
from unittest.mock import patch

from history.errors import ConfigurationError
from triggers.testing.simulator.course import BEGINNING, Course
from triggers.testing.simulator.process_memory import modules_of, named_by
from triggers.testing.simulator.subject import STUCK, StuckError

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
    "clock_gettime": 1,
    "clock_gettime_ns": 10**9,
}

#: The functions of the module ``time`` that show a time: the current time, if their last argument is missing.
_SHOWING = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}

#: Modules with threads that are never held back.
MACHINERY = frozenset({"concurrent", "asyncio", "aiosqlite", "sqlalchemy", "history", "triggers", "logging"})


class FreeLock:
    """A lock that nobody else has."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

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


#: The locks of threads and processes, by the modules that make them.
_LOCKS = dict.fromkeys(("Lock", "RLock", "Semaphore", "BoundedSemaphore"), FreeLock)
_ASYNC_LOCKS = dict.fromkeys(("Lock", "Semaphore", "BoundedSemaphore"), FreeAsyncLock)
_MAKERS: dict[ModuleType, dict[str, type[FreeLock]]] = {
    threading: _LOCKS,
    multiprocessing: _LOCKS,
    asyncio: _ASYNC_LOCKS,  # type: ignore[dict-item]
}


@dataclass(slots=True)
class StandIns:
    """The replacements, and the originals to put back. ``ahead`` is how many seconds the run is ahead."""

    ahead: Callable[[], float]
    #: Whether the service has asked a clock.
    asked: bool = False
    _put_back: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _copies: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])

    def put(self, services: Iterable[Callable[..., Any]]) -> None:
        """Replace the clocks and locks of the services and of their modules.

        Raises:
            ConfigurationError: a service waits for another thread, or its lock cannot be replaced.
        """
        modules: list[int] = []
        for service in services:
            for name, value, assign, is_named in list(named_by(service)):
                if is_named and isinstance(value, _WAITING):
                    raise _waiting(name, value)
                instead = self._instead_of(value)
                if instead is None:
                    continue
                if assign is not None:
                    self._put_back.append(partial(assign, value))
                    assign(instead)
                elif is_named and isinstance(instead, FreeLock):
                    raise _waiting(name, value)
            modules += map(id, modules_of(service))
        self._importing_into(modules)

    def _importing_into(self, modules: Sequence[int]) -> None:
        """Replace what a function of these modules imports in itself."""
        load = builtins.__import__

        def simulated(name: str, into: Any = None, *rest: Any, **named: Any) -> Any:
            module = load(name, into, *rest, **named)
            instead = self._instead_of(module) if id(into) in modules else None
            return module if instead is None else instead

        self._put_back.append(partial(setattr, builtins, "__import__", load))
        setattr(builtins, "__import__", simulated)  # noqa: B010  (its type has the names of the arguments)

    def take_away(self) -> None:
        """Put everything back."""
        for put_back in reversed(self._put_back):
            put_back()
        self._put_back.clear()

    def _instead_of(self, value: Any) -> Any:
        if id(value) in self._copies:
            return self._copies[id(value)][1]
        instead = self._lock_instead_of(value) or self._clock_instead_of(value)
        if instead is not None:
            self._copies[id(value)] = value, instead  # the original stays alive, and so does its number
        return instead

    def _lock_instead_of(self, value: Any) -> Any:
        made_by = cast("Any", type(value))
        if issubclass(made_by, (asyncio.Lock, asyncio.Semaphore)):
            return FreeAsyncLock()
        if issubclass(made_by, (type(threading.Lock()), type(threading.RLock()), threading.Semaphore)):
            return FreeLock()
        if made_by.__module__ == "multiprocessing.synchronize" and hasattr(value, "acquire"):
            return FreeLock()
        for module, makers in _MAKERS.items():
            if value is module:
                return _like(module, **makers)
            for name, maker in makers.items():
                if value is getattr(module, name):
                    return maker
        return None

    def _clock_instead_of(self, value: Any) -> Any:
        whole: dict[int, Callable[[], Any]] = {
            id(dt.datetime): self._datetime,
            id(dt.date): self._date,
            id(dt): lambda: _like(dt, datetime=self._datetime(), date=self._date()),
            id(time): lambda: _like(time, **dict(zip(_REAL, map(self._clock, _REAL), strict=True))),
        }
        if id(value) in whole:
            return whole[id(value)]()
        for name, real in _REAL.items():
            if value is real:
                return self._clock(name)
        if type(value) is BuiltinMethodType and (value.__self__ is dt.datetime or value.__self__ is dt.date):
            return getattr(self._instead_of(value.__self__), value.__name__)
        if type(value) is partial:
            instead = self._instead_of(value.func)
            return None if instead is None else partial(instead, *value.args, **value.keywords)
        return None

    def _ahead(self) -> float:
        self.asked = True
        return self.ahead()

    def _clock(self, name: str) -> Callable[..., Any]:
        real = _REAL[name]
        if name in _CLOCKS:
            a_second = _CLOCKS[name]
            if a_second == 1:
                return lambda *clock: real(*clock) + self._ahead()
            return lambda *clock: real(*clock) + int(self._ahead() * a_second)
        usual = _SHOWING[name]

        def shown(*given: Any) -> Any:
            if len(given) > usual and given[usual] is not None:
                return real(*given)
            now = _REAL["time"]() + self._ahead()
            return real(*given[:usual], _REAL["localtime"](now) if name in {"asctime", "strftime"} else now)

        return shown

    def _datetime(self) -> type[dt.datetime]:
        ahead = self._ahead

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


def _waiting(name: str, value: Any) -> ConfigurationError:
    return ConfigurationError(
        "trigger",
        f"its service uses {name}, a {type(value).__name__}, and runs in one thread here",
        "test it with handle(), or give the service something else while it is simulated",
    )


#: The original clocks, before any replacement.
_REAL: dict[str, Callable[..., Any]] = {name: getattr(time, name) for name in (*_CLOCKS, *_SHOWING)}


def _like(module: ModuleType, **others: Any) -> ModuleType:
    """Return a module with some other names, which is otherwise the same."""
    like = ModuleType(module.__name__, module.__doc__)
    like.__getattr__ = lambda name: getattr(module, name)  # type: ignore[method-assign]
    vars(like).update(others)
    return like


@contextmanager
def patched(course: Callable[[], Course | None]) -> Generator[None]:
    """Make ``time.sleep``, ``time.time`` and threads of this thread's services those of the run."""
    own, sleep, clock, start, join = (
        threading.get_ident(),
        time.sleep,
        time.time,
        threading.Thread.start,
        threading.Thread.join,
    )

    def simulated_sleep(seconds: float, /) -> None:
        run = course()
        if run is None or threading.get_ident() != own:
            sleep(seconds)
        else:
            run.pass_time(seconds)

    def simulated_time() -> float:
        run = course()
        ahead = 0.0 if run is None else (run.now() - BEGINNING).total_seconds()
        return clock() + ahead

    def simulated_start(thread: threading.Thread) -> None:
        run = course()
        target = vars(thread).get("_target") if type(thread) is threading.Thread else None
        home = str(getattr(target, "__module__", None)).partition(".")[0]
        ours = target is not None and home not in MACHINERY
        if run is None or threading.get_ident() != own or not ours or not run.leave_running(thread):
            start(thread)

    def simulated_join(thread: threading.Thread, timeout: float | None = None) -> None:
        run = course()
        if run is None or not run.join(thread):
            join(thread, timeout)

    with (
        _answering(course),
        patch.object(ThreadPoolExecutor, "submit", submitting(course)),
        patch.object(time, "sleep", simulated_sleep),
        patch.object(time, "time", simulated_time),
        patch.object(threading.Thread, "start", simulated_start),
        patch.object(threading.Thread, "join", simulated_join),
    ):
        yield


@contextmanager
def _answering(course: Callable[[], Course | None]) -> Generator[None]:
    """Run the threads of this thread's services when a service waits for an answer of one of them."""
    own, wait = threading.get_ident(), threading.Event.wait
    get, put = queue.Queue[Any].get, queue.Queue[Any].put

    def patience(timeout: float | None) -> float | None:
        """Run the threads of a service that waits, and return how long it may wait then."""
        run, caller = course(), str(sys._getframe(2).f_globals.get("__name__")).partition(".")[0]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if run is None or threading.get_ident() != own or caller in MACHINERY | {"threading"}:
            return timeout
        run.run_left_running()
        return STUCK if timeout is None else timeout

    def simulated_wait(event: threading.Event, timeout: float | None = None) -> bool:
        longest = timeout if event.is_set() else patience(timeout)
        was_set = wait(event, longest)
        if not was_set and timeout is None:
            raise StuckError
        return was_set

    def simulated_get(items: "queue.Queue[Any]", block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002  (as in Python)
        longest = patience(timeout) if block and items.empty() else timeout
        with _or_stuck(queue.Empty, for_ever=block and timeout is None):
            return get(items, block, longest)

    def simulated_put(
        items: "queue.Queue[Any]",
        item: Any,
        block: bool = True,  # noqa: FBT001, FBT002  (as in Python)
        timeout: float | None = None,
    ) -> None:
        longest = patience(timeout) if block and items.full() else timeout
        with _or_stuck(queue.Full, for_ever=block and timeout is None):
            put(items, item, block, longest)

    with (
        patch.object(threading.Event, "wait", simulated_wait),
        patch.object(queue.Queue, "get", simulated_get),
        patch.object(queue.Queue, "put", simulated_put),
    ):
        yield


@contextmanager
def _or_stuck(gave_up: type[Exception], *, for_ever: bool) -> Generator[None]:
    try:
        yield
    except gave_up:
        if for_ever:
            raise StuckError from None
        raise


@contextmanager
def quiet() -> Generator[None]:
    """Silence the library's log, and asyncio's about tasks that died: the report shows hundreds of deaths."""
    loggers = [logging.getLogger(name) for name in ("triggers", "history", "resolvers", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def submitting(course: Callable[[], Course | None]) -> Callable[..., "Future[Any]"]:
    """Return the replacement of ``ThreadPoolExecutor.submit`` in the calling thread."""
    own, submit = threading.get_ident(), ThreadPoolExecutor.submit

    def simulated(
        pool: ThreadPoolExecutor, work: Callable[..., Any], /, *positional: Any, **named: Any
    ) -> Any:
        run = course()
        # Named by the calling function: an event loop waits for its threads by itself.
        caller = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        if run is not None and threading.get_ident() == own and caller not in MACHINERY - {"concurrent"}:
            later = Later(partial(work, *positional, **named))
            if run.leave_running(later.thread):
                return later
        return submit(pool, work, *positional, **named)

    return simulated


class Later(Future[Any]):
    """Runs when its result is needed, or else in the background of its service."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = None
        super().__init__()
        self._work = work
        self.thread = threading.Thread(target=self._begin)

    @property
    def _state(self) -> str:
        self._begin()
        return self._known

    @_state.setter
    def _state(self, state: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._known = state

    def _begin(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        try:
            self.set_result(work())
        except Exception as error:  # noqa: BLE001  (the future keeps it, whatever it is)
            self.set_exception(error)
