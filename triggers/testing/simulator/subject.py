"""The trigger under test: a twin of the user's, with points in its service and the run's parts below it."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from history.bridge import drive
from history.errors import ConfigurationError
from history.memory import MemoryHistory
from history.message import Message
from history.store import HistoryStore
from triggers.declaration.trigger import Trigger
from triggers.guards.guard import Guard
from triggers.guards.host import APPLICATIONS
from triggers.guards.keys import key_of
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.undecided import UndecidedClaims
from triggers.service.signatures import innermost, is_async

#: Enters one call of a service.
Invoking = Callable[[str], AbstractContextManager[None]]

#: How long the loop waits for threads that may still answer before it lets time pass, in seconds.
GRACE = 0.002

#: How long to wait for threads that a cancelled task has left behind, in seconds.
LEFT_BEHIND = 5.0

#: How long a service may wait for something else than time, in seconds.
STUCK = 10.0

#: The attributes with the name and the function of a task: Celery, Dramatiq and Taskiq.
_NAMES, _FUNCTIONS = ("name", "actor_name", "task_name"), ("run", "fn", "original_func")

#: The attributes with the options of one task; Celery makes attributes of the options.
_OPTIONS = ("options", "labels", "__dict__")

#: A trigger, and the user's function if the trigger's service only calls that function.
Behind = tuple[Any, Callable[..., Any] | None]


class StuckError(BaseException):
    """The service waits for something that does not come, and no handler may catch this."""


class _Selector(selectors.DefaultSelector):
    """Waits for events, but not for time."""

    passed: Callable[[float], None]
    busy: Callable[[], bool]

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            events = super().select(STUCK)
            if not events and not self.busy():
                raise StuckError
            return events
        if timeout <= 0:
            return super().select(timeout)
        events = super().select(min(timeout, GRACE))
        if not events and not self.busy():
            self.passed(timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that reports the seconds that it did not wait to ``passed``."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        selector = _Selector()
        self._ahead = 0.0
        self._told = passed
        self._calls = 0
        self._pool = ThreadPoolExecutor()
        self._threads: set[Future[Any]] = set()
        selector.passed = self._pass
        selector.busy = lambda: self._calls > 0
        super().__init__(selector)
        self.set_default_executor(self._pool)

    def time(self) -> float:
        """Return the loop's time: the machine's, plus the skipped time."""
        return super().time() + self._ahead

    def run_in_executor(  # type: ignore[override]  # (no simpler signature has its types)
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run in a thread; meanwhile no time is skipped."""
        self._calls += 1
        thread: Future[Any] = (executor or self._pool).submit(func, *args)
        self._threads.add(thread)
        thread.add_done_callback(self._threads.discard)
        future = asyncio.wrap_future(thread, loop=self)
        future.add_done_callback(self._answered)
        return future

    def wait_for_threads(self) -> None:
        """Wait for the threads of cancelled tasks: they would disturb the next run."""
        wait(list(self._threads), LEFT_BEHIND)

    def _answered(self, future: object) -> None:
        del future
        self._calls -= 1

    def _pass(self, seconds: float) -> None:
        self._ahead += seconds
        self._told(seconds)


