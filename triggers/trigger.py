"""``@trigger`` and the :class:`Trigger` it makes of a function."""

import asyncio
import inspect
import threading
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
from triggers.assembly import Parts
from triggers.detection import (
    FailurePolicy,
    ForgottenPolicy,
    HistoryErrorPolicy,
    InDoubtPolicy,
    Policy,
    RollbackPolicy,
)
from triggers.failures import Retry
from triggers.joining.terms import DEFAULT_JOIN_TIMEOUT, JoinKind, check_history, listed
from triggers.joins import bind
from triggers.ordering_terms import check_ordering
from triggers.outcome import Outcome
from triggers.pipeline import Observer, Pipeline
from triggers.routing import Routing
from triggers.selectors import MessageFilter, Selector
from triggers.settings import (
    DEFAULT_MAX_BODY_SIZE,
    DEFAULT_MONITOR_INTERVAL,
    NO_RETRY,
    AcknowledgeMode,
    Settings,
    check_choice,
)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Callable[..., Any])


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
        check_history(settings, history)
        check_ordering(settings, history)
        self.binding = bind(service, settings, local_names)
        loaded = load_resolver(resolver)
        self.resolver = None if loaded is None else asking(loaded)
        self.routing = Routing(settings, self.binding)
        self._parts = Parts(settings, self.binding, self.resolver, self.routing)
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
    def destinations(self) -> Sequence[str]:
        """All the places that its messages come from; :attr:`destination` is the first."""
        return self.settings.destinations

    @property
    def is_async(self) -> bool:
        """Whether the service is a coroutine function."""
        return self.binding.is_async

    @property
    def needs_history(self) -> bool:
        """Whether the consumer must bring the history."""
        return self._source is CONSUMERS_DEFAULT and self._default is None

    @property
    def has_history(self) -> bool:
        """Whether a document history takes part, be it its own or the consumer's."""
        return self._source is not None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self.service(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Trigger {self.name} on {' + '.join(self.destinations)}>"

    def route(self, name: str, *, filter: MessageFilter) -> Callable[[S], S]:  # noqa: A002  (as of trigger)
        """Make a function the service of the messages that a filter matches; it stays that function.

        The rules of a trigger are tried in the order of their decoration, and the first that matches has the
        message; what none matches is for the trigger's own service. ``name`` is unique within the trigger.
        Filters are as of :func:`trigger`; history, retries and all other settings are the trigger's.

        Raises:
            ConfigurationError: the name is taken, the filter cannot be read, or the function is of another
                kind (blocking, asyncio, atomic) than the trigger's own service.
        """
        frame = inspect.currentframe()
        caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}

        def decorate(service: S) -> S:
            self.routing.add(name, filter, service, caller)
            return service

        return decorate

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
                self._blocking = self._parts.assemble(self.open_store(), observe)
            return self._blocking

    def async_pipeline(self, observe: Observer | None = None) -> Pipeline:
        """Return the running event loop's pipeline, made at its first use there."""
        loop = asyncio.get_running_loop()
        with self._lock:
            pipeline = self._asyncio.get(loop)
            if pipeline is None:
                pipeline = self._parts.assemble(self.open_store(), observe, loop)
                self._asyncio[loop] = pipeline
            return pipeline

    def close(self) -> None:
        """Give back the blocking pipeline's connections; the next use opens them again."""
        with self._lock:
            pipeline, self._blocking = self._blocking, None
        if pipeline is None:
            return
        if pipeline.execution.leases is not None:
            pipeline.execution.leases.close()
        drive(pipeline.lot.close())
        if pipeline.judge.store is not None and isinstance(self._opened_from, str):
            drive(pipeline.judge.store.close())

    async def aclose(self) -> None:
        """Give back the connections of the running event loop's pipeline."""
        with self._lock:
            pipeline = self._asyncio.pop(asyncio.get_running_loop(), None)
        if pipeline is None:
            return
        store, leases = pipeline.judge.store, pipeline.execution.leases
        if leases is not None:
            await asyncio.to_thread(leases.close)  # its thread may be waiting for this loop
            if leases.store is not store and isinstance(self._opened_from, str):
                drive(leases.store.close())
        await pipeline.lot.close()
        if store is not None and store is not self._opened_from:  # a store that was given is its giver's
            await store.close()

    @property
    def opens_its_history(self) -> bool:
        """Whether :meth:`open_store` opens the history anew, so that its caller is to close it."""
        return isinstance(self._opened_from, str)

    @property
    def _opened_from(self) -> HistorySource:
        return self._default if isinstance(self._source, ConsumersDefault) else self._source


