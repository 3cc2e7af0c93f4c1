"""``protect``: any callable through the pipeline of a trigger, once for each uuid."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NoReturn, Unpack, cast

from pydantic import ValidationError

from history.errors import ConfigurationError
from history.identity import REMEDY, IdentityError, Key, canonical
from history.memory.history import MemoryHistory
from history.message import UNDEFINED_COUNT, Message
from history.store import HistoryStore
from history.support.user_code import is_failure, put_back
from triggers.declaration.decorator import Trigger, trigger
from triggers.guards.turn import HeldExecution, Passage, Pause, Turn
from triggers.metrics.reporting import CountReports, reports_to
from triggers.pipeline.pipeline import MessagePipeline
from triggers.pipeline.protocol import Pipeline
from triggers.providers.outgoing import running_sends, sending, wrong_message
from triggers.service.checking import check_callable, check_runs, check_text, pointing
from triggers.service.delivery import Delivery
from triggers.service.failures import as_raised_by_coroutine
from triggers.service.options import LARGEST_BODY, GuardOptions, check_names
from triggers.service.outcome import Outcome
from triggers.service.settings import Settings
from triggers.service.signatures import is_async

#: The callable for the guard in this task or thread, and the run that calls it.
_called: ContextVar[Callable[[], Any]] = ContextVar("_called")
_running: ContextVar[Delivery] = ContextVar("_running")


def protect(name: str, *, history: str | HistoryStore | None, **options: Unpack[GuardOptions]) -> "Guard":
    """Return a guard that runs a call once for each uuid.

    It detects duplicates like ``@trigger``, with the same options. A duplicate does not run. A call that may
    or may not have run is In Doubt and parked. A call that fails transiently is recovered.

        guard = protect("charge-card", history="sqlite:///history.sqlite3")
        outcome = guard.handle("order-17", lambda: charge(12.5))

    Args:
        name: the namespace in the history, equal on all machines that share it.
        history: a URL or a store. With None, only the delivery count and the resolver decide.
        options: as for :func:`triggers.trigger`.

    Raises:
        ConfigurationError: it names the option and the remedy.
    """
    with pointing():
        check_text("name", name, "use the same name on all machines that share a history")
        check_names("protect", options, GuardOptions.__annotations__)
        return Guard(name, history, options)


def running() -> Delivery:
    """Return the delivery of the run that calls this: its uuid, its fence, and whether its lease still holds.

    Raises:
        ConfigurationError: no guard runs anything here.
    """
    try:
        return _running.get()
    except LookupError:
        raise ConfigurationError(
            "running()", "no guard runs anything here", "call it in what Guard.handle was given to call"
        ) from None


class Guard:
    """Runs callables once for each uuid. Made by :func:`protect`; safe to share between threads.

    ``handle`` and ``once`` are for blocking code, ``ahandle`` and ``aonce`` for asyncio. All of them answer
    as :meth:`triggers.Trigger.handle` does: with an :class:`~triggers.Outcome`, whatever the callable raised.
    """

    def __init__(self, name: str, history: str | HistoryStore | None, options: GuardOptions) -> None:
        self._declared = trigger(name, name=name, history=history, max_body_size=LARGEST_BODY, **options)
        self._history = history
        self._reports: CountReports | None = None
        self._blocking: Trigger[..., Any] = self._declared(_call)
        self._asyncio: Trigger[..., Any] = self._declared(_acall)

    @property
    def name(self) -> str:
        """The guard's name: its namespace in the history."""
        return self._blocking.name

    @property
    def settings(self) -> Settings:
        """Its settings, as those of a trigger."""
        return self._blocking.settings

    @property
    def trigger(self) -> Trigger[..., Any]:
        """The trigger behind it, for code that looks at triggers, such as ``doubtless guarantees``."""
        return self._blocking

    def calling(self, call: Callable[[Message], Any]) -> Trigger[..., Any]:
        """Return a trigger with the same protection that calls ``call`` for each message, for tests."""

        def service(message: Message, delivery: Delivery) -> Any:
            _called.set(partial(call, message))
            return _call(delivery)

        async def aservice(message: Message, delivery: Delivery) -> Any:
            _called.set(partial(call, message))
            return await _acall(delivery)

        return self._declared(aservice if is_async(call) else service)

    def store_for_asyncio(self) -> HistoryStore | None:
        """Return the history as the running event loop uses it; None without a history."""
        return self._asyncio.async_pipeline().store

    if not TYPE_CHECKING:  # a type checker refuses the call by itself

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """Refuse to be called: a guard is not a decorator, because a function has no uuid.

            Raises:
                ConfigurationError: always; it names the remedy.
            """
            with pointing():
                raise ConfigurationError(
                    f"guard {self.name}",
                    "it is not a decorator and cannot be called",
                    "write guard.handle(uuid, lambda: book(order)), or decorate the function with @trigger",
                )

    def __repr__(self) -> str:
        return f"<Guard {self.name}>"

    def handle(
        self,
        uuid: Key,
        call: Callable[[], Any],
        *,
        body: Any = None,
        delivery_count: int = UNDEFINED_COUNT,
        wait: timedelta | None = None,
    ) -> Outcome:
        """Call ``call`` unless it is known to have been called for ``uuid``; always return the outcome.

        Args:
            uuid: the identity of the event, such as an order's number: text, a whole number, bytes, a UUID or
                a list of these. A call without it (None or empty text) does not run, and is parked.
            call: does the work. Pass its arguments with a lambda or :func:`functools.partial`.
            body: the data that is parked if nobody can know whether the call ran, so that a person can
                decide: JSON values, text or bytes. With ``fingerprint="body"``, a call with another body than
                the first call of ``uuid`` is rejected and parked. It does not count as a duplicate.
            delivery_count: how often a broker has delivered it; -1 if that is not known.
            wait: how long to wait at most for another run of ``uuid`` that is alive; None: not at all.

        Raises:
            ConfigurationError: it is misused.
            BaseException: KeyboardInterrupt, SystemExit and similar, as if the process had died.
        """
        return self.handle_message(_message(uuid, body, delivery_count), call, wait=wait)

    async def ahandle(
        self,
        uuid: Key,
        call: Callable[[], Any],
        *,
        body: Any = None,
        delivery_count: int = UNDEFINED_COUNT,
        wait: timedelta | None = None,
    ) -> Outcome:
        """Do the same as :meth:`handle` under asyncio; ``call`` may return an awaitable."""
        return await self.ahandle_message(_message(uuid, body, delivery_count), call, wait=wait)

    def handle_message(
        self, message: Message, call: Callable[[], Any], *, wait: timedelta | None = None
    ) -> Outcome:
        """Do the same as :meth:`handle` for an existing message, with its properties."""
        _check_call(call, blocking=True)
        token = _called.set(call)
        try:
            return self._counted(self._blocking.handle(message, wait=wait))
        finally:
            _called.reset(token)

    async def ahandle_message(
        self, message: Message, call: Callable[[], Any], *, wait: timedelta | None = None
    ) -> Outcome:
        """Do the same as :meth:`handle_message` under asyncio."""
        _check_call(call, blocking=False)
        token = _called.set(call)
        try:
            return self._counted(await self._asyncio.ahandle(message, wait=wait))
        finally:
            _called.reset(token)

    @contextmanager
    def once(self, uuid: Key, *, body: Any = None, delivery_count: int = UNDEFINED_COUNT) -> Generator[Turn]:
        """Give the body of a ``with`` statement its turn, for loops over messages that are not ours.

        The turn is true if the body must do its work. An exception of the body counts as a service's failure,
        and is raised again. The turn's outcome then says whether to acknowledge.

        Raises:
            ConfigurationError: the guard has ``retry=``: a body cannot be run again.
        """
        self._check_no_retry()
        passage = Passage(cast("Any", self._held.handle(_message(uuid, body, delivery_count))))
        turn = passage.begin()
        if not turn:
            self._count_turn(turn)
            yield turn
            return
        token = _running.set(cast("Delivery", turn.delivery))
        try:
            with sending(passage.sends):
                yield turn
        except BaseException as error:
            passage.fail(error)
            self._count_turn(turn)
            raise
        finally:
            put_back(_running, token)
        passage.end()
        self._count_turn(turn)

    @asynccontextmanager
    async def aonce(
        self, uuid: Key, *, body: Any = None, delivery_count: int = UNDEFINED_COUNT
    ) -> AsyncGenerator[Turn]:
        """Do the same as :meth:`once` under asyncio."""
        self._check_no_retry()
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[Pause] = loop.create_future()
        ended: asyncio.Future[Any] = loop.create_future()

        async def hold() -> Any:
            begun.set_result(Pause(running(), running_sends()))
            return await ended

        message = _message(uuid, body, delivery_count)
        handling = asyncio.ensure_future(self.ahandle_message(message, hold))
        try:
            await asyncio.wait(
                [cast("asyncio.Future[Any]", begun), handling], return_when=asyncio.FIRST_COMPLETED
            )
        except BaseException:
            # It would hold the uuid, and renew its lease, for a body that never comes.
            handling.cancel()
            await asyncio.wait([handling])
            raise
        turn = Turn(delivery=begun.result().delivery if begun.done() else None)
        if not turn:
            begun.cancel()
            turn.outcome = await handling
            yield turn
            return
        token = _running.set(begun.result().delivery)
        try:
            with sending(begun.result().sends):
                yield turn
        except BaseException as error:
            turn.outcome = await _end_badly(handling, ended, error)
            raise
        finally:
            put_back(_running, token)
        ended.set_result(turn.result)
        turn.outcome = await handling

    @cached_property
    def _held(self) -> Pipeline:
        """The blocking pipeline that stops before it calls the service."""
        pipeline = cast("MessagePipeline", self._blocking.pipeline())
        return replace(pipeline, execution=HeldExecution(self.settings))

    def _check_no_retry(self) -> None:
        if self.settings.retry.max_attempts:
            with pointing():
                raise ConfigurationError(
                    "retry",
                    f"guard {self.name} runs again in process, and the body of a with statement cannot",
                    "use handle(), or leave retry= out",
                )

    def _counted(self, outcome: Outcome) -> Outcome:
        """Add an outcome to the counts that this process reports."""
        if self._history is not None:
            if self._reports is None:
                self._reports = reports_to(self._history, self._loop_of_history())
            self._reports.note(self.name, outcome)
        return outcome

    def _count_turn(self, turn: Turn) -> None:
        if turn.outcome is not None:
            self._counted(turn.outcome)

    def _loop_of_history(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop of a history that exists only under asyncio; None for all others."""
        if isinstance(self._history, str | MemoryHistory):
            return None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        return loop if self.store_for_asyncio() is self._history else None

    def close(self) -> None:
        """Close the connections of blocking calls; the next call opens them again.

        The last counts are reported before that, if the history answers within two seconds.
        """
        if self._reports is not None:
            self._reports.close()
        vars(self).pop("_held", None)
        self._blocking.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; see :meth:`close`."""
        if self._reports is not None:
            await asyncio.to_thread(self._reports.close)
        await self._asyncio.aclose()


def _call(delivery: Delivery) -> Any:
    token = _running.set(delivery)
    try:
        return _called.get()()
    finally:
        _running.reset(token)


async def _acall(delivery: Delivery) -> Any:
    token = _running.set(delivery)
    try:
        result = _called.get()()
        return await cast("Awaitable[Any]", result) if hasattr(result, "__await__") else result
    finally:
        _running.reset(token)


async def _end_badly(
    handling: asyncio.Future[Outcome], ended: asyncio.Future[Any], error: BaseException
) -> Outcome | None:
    """End a run after its body raised: as its failure, or as the death of its task. Return its outcome."""
    if is_failure(error):
        ended.set_exception(as_raised_by_coroutine(error))
        return await handling
    handling.cancel()
    await asyncio.wait({handling})
    return None


def _message(uuid: Key, body: Any, delivery_count: int) -> Message:
    """Return the message for a guard; with an empty uuid it has no identity, and is parked."""
    try:
        identity = canonical(uuid)
    except IdentityError as error:
        with pointing():
            raise ConfigurationError("uuid", error.problem, REMEDY) from error
    try:
        return Message(uuid=identity, body=body, delivery_count=delivery_count)
    except ValidationError as error:
        with pointing():
            raise wrong_message(error) from error


def _check_call(call: object, *, blocking: bool) -> None:
    if not callable(call):
        with pointing():
            check_callable("call", call, "give a function without parameters: lambda: book(order)")
    if blocking and iscoroutinefunction(call):
        with pointing():
            check_runs("call", call, "use ahandle")