@dataclass(slots=True)
class Subject:
    """The twin of a trigger that a simulation runs, and the parts that are made once for all of its runs."""

    trigger: Trigger[..., Any]
    twin: Trigger[..., Any]
    store: HistoryStore | None
    #: The user's function, if the trigger's service only calls it.
    function: Callable[..., Any] | None = None
    invoking: list[Invoking] = field(default_factory=list[Invoking])
    passed: list[Callable[[float], None]] = field(default_factory=list[Callable[[float], None]])
    loop: VirtualLoop | None = None
    base: MessagePipeline | None = None

    @classmethod
    def of(cls, subject: Any, call: Callable[[Message], Any] | None = None) -> "Subject":
        """Return the twin of a trigger, also behind a guarded task or a guard, which needs ``call``.

        Raises:
            ConfigurationError: it cannot be simulated.
        """
        trigger, function = trigger_behind(subject, call)
        if not isinstance(trigger, Trigger):
            raise ConfigurationError(
                "trigger",
                f"{trigger!r:.60} is no trigger",
                "give a function decorated with @trigger, a guarded task, or a guard and call=",
            )
        tested = cast("Trigger[..., Any]", trigger)
        if tested.settings.join != "any":
            raise ConfigurationError(
                "trigger", f"{tested.name} joins messages, which is not simulated", "test it with handle()"
            )
        invoking: list[Invoking] = []
        # Parked messages go to the run, never to a server or a file of this machine.
        settings = replace(tested.settings, parking=MemoryHistory().parking)
        twin = tested.adapted(settings, lambda service: _around(service, invoking, function or service))
        store: HistoryStore | None = MemoryHistory()
        if tested.binding.resources:
            store = tested.open_store()
        elif not tested.has_history:
            store = None
        vars(twin).update(_source=store)
        return cls(tested, twin, store, function, invoking)

    @property
    def is_atomic(self) -> bool:
        """Whether effects and history share a transaction."""
        return bool(self.trigger.binding.resources)

    @property
    def services(self) -> Sequence[Callable[..., Any]]:
        """Return the user's functions that run for a message."""
        routes = [route.binding.service for route in self.trigger.routing.routes]
        functions = [self.function or self.trigger.service, *routes, self.trigger.settings.uuid]
        return [function for function in functions if callable(function)]

    def pipeline(self) -> MessagePipeline:
        """Return the pipeline from which the workers' pipelines are made."""
        if self.base is None:
            made = self.run(self._made()) if self.trigger.is_async else self.twin.pipeline()
            self.base = cast("MessagePipeline", made)
        base = self.base
        return replace(base, judge=replace(base.judge, undecided=UndecidedClaims()))

    async def _made(self) -> Any:
        return self.twin.async_pipeline()

    def run(self, work: Any) -> Any:
        """Run a coroutine to its end: driven, or for a coroutine service on a loop that waits for no time."""
        if not self.trigger.is_async:
            return drive(work)
        if self.loop is None:
            self.loop = VirtualLoop(self._pass)
        try:
            return self.loop.run_until_complete(work)
        finally:
            self.loop.wait_for_threads()

    def forget_loop(self) -> None:
        """Start afresh in a forked process, which has no threads and no loop."""
        if self.trigger.is_async:
            self.loop = self.base = None

    def _pass(self, seconds: float) -> None:
        for tell in self.passed:
            tell(seconds)

    def unfinished(self) -> Sequence["asyncio.Task[Any]"]:
        """Return the tasks that a service left running."""
        return [] if self.loop is None else [task for task in asyncio.all_tasks(self.loop) if not task.done()]

    def close(self) -> None:
        """Close what was opened for the simulation."""
        if self.loop is not None:
            if self.store is not None and self.is_atomic:
                self.loop.run_until_complete(self.twin.aclose())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
        else:
            self.twin.close()
        if self.is_atomic and self.store is not None and self.trigger.opens_its_history:
            drive(self.store.close())


def _around(
    service: Callable[..., Any], invoking: list[Invoking], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a service with a point before and after it; ``function`` is the user's function in it."""
    file = getattr(getattr(innermost(function), "__code__", None), "co_filename", "")
    if is_async(service):

        @functools.wraps(service)
        async def acall(*args: Any, **named: Any) -> Any:
            with invoking[-1](file):
                return await service(*args, **named)

        return acall

    @functools.wraps(service)
    def call(*args: Any, **named: Any) -> Any:
        with invoking[-1](file):
            return service(*args, **named)

    return call


def trigger_behind(tested: Any, call: Callable[[Message], Any] | None) -> Behind:
    """Return the trigger to simulate, for a trigger, for a guard with its call, or for a guarded task.

    Raises:
        ConfigurationError: there is none, or ``call`` is missing or superfluous.
    """
    if isinstance(tested, Guard):
        if not callable(call):
            raise ConfigurationError(
                "call", f"guard {tested.name} needs to know what it calls", "give a function of a Message"
            )
        return tested.calling(call), call
    if call is not None:
        raise ConfigurationError("call", "only a guard of protect() takes it", "leave it out")
    behind: Behind = tested, None
    return behind if isinstance(tested, Trigger) else _of_task(tested) or behind


def _of_task(task: Any) -> Behind | None:
    name = next(
        (candidate for attribute in _NAMES if isinstance(candidate := getattr(task, attribute, None), str)),
        None,
    )
    own = next(
        (candidate for attribute in _FUNCTIONS if callable(candidate := getattr(task, attribute, None))), None
    )
    if name is None or own is None:
        return None
    function = _plain(own)
    for guards in APPLICATIONS:
        guarded = guards.tasks().get(name)
        if guarded is not None and _plain(guarded) is function:
            (made,) = [trigger for trigger in guards.triggers(only_callable=True) if trigger.name == name]
            return _known_by(made, _option(task, "uuid"), function), function
    raise ConfigurationError("trigger", f"task {name} is not guarded", "guard its application")


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    inner = innermost(function)
    return cast("Callable[..., Any]", getattr(inner, "__func__", inner))


def _known_by(made: Trigger[..., Any], key: Any, function: Callable[..., Any]) -> Trigger[..., Any]:
    """Return a trigger that identifies its messages by the key of a task, if the task has a key."""
    if key is None:
        return made

    def identity(message: Message) -> Any:
        called = cast("dict[str, Any]", message.body)
        return key_of(made.name, key, function, called["args"], called["kwargs"])

    if callable(key):
        identity.__wrapped__ = key  # type: ignore[attr-defined]  # its memory and clocks are simulated
    return made.configured(replace(made.settings, uuid=identity))


def _option(task: Any, name: str) -> Any:
    for attribute in _OPTIONS:
        options: Any = getattr(task, attribute, None)
        if isinstance(options, dict) and cast("Any", options).get(name) is not None:
            return cast("Any", options)[name]
    return getattr(task, name, None)
