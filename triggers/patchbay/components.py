"""From "package.module:name" to a component, and to the service of a trigger; sources and how they run."""

import asyncio
import inspect
import logging
import threading
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol, cast, runtime_checkable

from history.bridge import settled
from history.errors import ConfigurationError
from history.support.rendering import exception_info
from resolvers.loading import load_attribute
from triggers.patchbay.context import MessageContext, running
from triggers.service.checking import check_plain, check_takes
from triggers.service.signatures import is_async

#: A function that may be a coroutine function.
Service = Callable[..., Any]

_log = logging.getLogger(__name__)

#: How long a source may take to end after the request, in seconds.
PATIENCE = 5.0


@runtime_checkable
class Receives(Protocol):
    """A sink or filter. Annotations may add parameters to its method, which may be a coroutine function."""

    def receive_message(self, port: str, message: Any) -> Any:
        """Process a message that came in by a port; an exception rolls it back."""
        ...


@runtime_checkable
class WantsContext(Protocol):
    """A component that receives its message context before anything starts."""

    def set_message_context(self, context: MessageContext) -> None:
        """Store the context; it may not send yet, except for a message that has come in."""
        ...


@runtime_checkable
class Starts(Protocol):
    """A source; it may send after its start."""

    def start_message_source(self) -> Any:
        """Begin to send, and return; or send until the context is stopping."""
        ...


@runtime_checkable
class Stops(Protocol):
    """A source that wants to know when it must end."""

    def stop_message_source(self) -> Any:
        """Stop sending. It may be a coroutine function."""
        ...


def load_component(name: str, spec: str) -> Any:
    """Return the object that a component's spec names; for a class, an instance.

    Raises:
        ConfigurationError: naming the component and what is wrong.
    """
    try:
        component = load_attribute(spec)
    except ConfigurationError as error:
        raise ConfigurationError(f"component {name}", error.problem, error.remedy) from error
    if not isinstance(component, type):
        return component
    try:
        return cast("Callable[[], Any]", component)()
    except TypeError as error:
        raise ConfigurationError(
            f"component {name}", f"{spec} cannot be made: {error}", "let its constructor take nothing"
        ) from error


def give_context(name: str, component: Any, context: MessageContext) -> None:
    """Give a component its context, if it wants one.

    Raises:
        ConfigurationError: its method is a coroutine function, or takes something else.
    """
    if isinstance(component, WantsContext):
        take = component.set_message_context
        remedy = "write def set_message_context(self, context)"
        check_plain(f"component {name}: set_message_context", take, "a context", remedy=remedy)
        take(context)


def receiving_service(name: str, component: Any) -> Service:
    """Return the function of a sink or filter that is not a trigger.

    Raises:
        ConfigurationError: it has none.
    """
    if isinstance(component, Receives):
        return component.receive_message
    if callable(component):
        return cast("Service", component)
    raise ConfigurationError(
        f"component {name}",
        f"a {type(component).__qualname__} has no receive_message and cannot be called",
        "write def receive_message(self, port, message)",
    )


def bound_to(service: Service, port: str, context: MessageContext) -> Service:
    """Return a service with the parameters ``port`` and ``context`` filled; the trigger fills the others."""
    signature = inspect.signature(service)
    offered: dict[str, Any] = {"port": port, "context": context}
    arguments = {name: offered[name] for name in signature.parameters if name in offered}
    kept = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
    # A parameter after a filled one must be passed by name.
    named = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        if parameter.kind in {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY}
        else parameter
        for parameter in kept
    ]
    run: Service = _filled(around(context)(service), arguments)
    run.__name__ = getattr(service, "__name__", "service")
    run.__qualname__ = getattr(service, "__qualname__", "service")
    run.__module__ = getattr(service, "__module__", __name__)
    vars(run)["__signature__"] = signature.replace(parameters=named)
    hints = _hints(service)
    run.__annotations__ = {name: hint for name, hint in hints.items() if name not in arguments}
    return run


def _filled(service: Service, configured: dict[str, Any]) -> Service:
    """Return a function of keywords that calls a service with additional values."""
    if is_async(service):

        async def arun(**arguments: Any) -> Any:
            return await service(**configured, **arguments)

        return arun

    def run(**arguments: Any) -> Any:
        return service(**configured, **arguments)

    return run


def around(context: MessageContext) -> Callable[[Service], Service]:
    """Return a wrapper that makes the context known to :func:`~.context.current_context`."""

    def wrap(service: Service) -> Service:
        if is_async(service):

            @wraps(service)
            async def arun(*args: Any, **kwargs: Any) -> Any:
                with running(context, (*args, *kwargs.values())):
                    return await service(*args, **kwargs)

            return arun

        @wraps(service)
        def run(*args: Any, **kwargs: Any) -> Any:
            with running(context, (*args, *kwargs.values())):
                return service(*args, **kwargs)

        return run

    return wrap


def _hints(service: Service) -> dict[str, Any]:
    function = service if inspect.isroutine(service) else type(service).__call__
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"service {getattr(service, '__qualname__', service)!s}",
            f"an annotation cannot be read: {error}",
            "import the name in the service's module",
        ) from error


@dataclass(slots=True)
class Sources:
    """Runs sources: each in a separate thread, coroutine functions as tasks of the running event loop.

    ``fail`` receives the exceptions of sources.

    Raises:
        ConfigurationError: a component is not a source.
    """

    components: Mapping[str, Any]
    contexts: Mapping[str, MessageContext]
    fail: Callable[[BaseException], None]
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list["asyncio.Task[None]"])
    _asked: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        for name, component in self.components.items():
            _check_source(name, component)

    @property
    def needs_loop(self) -> bool:
        """Whether one of them is a coroutine function, or stops by one."""
        return any(
            is_async(_begin(component))
            or (isinstance(component, Stops) and is_async(component.stop_message_source))
            for component in self.components.values()
        )

    def start(self) -> None:
        """Start the plain functions."""
        for name, begin in self._all():
            if not is_async(begin):
                thread = threading.Thread(
                    target=self._run, args=(name, begin), name=f"doubtless-source-{name}", daemon=True
                )
                thread.start()
                self._threads.append(thread)

    def start_tasks(self) -> None:
        """Start the coroutine functions."""
        for name, begin in self._all():
            if is_async(begin):
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

    async def ask_to_stop(self) -> None:
        """Ask each source once to end, even after another source could not be asked."""
        for name, component in self.components.items():
            self.contexts[name].stop()
            if isinstance(component, Stops) and name not in self._asked:
                self._asked.add(name)
                try:
                    await settled(component.stop_message_source())
                except Exception as error:  # noqa: BLE001  (as above)
                    self._failed(name, error)

    def join(self) -> None:
        """Wait for the sources in threads, but not for ever."""
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


def _check_source(name: str, component: Any) -> None:
    """Refuse a component that cannot be started, or stopped.

    Raises:
        ConfigurationError: naming the source and what is wrong.
    """
    setting, remedy = f"source {name}", "write def start_message_source(self), or a function of the context"
    if not isinstance(component, Starts) and not callable(component):
        problem = f"a {type(component).__qualname__} has no start_message_source and cannot be called"
        raise ConfigurationError(setting, problem, remedy)
    begin = _begin(component)
    is_async(begin)  # refuses a generator function, of which nothing would run
    check_takes(setting, begin, *(() if isinstance(component, Starts) else ("a context",)), remedy=remedy)
    if isinstance(component, Stops):
        check_takes(setting, component.stop_message_source, remedy="write def stop_message_source(self)")


def _begin(component: Any) -> Callable[..., Any]:
    return component.start_message_source if isinstance(component, Starts) else component
