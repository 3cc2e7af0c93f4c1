"""The :class:`Trigger` that ``@trigger`` makes of a function."""

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import update_wrapper
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from history.bridge import drive
from history.errors import ConfigurationError
from history.message import Message
from history.opening import open_history
from history.store import HistoryStore
from history.support.forks import forkable_lock, without_forks
from history.support.loops import PerLoop
from resolvers.loading import load_resolver
from resolvers.resolution import Resolver, asking
from triggers.declaration.assembly import Parts
from triggers.declaration.waiting import handle_and_wait
from triggers.pipeline.joining.joins import bind
from triggers.pipeline.pipeline import Observer
from triggers.pipeline.protocol import Pipeline
from triggers.pipeline.routing import Routing
from triggers.service.checking import check_messages, pointing, refuse_beside, refuse_message, users_line
from triggers.service.filters import MessageFilter
from triggers.service.options import CONSUMERS_DEFAULT, ConsumersDefault, HistorySource
from triggers.service.outcome import Outcome
from triggers.service.settings import Settings
from triggers.service.terms import check_history, check_ordering

if TYPE_CHECKING:
    from triggers.spark.batch_info import BatchReport
    from triggers.spark.row_service.service import RowService

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Callable[..., Any])


class Trigger(Generic[P, R]):
    """A function that runs once for each message. Made by :func:`trigger`. Safe to share between threads.

        book({"amount": 12}, delivery)  # calls the plain function
        book.handle(Message(body={"amount": 12}, uuid="order-17"))  # detects duplicates first

    :meth:`handle` takes one message through the whole pipeline. :meth:`handle_batch` takes many, with one
    claim and one completion. ``ahandle`` and ``ahandle_batch`` are the same for asyncio; a blocking service
    then runs on the thread of the event loop.
    """

    def __init__(
        self,
        service: Callable[P, R],
        settings: Settings,
        *,
        history: HistorySource = CONSUMERS_DEFAULT,
        resolver: Resolver | str | None = None,
        local_names: Mapping[str, Any] | None = None,
        said: Collection[str] = (),
    ) -> None:
        update_wrapper(self, service)
        for name in vars(self).keys() & vars(Trigger).keys():
            if not name.startswith("__"):  # drop attributes that shadow ours
                del vars(self)[name]
        self.service = service
        self.settings = settings
        #: The options that the decorator names; defaults of a configuration leave them alone.
        self.said = frozenset(said)
        check_history(settings.join, history)
        if settings.ordered:
            check_ordering(
                history,
                destinations=settings.destinations,
                batch=settings.batch,
                acknowledge_mode=settings.acknowledge_mode,
            )
        self.binding = bind(service, settings, local_names)
        if self.binding.resources:
            refuse_beside(
                "the service takes part in its history's transaction",
                shadow=settings.shadow,
                keep_result=settings.keep is not None,
            )
        if inspect.iscoroutinefunction(settings.on_duplicate) and not self.is_async:
            raise ConfigurationError(
                "on_duplicate", "it is a coroutine function, and the service is none", "give a plain function"
            )
        loaded = load_resolver(resolver)
        self.resolver = None if loaded is None else asking(loaded)
        self.routing = Routing(settings, self.binding)
        self._parts = Parts(settings, self.binding, self.resolver, self.routing)
        self._source = history
        self._where = users_line()
        self._default: str | HistoryStore | None = None
        self._lock = forkable_lock()
        self._blocking: Pipeline | None = None
        self._asyncio = PerLoop[Pipeline]()

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
        """Whether the consumer must provide the history."""
        return self._source is CONSUMERS_DEFAULT and self._default is None

    @property
    def history_source(self) -> HistorySource:
        """The history as given to the decorator: a URL, a store, None, or the consumer's default."""
        return self._source

    @property
    def has_history(self) -> bool:
        """Whether there is a document history, the trigger's own or the consumer's."""
        return self._source is not None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self.service(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Trigger {self.name} on {' + '.join(self.destinations)}>"

    def __reduce__(self) -> str:
        """Pickle it as its name in its module, as functions are pickled.

        Raises:
            PicklingError: the module has no such name.
        """
        module = sys.modules.get(self.__module__)
        if module is not None:
            qualified: str = getattr(self, "__qualname__", "")
            if _found(module, qualified) is self:
                return qualified
            for name, value in vars(module).items():
                if value is self:
                    return name
        raise PicklingError(
            f"trigger {self.name} cannot be pickled: it stands nowhere in the module {self.__module__}; "
            "define it at the top of a module that both sides can import"
        )

    def route(self, name: str, *, filter: MessageFilter) -> Callable[[S], S]:  # noqa: A002  (as of trigger)
        """Make a function the service of the messages that a filter matches; the function stays unchanged.

        The rules of a trigger are tried in the order of their decoration, and the first that matches has the
        message. A message that matches no rule goes to the trigger's own service. ``name`` is unique within
        the trigger. Filters are as in :func:`trigger`; history, retries and all other settings are the
        trigger's.

        Raises:
            ConfigurationError: the name is taken, the filter cannot be read, or the function is of another
                kind (blocking, asyncio, atomic) than the trigger's own service.
        """
        frame = inspect.currentframe()
        caller = frame.f_back.f_locals if frame is not None and frame.f_back is not None else {}

        def decorate(service: S) -> S:
            with pointing():
                self.routing.add(name, filter, _plain(service), caller)
            return service

        return decorate

    def adapted(
        self, settings: Settings, around: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> "Trigger[P, R]":
        """Return a trigger like this one, with other settings and with its services inside ``around``."""
        twin: Trigger[P, R] = object.__new__(type(self))
        vars(twin).update(vars(self))
        binding = self.binding.around(around)
        routing = self.routing.adapted(settings, binding, around)
        vars(twin).update(
            settings=settings,
            binding=binding,
            service=binding.service,
            routing=routing,
            _parts=Parts(settings, binding, self.resolver, routing),
            _lock=forkable_lock(),
            _blocking=None,
            _asyncio=PerLoop[Pipeline](),
        )
        return twin

    def configured(self, settings: Settings, history: str | None = None) -> "Trigger[P, R]":
        """Return a trigger like this one with other settings, and the history at a URL if one is given."""
        twin = self.adapted(settings, lambda service: service)
        if history is not None:
            vars(twin).update(_source=history, _where=None)
        return twin

    def handle(self, message: Message, *, wait: timedelta | None = None) -> Outcome:
        """Take one message through the pipeline; whatever happens, return its outcome.

        With ``wait``, a message that runs elsewhere is looked at again until that run has ended, at most for
        this time. Without it, or after this time, such a message is recovered.

        Raises:
            ConfigurationError: the trigger is misused.
            BaseException: KeyboardInterrupt, SystemExit and similar, as if the process had died.
        """
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
            refuse_message(message)
        if wait is not None:
            return drive(handle_and_wait(self.pipeline(), message, wait))
        return drive(self.pipeline().handle(message))

    def handle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Take many messages through the pipeline with one claim and one completion.

        If the process dies in the middle, all of them stay STARTED. Raises the same errors as :meth:`handle`.
        Before it raises KeyboardInterrupt or SystemExit, it settles the messages whose service has ended.
        """
        return drive(self.pipeline().handle_batch(check_messages(messages)))

    async def ahandle(self, message: Message, *, wait: timedelta | None = None) -> Outcome:
        """Take one message through the pipeline under asyncio; see :meth:`handle`."""
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
            refuse_message(message)
        if wait is not None:
            return await handle_and_wait(self.async_pipeline(), message, wait)
        return await self.async_pipeline().handle(message)

    async def ahandle_batch(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        """Take many messages through the pipeline under asyncio; see :meth:`handle_batch`."""
        return await self.async_pipeline().handle_batch(check_messages(messages))

    def foreach_batch(  # noqa: PLR0913  (its options are its parameters)
        self,
        *,
        uuid: str,
        message_id: str | None = None,
        delivery_count: str | None = None,
        body: str | None = None,
        query: str | None = None,
        patience: timedelta = timedelta(minutes=1),
        partitions: int | None = None,
        calls_per_second: float | None = None,
        on_batch: "Callable[[BatchReport], Any] | None" = None,
    ) -> "RowService":
        """Return a function for Spark's ``foreachBatch``: the service runs row by row on the executors.

        Columns, ``query``, ``patience``, ``partitions`` and ``on_batch`` are as in
        :func:`triggers.spark.foreach_batch`. Columns with the names of JMS headers are those
        headers. If there is a ``body``, all other columns are properties. Each task runs as many rows
        concurrently as the trigger's ``concurrency`` says, in threads, or on an event loop if the service is
        a coroutine function. Rows of one uuid run one after the other. With ``calls_per_second``, each task
        starts no more service calls than that, evenly spaced.

        Raises:
            ConfigurationError: the trigger has no history that the executors can open, is a join or keeps an
                order; or (MissingExtraError) pyspark is not installed.
        """
        from triggers.spark import settings  # noqa: PLC0415  (loads Spark)
        from triggers.spark.row_service import service  # noqa: PLC0415  (as above)

        with pointing():
            for option, value in (
                ("shadow", self.settings.shadow),
                ("keep_result", self.settings.keep),
                ("journal", self.settings.journal),
                ("tracing", self.settings.tracing),
            ):
                if value:
                    raise ConfigurationError(
                        option, "rows of Spark are claimed for a whole batch", "leave it out for Spark"
                    )
            columns = settings.Columns(
                uuid=uuid, message_id=message_id, delivery_count=delivery_count, body=body
            )
            return service.row_service(
                self,
                self._opened_from,
                columns=columns,
                patience=patience,
                query=query,
                partitions=partitions,
                calls_per_second=calls_per_second,
                on_batch=on_batch,
            )

    def use_default_history(self, history: str | HistoryStore) -> None:
        """Set the history of a trigger that names none; a consumer calls it before it starts."""
        with self._lock:
            if self._source is CONSUMERS_DEFAULT:
                self._default = history

    def open_store(self) -> HistoryStore | None:
        """Return the history, opened if necessary; None for a trigger without a history.

        Raises:
            ConfigurationError: no history was named, neither here nor by a consumer.
        """
        source = self._default if isinstance(self._source, ConsumersDefault) else self._source
        if isinstance(source, str):
            try:
                return open_history(source)
            except ConfigurationError as error:
                if source is self._source and self._where is not None:
                    error.point_at(self._where)
                raise
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
        made = self._blocking
        if made is not None:
            return made
        if self.is_async:
            raise ConfigurationError(
                f"trigger {self.name}",
                "its service is a coroutine function",
                "use ahandle or an asyncio consumer",
            )
        with without_forks(), self._lock:
            if self._blocking is None:
                self._blocking = self._parts.assemble(
                    self.open_store(), observe, owned=self.opens_its_history
                )
            return self._blocking

    def async_pipeline(self, observe: Observer | None = None) -> Pipeline:
        """Return the running event loop's pipeline, made at its first use there."""
        return self._asyncio.of_running(
            lambda loop: self._parts.assemble(self.open_store(), observe, loop, owned=self.opens_its_history)
        )

    def close(self) -> None:
        """Close the blocking pipeline's connections; the next use opens them again."""
        with self._lock:
            pipeline, self._blocking = self._blocking, None
        if pipeline is not None:
            drive(pipeline.close())

    async def aclose(self) -> None:
        """Close the connections of the running event loop's pipeline."""
        pipeline = self._asyncio.pop_running()
        if pipeline is not None:
            await pipeline.close()

    @property
    def opens_its_history(self) -> bool:
        """Whether :meth:`open_store` opens a new store, which its caller must close."""
        return isinstance(self._opened_from, str)

    @property
    def _opened_from(self) -> HistorySource:
        return self._default if isinstance(self._source, ConsumersDefault) else self._source


def _plain(service: Callable[P, R]) -> Callable[P, R]:
    """Return the plain function of a trigger that is also the service of a route."""
    return cast("Trigger[P, R]", service).service if isinstance(service, Trigger) else service


def _found(holder: object, path: str) -> object:
    """Return the object at a dotted path; None if there is none."""
    for name in path.split("."):
        holder = getattr(holder, name, None)
    return holder
