"""``@trigger`` and the :class:`Trigger` it makes of a function."""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import update_wrapper
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from history.bridge import drive
from history.entry import DEFAULT_TIME_TO_LIVE
from history.errors import ConfigurationError
from history.message import Message
from history.opening import open_history
from history.parking import Parking
from history.store import HistoryStore
from resolvers.loading import load_resolver
from resolvers.resolution import Resolver, asking
from triggers.binding import Binding
from triggers.completion import Completion
from triggers.detection import FailurePolicy, HistoryErrorPolicy, InDoubtPolicy, Policy
from triggers.failures import Retry
from triggers.judge import Judge
from triggers.outcome import Outcome
from triggers.parking_lot import ParkingLot
from triggers.pipeline import Observer, Pipeline
from triggers.settings import DEFAULT_MAX_BODY_SIZE, DEFAULT_MONITOR_INTERVAL, NO_RETRY, Settings

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ConsumersDefault:
    """Stands for a history that was left out: the consumer's."""


#: The history of a trigger that names none.
CONSUMERS_DEFAULT = ConsumersDefault()

#: Where a trigger's history comes from.
HistorySource = str | HistoryStore | ConsumersDefault | None


class Trigger(Generic[P, R]):
    """A function that runs once for each message. Made by :func:`trigger`; safe to share between threads.

    Calling it calls the plain function. :meth:`handle` takes one message through the whole pipeline,
    :meth:`handle_batch` many with one claim and one completion; ``ahandle`` and ``ahandle_batch`` are the
    same for asyncio, where a blocking service runs on the event loop's own thread.
    """

    def __init__(
        self,
        service: Callable[P, R],
        settings: Settings,
        *,
        history: HistorySource = CONSUMERS_DEFAULT,
        resolver: Resolver | str | None = None,
        local_names: Mapping[str, Any] | None = None,
    ) -> None:
        update_wrapper(self, service)
        self.service = service
        self.settings = settings
        self.binding = Binding(service, local_names)
        loaded = load_resolver(resolver)
        self.resolver = None if loaded is None else asking(loaded)
        self._source = history
        self._default: str | HistoryStore | None = None
        self._lock = threading.Lock()
        self._blocking: Pipeline | None = None
        self._asyncio: WeakKeyDictionary[asyncio.AbstractEventLoop, Pipeline] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The trigger's name: its namespace in the history."""
        return self.settings.name

    @property
    def destination(self) -> str:
        """Where its messages come from."""
        return self.settings.destination

    @property
    def is_async(self) -> bool:
        """Whether the service is a coroutine function."""
        return self.binding.is_async

    @property
    def needs_history(self) -> bool:
        """Whether the consumer must bring the history."""
        return self._source is CONSUMERS_DEFAULT and self._default is None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self.service(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Trigger {self.name} on {self.destination}>"

    def handle(self, message: Message) -> Outcome:
        """Take one message through the pipeline; whatever happens, return its outcome.

        Raises:
            ConfigurationError: the trigger is misused.
            BaseException: KeyboardInterrupt, SystemExit and their kind, as if the process had died.
        """
        return drive(self.pipeline().handle(message))

    def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Take many messages through the pipeline with one claim and one completion.

        A process that dies in the middle leaves all of them STARTED; raises as :meth:`handle`.
        """
        return drive(self.pipeline().handle_batch(messages))

    async def ahandle(self, message: Message) -> Outcome:
        """Take one message through the pipeline under asyncio; see :meth:`handle`."""
        return await self.async_pipeline().handle(message)

    async def ahandle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Take many messages through the pipeline under asyncio; see :meth:`handle_batch`."""
        return await self.async_pipeline().handle_batch(messages)

    def use_default_history(self, history: str | HistoryStore) -> None:
        """Set the history of a trigger that names none; a consumer calls it before it starts."""
        with self._lock:
            if self._source is CONSUMERS_DEFAULT:
                self._default = history

    def open_store(self) -> HistoryStore | None:
        """Return the history, opened if need be; None for a trigger without one.

        Raises:
            ConfigurationError: no history was named, neither here nor by a consumer.
        """
        source = self._default if isinstance(self._source, ConsumersDefault) else self._source
        if isinstance(source, str):
            return open_history(source)
        if source is None and self.needs_history:
            raise ConfigurationError(
                f"trigger {self.name}",
                "no history is named",
                "give history='redis://...' (or None for none at all), or run it with --history",
            )
        return source

    def pipeline(self, observe: Observer | None = None) -> Pipeline:
        """Return the blocking pipeline, made at its first use.

        Raises:
            ConfigurationError: the service is a coroutine function.
        """
        if self.is_async:
            raise ConfigurationError(
                f"trigger {self.name}",
                "its service is a coroutine function",
                "use ahandle or an asyncio consumer",
            )
        with self._lock:
            if self._blocking is None:
                self._blocking = self._build(self.open_store(), blocking=True, observe=observe)
            return self._blocking

    def async_pipeline(self, observe: Observer | None = None) -> Pipeline:
        """Return the running event loop's pipeline, made at its first use there."""
        loop = asyncio.get_running_loop()
        with self._lock:
            pipeline = self._asyncio.get(loop)
            if pipeline is None:
                store = self.open_store()
                pipeline = self._build(
                    None if store is None else store.for_asyncio(), blocking=False, observe=observe
                )
                self._asyncio[loop] = pipeline
            return pipeline

    def _build(self, store: HistoryStore | None, *, blocking: bool, observe: Observer | None) -> Pipeline:
        sleep = time.sleep if blocking else asyncio.sleep
        settings = self.settings
        return Pipeline(
            settings=settings,
            service=self.service,
            binding=self.binding,
            judge=Judge(settings=settings, store=store, resolver=self.resolver),
            completion=Completion(settings=settings, store=store, sleep=sleep),
            lot=_open_lot(settings, store, blocking=blocking),
            sleep=sleep,
            blocking=blocking,
            observe=observe,
        )

    def close(self) -> None:
        """Give back the blocking pipeline's connections; the next use opens them again."""
        with self._lock:
            pipeline, self._blocking = self._blocking, None
        if pipeline is None:
            return
        drive(pipeline.lot.close())
        if pipeline.judge.store is not None and isinstance(self._opened_from, str):
            drive(pipeline.judge.store.close())

    async def aclose(self) -> None:
        """Give back the connections of the running event loop's pipeline."""
        with self._lock:
            pipeline = self._asyncio.pop(asyncio.get_running_loop(), None)
        if pipeline is None:
            return
        await pipeline.lot.close()
        store = pipeline.judge.store
        if store is not None and store is not self._opened_from:  # a store that was given is its giver's
            await store.close()

    @property
    def _opened_from(self) -> HistorySource:
        return self._default if isinstance(self._source, ConsumersDefault) else self._source


def _open_lot(settings: Settings, store: HistoryStore | None, *, blocking: bool) -> ParkingLot:
    given, file = settings.parking, settings.local_parking_file
    if isinstance(given, str):
        opened = open_history(given) if blocking else open_history(given).for_asyncio()
        return ParkingLot(opened.parking, file, owned=opened)
    beside = None if store is None else store.parking
    return ParkingLot(beside if given is None else given, file)


def trigger(  # noqa: PLR0913  (one keyword per setting, all but the first with a default)
    destination: str,
    *,
    name: str | None = None,
    history: HistorySource = CONSUMERS_DEFAULT,
    resolver: Resolver | str | None = None,
    max_delivery_count: int = 100,
    detect_duplicates: bool = True,
    history_time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    lease: timedelta | None = None,
    in_doubt: InDoubtPolicy = "park",
    retry: Retry | None = None,
    on_retry_failure: FailurePolicy = "throw",
    on_history_error: HistoryErrorPolicy = "suspend",
    transient: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
    monitor: Callable[[], bool] | None = None,
    monitor_interval: timedelta = DEFAULT_MONITOR_INTERVAL,
    transacted: bool = False,
    concurrency: int = 1,
    prefetch: int = 10,
    max_body_size: int = DEFAULT_MAX_BODY_SIZE,
    parking: str | Parking | None = None,
    local_parking_file: Path | None = None,
) -> Callable[[Callable[P, R]], Trigger[P, R]]:
    """Make a function run once for each message of ``destination``.

    Args:
        destination: the queue, topic or stream.
        name: the namespace in the history, equal on all machines that share it; "module.function" by default.
        history: a URL or store; None for no document history; left out, the consumer's default.
        resolver: asked when history and delivery count cannot tell: a callable, "package.module:function" or
            the name of an entry point.
        max_delivery_count: deliveries above it are rejected; a message that kills its process ends here.
        detect_duplicates: False runs the service on every delivery.
        history_time_to_live: how long an entry is remembered, from the start of the service; make it longer
            than any publisher or broker may take to send a message again.
        lease: for how long a started run is presumed alive. Without one a redelivery during the run is
            In Doubt at once.
        in_doubt: "park" keeps In Doubt messages for a decision, "execute" runs them (for services that may
            run twice), "acknowledge" drops them, with an error in the log.
        retry: in-process re-runs after transient failures; none by default.
        on_retry_failure: when they are used up, "throw" gives the message up, "suspend" gives it back and
            suspends the trigger until its monitor says that it may go on.
        on_history_error: while the history is away, "suspend" gives messages back and suspends the trigger,
            "resolve" lets the resolver decide alone.
        transient: exception classes worth another try, besides TransientError and UnavailableError.
        monitor: asked while suspended whether the trigger may go on.
        monitor_interval: how often it is asked.
        transacted: roll back on failure; a transient one is NEW at the next delivery, a fatal one rejected.
        concurrency: how many messages of one consumer run at once.
        prefetch: how many deliveries each of them fetches at once; they count as delivered.
        max_body_size: a larger body, in bytes, is a fatal failure; it is parked whole.
        parking: where messages are kept aside: the URL of a history, or a lot; beside the history by default.
        local_parking_file: the file that takes them while no server can; in the user's state directory by
            default.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    if not isinstance(destination, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
        raise ConfigurationError("destination", f"{destination!r:.60} is no text", 'write @trigger("orders")')
    frame = inspect.currentframe()
    # Annotations may name what is local to the caller, such as a model defined in a test function.
    caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
    policy = Policy(
        max_delivery_count=max_delivery_count,
        detect_duplicates=detect_duplicates,
        transacted=transacted,
        in_doubt=in_doubt,
        on_retry_failure=on_retry_failure,
        on_history_error=on_history_error,
    )

    def decorate(service: Callable[P, R]) -> Trigger[P, R]:
        settings = Settings(
            name=default_name(service) if name is None else name,
            destination=destination,
            policy=policy,
            history_time_to_live=history_time_to_live,
            lease=lease,
            retry=retry or NO_RETRY,
            transient=transient,
            monitor=monitor,
            monitor_interval=monitor_interval,
            concurrency=concurrency,
            prefetch=prefetch,
            max_body_size=max_body_size,
            parking=parking,
            local_parking_file=local_parking_file,
        )
        return Trigger(service, settings, history=history, resolver=resolver, local_names=caller)

    return decorate


def default_name(service: Callable[..., Any]) -> str:
    """Return "module.function", the name of a trigger that was given none."""
    module = inspect.getmodule(service)
    return (
        f"{'__main__' if module is None else module.__name__}.{getattr(service, '__qualname__', 'service')}"
    )