def trigger(  # noqa: PLR0913  (one keyword per setting, all but the first with a default)
    destination: str | Sequence[str],
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
    on_rollback: RollbackPolicy = "recover",
    suspend_on_error: bool = False,
    forgotten: ForgottenPolicy = "new",
    redelivery_horizon: timedelta | None = None,
    transient: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
    monitor: Callable[[], bool] | None = None,
    monitor_interval: timedelta = DEFAULT_MONITOR_INTERVAL,
    transacted: bool = False,
    concurrency: int = 1,
    prefetch: int = 10,
    batch: int = 1,
    acknowledge_mode: AcknowledgeMode = "client",
    max_body_size: int = DEFAULT_MAX_BODY_SIZE,
    parking: str | Parking | None = None,
    local_parking_file: Path | None = None,
    raise_event_on_exception: bool = True,
    raise_event_on_retry_failure: bool = True,
    join: JoinKind = "any",
    join_timeout: timedelta | None = DEFAULT_JOIN_TIMEOUT,
    ordered: bool = False,
    selector: str | None = None,
    filter: MessageFilter | None = None,  # noqa: A002  (the reference system's word)
) -> Callable[[Callable[P, R]], Trigger[P, R]]:
    """Make a function run once for each message of ``destination``.

    Args:
        destination: the queue, topic or stream; a list of several, whose messages ``join`` brings together.
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
        on_rollback: after a transient failure of a transacted trigger, "recover" delivers the message again,
            "suspend_and_recover" suspends the trigger as well, until its monitor says that it may go on.
        suspend_on_error: suspend the trigger after a fatal failure, until somebody resumes it or its monitor
            says that it may go on; for messages whose order matters.
        forgotten: what a redelivered message without an entry is when it was sent longer ago than the history
            remembers: "new", as in the reference system, or "in_doubt", for the entry may have expired.
        redelivery_horizon: for how long the broker or the publisher may send a message again; a consumer
            warns at its start when the history forgets sooner.
        transient: exception classes worth another try, besides TransientError and UnavailableError.
        monitor: asked while suspended whether the trigger may go on.
        monitor_interval: how often it is asked.
        transacted: roll back on failure; a transient one is NEW at the next delivery, a fatal one rejected.
        concurrency: how many messages of one consumer run at once.
        prefetch: how many deliveries each of them fetches at once; they count as delivered.
        batch: the service takes up to so many messages at once, as lists; each is detected by itself, and
            they share one end.
        acknowledge_mode: "client" acknowledges what was processed; "auto" acknowledges on receipt, so that a
            crash loses the message, and "dups_ok" now and then, so that a crash repeats some. Duplicates are
            detected in "client" mode only.
        max_body_size: a larger body, in bytes, is a fatal failure; it is parked whole.
        parking: where messages are kept aside: the URL of a history, or a lot; beside the history by default.
        local_parking_file: the file that takes them while no server can; in the user's state directory by
            default.
        raise_event_on_exception: whether a fatal failure raises the retrieval failure event.
        raise_event_on_retry_failure: whether retries that are used up, a passed max_delivery_count, and a
            history or resolver that failed do. Unreadable and unidentified deliveries always raise it.
        join: "any" runs every message; "all" waits for one of each destination with the same property
            ``activation`` and runs once with all of them; "one" runs the first of an activation.
        join_timeout: how long "all" waits for the others, which are parked then, and how long "one" keeps
            them out; None for ever.
        ordered: messages of one JMSXGroupID run one after the other, in the order of the destination; with
            ``concurrency=1`` all do. One process at a time receives, the others stand by. Needs a history.
        selector: a JMS message selector: only what it matches is for this trigger. The rest is acknowledged
            and leaves no trace.
        filter: what this function is for, as a condition that may look into the body or as a function of the
            message that answers True or False; asked after the rules of :meth:`Trigger.route`. What nobody
            wants is acknowledged and leaves no trace; a filter that fails is a fatal failure of the message.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    first, *others = listed(destination)
    frame = inspect.currentframe()
    # Annotations may name what is local to the caller, such as a model defined in a test function.
    caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}
    _check_rollback(on_rollback, transacted=transacted)
    policy = Policy(
        max_delivery_count=max_delivery_count,
        detect_duplicates=detect_duplicates and acknowledge_mode == "client",
        transacted=transacted,
        in_doubt=in_doubt,
        on_retry_failure="suspend" if on_rollback == "suspend_and_recover" else on_retry_failure,
        on_history_error=on_history_error,
        suspend_on_error=suspend_on_error,
        forgotten=forgotten,
    )

    def decorate(service: Callable[P, R]) -> Trigger[P, R]:
        settings = Settings(
            name=default_name(service) if name is None else name,
            destination=first,
            more_destinations=tuple(others),
            policy=policy,
            history_time_to_live=history_time_to_live,
            lease=lease,
            retry=retry or NO_RETRY,
            transient=transient,
            monitor=monitor,
            monitor_interval=monitor_interval,
            concurrency=concurrency,
            prefetch=prefetch,
            batch=batch,
            acknowledge_mode=acknowledge_mode,
            redelivery_horizon=redelivery_horizon,
            max_body_size=max_body_size,
            parking=parking,
            local_parking_file=local_parking_file,
            raise_event_on_exception=raise_event_on_exception,
            raise_event_on_retry_failure=raise_event_on_retry_failure,
            join=join,
            join_timeout=join_timeout,
            ordered=ordered,
            selector=None if selector is None else Selector.parse(selector),
            filter=filter,
        )
        return Trigger(service, settings, history=history, resolver=resolver, local_names=caller)

    return decorate


def _check_rollback(on_rollback: RollbackPolicy, *, transacted: bool) -> None:
    check_choice("on_rollback", on_rollback, RollbackPolicy)
    if on_rollback != "recover" and not transacted:
        raise ConfigurationError(
            "on_rollback", "only a transacted trigger rolls back", "use on_retry_failure, or transacted=True"
        )


def default_name(service: Callable[..., Any]) -> str:
    """Return "module.function", the name of a trigger that was given none."""
    module = inspect.getmodule(service)
    return (
        f"{'__main__' if module is None else module.__name__}.{getattr(service, '__qualname__', 'service')}"
    )
