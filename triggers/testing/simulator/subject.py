"""The trigger under test: a twin of the user's, with points in its service and the run's parts below it."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from history.bridge import drive
from history.errors import ConfigurationError
from history.memory import MemoryHistory
from history.message import Message
from history.store import HistoryStore
from triggers.declaration.trigger import Trigger
from triggers.guards.behind import trigger_behind
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.undecided import UndecidedClaims
from triggers.service.signatures import innermost, is_async
from triggers.testing.simulator.loop import VirtualLoop

#: Enters one call of a service.
Invoking = Callable[[str], AbstractContextManager[None]]


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
    def of(cls, given: Any, call: Callable[[Message], Any] | None = None) -> "Subject":
        """Return the twin of a trigger, also behind a guarded task or a guard, which needs ``call``.

        Raises:
            ConfigurationError: it cannot be simulated.
        """
        trigger, function = trigger_behind(given, call)
        if not isinstance(trigger, Trigger):
            raise ConfigurationError(
                "trigger",
                f"{trigger!r:.60} is no trigger",
                "give a function decorated with @trigger, a guarded task, or a guard and call=",
            )
        known = cast("Trigger[..., Any]", trigger)
        if known.settings.join != "any":
            raise ConfigurationError(
                "trigger", f"{known.name} joins messages, which is not simulated", "test it with handle()"
            )
        invoking: list[Invoking] = []
        # Parked messages go to the run, never to a server or a file of this machine.
        settings = replace(known.settings, parking=MemoryHistory().parking)
        twin = known.adapted(settings, lambda service: _around(service, invoking, function or service))
        store: HistoryStore | None = MemoryHistory()
        if known.binding.resources:
            store = known.open_store()
        elif not known.has_history:
            store = None
        vars(twin).update(_source=store)
        return cls(known, twin, store, function, invoking)

    @property
    def is_atomic(self) -> bool:
        """Whether effects and history share a transaction."""
        return bool(self.trigger.binding.resources)

    @property
    def services(self) -> Sequence[Callable[..., Any]]:
        """Return the user's functions that run for a message."""
        routes = [route.binding.service for route in self.trigger.routing.routes]
        given = [self.function or self.trigger.service, *routes, self.trigger.settings.uuid]
        return [innermost(one) for one in given if callable(one)]

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
