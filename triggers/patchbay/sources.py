"""The sources of a Patch Bay: started after every input can receive, and stopped at the end."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from history.errors import ConfigurationError
from history.support.rendering import exception_info
from triggers.patchbay.components import Starts, Stops
from triggers.patchbay.context import MessageContext

_log = logging.getLogger(__name__)

#: How long a source may take to end after the request, in seconds.
PATIENCE = 5.0


@dataclass(slots=True)
class Sources:
    """Runs sources: each in a separate thread, coroutine functions as tasks of the running event loop.

    ``fail`` receives the exceptions of sources.
    """

    components: Mapping[str, Any]
    contexts: Mapping[str, MessageContext]
    fail: Callable[[BaseException], None]
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list["asyncio.Task[None]"])

    def __post_init__(self) -> None:
        for name, component in self.components.items():
            if not isinstance(component, Starts) and not callable(component):
                raise ConfigurationError(
                    f"source {name}",
                    f"a {type(component).__qualname__} has no start_message_source and cannot be called",
                    "write def start_message_source(self), or a function of the context",
                )

    @property
    def needs_loop(self) -> bool:
        """Whether one of them is a coroutine function."""
        return any(inspect.iscoroutinefunction(_begin(component)) for component in self.components.values())

    def start(self) -> None:
        """Start the plain functions."""
        for name, begin in self._all():
            if not inspect.iscoroutinefunction(begin):
                thread = threading.Thread(
                    target=self._run, args=(name, begin), name=f"doubtless-source-{name}", daemon=True
                )
                thread.start()
                self._threads.append(thread)

    def start_tasks(self) -> None:
        """Start the coroutine functions."""
        for name, begin in self._all():
            if inspect.iscoroutinefunction(begin):
                self._tasks.append(asyncio.create_task(self._arun(name, begin), name=f"source-{name}"))

    def _all(self) -> Sequence[tuple[str, Callable[..., Any]]]:
        return [(name, _begin(component)) for name, component in self.components.items()]

    def _run(self, name: str, begin: Callable[..., Any]) -> None:
        try:
            begin(*self._arguments(name))
        except BaseException as error:  # noqa: BLE001  (passed to the caller of the Patch Bay)
            self._failed(name, error)

    async def _arun(self, name: str, begin: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        try:
            await begin(*self._arguments(name))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  (as above)
            self._failed(name, error)

    def _arguments(self, name: str) -> tuple[MessageContext, ...]:
        # A component with a method got its context before; a function gets it now.
        return () if isinstance(self.components[name], Starts) else (self.contexts[name],)

    def _failed(self, name: str, error: BaseException) -> None:
        _log.error("source %s failed: the Patch Bay stops", name, exc_info=exception_info(error))
        self.fail(error)

    def stop(self) -> None:
        """Ask all sources to end, and wait for those in threads, but not for ever."""
        for name, component in self.components.items():
            self.contexts[name].stop()
            if isinstance(component, Stops):
                component.stop_message_source()
        for thread in self._threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                _log.warning(
                    "%s did not end within %g s: it is abandoned with the process", thread.name, PATIENCE
                )

    async def stop_tasks(self) -> None:
        """Wait for sources that are tasks, and cancel tasks that do not end."""
        if self._tasks:
            _, hanging = await asyncio.wait(self._tasks, timeout=PATIENCE)
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)


def _begin(component: Any) -> Callable[..., Any]:
    return component.start_message_source if isinstance(component, Starts) else component
