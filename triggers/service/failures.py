"""Transient or fatal: which failures are worth another try, and how often to try.

A transient failure may pass (a database that is restarting); a fatal failure will not (a message that makes
no sense). The webMethods trigger distinguishes them by one exception class, ISRuntimeException. Here,
:class:`TransientError`, the project's own UnavailableError, and the classes in the trigger's ``transient``
are transient. Records, headers of dead letters and pickles name these classes by their public path, for
example ``triggers.FatalError``, so that the module may move.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from history.bridge import settled
from history.errors import ConfigurationError, DoubtlessError, UnavailableError
from history.support.redaction import Redaction
from history.support.rendering import MOST_REDACTED, class_of, exception_info, shown, text_of, told_of
from history.support.user_code import members
from triggers.service.checking import check_duration, check_whole, pointing

_log = logging.getLogger(__name__)

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

#: Failures that are transient in addition to ours: classes, or a function that receives the exception.
Transient = tuple[type[Exception], ...] | Callable[[Exception], bool]

#: Waits this many seconds; a coroutine function under asyncio.
Sleep = Callable[[float], Awaitable[None] | None]

#: Results that most services return; they need no further check.
_PLAIN = (type(None), dict, list, str, int, bool, tuple, float, bytes)

#: The modules of Python's iterators that work only while they are read: generators, ``map``, ``chain``.
_LAZY_HOMES = ("builtins", "itertools")


class TransientError(DoubtlessError):
    """Raise it in a service or resolver, if this try failed and another may succeed.

        raise TransientError("the warehouse is being moved")

    After a service, ``retry``, ``on_retry_failure`` and ``redelivery`` of the trigger decide what happens.
    """

    __module__ = "triggers"


class FatalError(DoubtlessError):
    """Raise it in a service, if no try of this message can succeed.

        raise FatalError("there is no such customer")

    It has precedence over ``transient=``.
    """

    __module__ = "triggers"


class BodyTooLargeError(FatalError):
    """A body is larger than the trigger accepts."""

    __module__ = "triggers"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"body: {size} bytes are more than max_body_size={limit}; raise it or split the message"
        )


class BodyInvalidError(FatalError):
    """A body does not fit the parameter of the service."""

    __module__ = "triggers"

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(f"body: cannot fill parameter {parameter!r}: {problem}")


class HostRetryError(DoubtlessError):
    """A task failed, and its framework will run it again: its entry is released. ``error`` is the task's."""

    def __init__(self, host: str, error: BaseException) -> None:
        # The whole text: redaction rules must see it before it is shortened.
        text = text_of(error, longest=MOST_REDACTED)
        super().__init__(f"{host} runs it again after {type(error).__name__}: {text}")
        self.error = error


class LeaseLostError(DoubtlessError):
    """Another owner has taken over the entry of this run, so two runs may do the same work.

    ``delivery.check()`` raises it, so that a service can stop. doubtless leaves the message to its new owner.
    It does not park the message, raises no event, and does not record a completion by this run.
    """

    __module__ = "triggers"

    def __init__(self, uuid: str, owner: str, taken_by: str) -> None:
        super().__init__(f"{owner} has lost message {uuid} to {taken_by}")
        self.uuid = uuid
        self.owner = owner
        self.taken_by = taken_by


class UnawaitedError(FatalError):
    """A service is not a coroutine function, but returned an awaitable that nobody can await."""

    __module__ = "triggers"

    def __init__(self, service: str, result: object) -> None:
        super().__init__(
            f"service {service} returned a {type(result).__qualname__} to await: it has not ended; "
            "make it a coroutine function, and use ahandle or an asyncio consumer"
        )
        if inspect.iscoroutine(result):
            result.close()


class LazyResultError(FatalError):
    """A service returned an object whose work is not done, or whose content can be read only once.

    Such as a generator, a coroutine, or the Future of work in another thread or process.
    """

    __module__ = "triggers"

    def __init__(self, service: str, result: object) -> None:
        returned = f"service {service} returned a {type(result).__qualname__}"
        super().__init__(
            f"{returned}: its work may not have ended; wait for it in the service: return future.result()"
            if _is_future(type(result))
            else f"{returned}, which does its work only when it is read, and can be read only once; "
            "return a list: return list(...)"
        )
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a service runs again in this process after a transient failure.

    The consumer keeps the message meanwhile, and does not detect it again. In total, the service runs at most
    ``1 + max_attempts`` times. The pause before re-run n (from 1) is ``interval * backoff ** (n - 1)``, at
    most ``max_interval``.

        @trigger("orders", retry=Retry(max_attempts=3, interval=timedelta(seconds=1), backoff=2))

    Raises:
        ConfigurationError: it names the wrong field and the remedy.
    """

    __module__ = "triggers"

    max_attempts: int = 0
    interval: timedelta = timedelta(seconds=10)
    backoff: float = 1.0
    max_interval: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        with pointing():
            check_whole("retry.max_attempts", self.max_attempts, 0)
            check_duration("retry.interval", self.interval, none=True)
            check_duration("retry.max_interval", self.max_interval, none=True)
            _check_backoff("retry.backoff", self.backoff)

    def pause(self, rerun: int) -> float:
        """Return the seconds to wait before the re-run of this number, counted from 1."""
        return _growing(self, rerun)


@dataclass(frozen=True, slots=True)
class Redelivery:
    """When a provider delivers a message again after a transient failure.

    The pause after delivery n (from 1) is ``interval * backoff ** (n - 1)``, at most ``max_interval``. By
    default, the pause doubles from one second to one minute. So an outage of ten minutes takes about 15
    deliveries of the 100 that ``max_delivery_count`` allows.

        @trigger("orders", transacted=True, redelivery=Redelivery(max_interval=timedelta(minutes=5)))

    Raises:
        ConfigurationError: it names the wrong field and the remedy.
    """

    __module__ = "triggers"

    interval: timedelta = timedelta(seconds=1)
    backoff: float = 2.0
    max_interval: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        with pointing():
            check_duration("redelivery.interval", self.interval, none=True)
            check_duration("redelivery.max_interval", self.max_interval, none=True)
            _check_backoff("redelivery.backoff", self.backoff)

    def pause(self, delivery: int) -> float:
        """Return the seconds to wait after the delivery of this number, counted from 1."""
        return _growing(self, delivery)


def _growing(terms: Retry | Redelivery, number: int) -> float:
    if not terms.interval:
        return 0.0
    longest = terms.max_interval.total_seconds()
    try:
        return min(terms.interval.total_seconds() * terms.backoff ** (number - 1), longest)
    except OverflowError:
        return longest


def _check_backoff(setting: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(setting, f"must be a number, not {shown(value)}", "use 1 or more")
    if not value >= 1:
        raise ConfigurationError(setting, f"{value} would shorten the pause", "use 1 or more")


def own_error(error: E) -> E | StopIteration:
    """Return the exception that user code raised, if Python replaced it.

    A StopIteration cannot leave a coroutine: it arrives as the cause of a RuntimeError (PEP 479).
    """
    if type(error) is RuntimeError and error.args == _STOPPED:
        cause = error.__cause__
        if type(cause) is StopIteration:
            return cause
    return error


def as_raised_by_coroutine(error: BaseException) -> BaseException:
    """Return an exception as it leaves a coroutine: the opposite of :func:`own_error`. A Future takes it."""
    if not isinstance(error, StopIteration):
        return error
    replaced = RuntimeError(*_STOPPED)
    replaced.__cause__ = error
    return replaced


#: The only argument of the RuntimeError with which Python replaces a StopIteration.
_STOPPED = ("coroutine raised StopIteration",)


def is_transient(error: BaseException, transient: Transient, redact: Redaction | None = None) -> bool:
    """Return whether another try may succeed; for a group, whether this is true for each of its failures.

    ``redact`` is for the log line if the user's function fails.
    """
    error = own_error(error)
    # By its class, like an except clause: user code can make ``__class__`` of an exception anything.
    error_type = type(error)
    if issubclass(error_type, FatalError):
        return False
    listed: tuple[type[Exception], ...] = () if callable(transient) else transient
    if issubclass(error_type, (TransientError, UnavailableError, *listed)):
        return True
    if issubclass(error_type, BaseExceptionGroup):
        return all(is_transient(member, transient, redact) for member in members(error))
    return callable(transient) and isinstance(error, Exception) and _says(transient, error, redact)


def _says(transient: Callable[[Exception], bool], error: Exception, redact: Redaction | None) -> bool:
    """Ask the user's function about an exception; if the function fails, the answer is no."""
    try:
        return bool(transient(error))
    except Exception as failure:  # noqa: BLE001  (the function is user code)
        text = "transient= failed when it was asked about %s, which is fatal then: %s"
        info = exception_info(failure, redact=redact)
        _log.error(text, class_of(error), told_of(failure, redact), exc_info=info)
        return False


async def rerun(
    run: Callable[[int], Awaitable[T]],
    *,
    retry: Retry,
    transient: Transient,
    sleep: Sleep,
    redact: Redaction | None = None,
) -> T:
    """Run again after a first transient failure; ``run`` receives the attempt's number, from 2.

    Raises:
        Exception: the exception of the last run.
    """

    async def pause(seconds: float) -> None:
        await settled(sleep(seconds))

    await pause(retry.pause(1))
    retrying = AsyncRetrying(
        stop=stop_after_attempt(retry.max_attempts),
        wait=lambda state: retry.pause(state.attempt_number + 1),
        retry=retry_if_exception(lambda error: is_transient(error, transient, redact)),
        sleep=pause,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            return await run(attempt.retry_state.attempt_number + 1)
    raise AssertionError("tenacity ends by returning or raising")


async def persist(write: Callable[[], Awaitable[T]], sleep: Sleep) -> T:
    """Repeat a write until it is answered, for about a second; the write may be sent twice.

    Raises:
        UnavailableError: it was never answered.
    """

    async def pause(seconds: float) -> None:
        await settled(sleep(seconds))

    # tenacity awaits only a declared coroutine function, and a lambda is not declared as such.
    async def attempt() -> T:
        return await write()

    retrying = AsyncRetrying(
        stop=stop_after_attempt(5),
        wait=wait_exponential(multiplier=0.05, max=0.5),
        retry=retry_if_exception(lambda error: isinstance(error, UnavailableError)),
        sleep=pause,
        reraise=True,
    )
    return await retrying(attempt)


def check_result(service: str, result: object, *, kept: bool) -> None:
    """Refuse a result that is not computed yet; with ``kept``, every result that is readable only once.

    A Future is refused even if it is done: it may hold the failure of its work.

    A driver's cursor is also an iterator, but its statement has run. It goes to the caller, unless it is to
    be kept: keeping it would read it.

    Raises:
        LazyResultError: it is such a result.
    """
    result_type = type(result)
    if result_type in _PLAIN:
        return
    is_read_once = hasattr(result_type, "__next__") or hasattr(result_type, "__anext__")
    is_lazy = is_read_once and (kept or result_type.__module__ in _LAZY_HOMES)
    if is_lazy or hasattr(result_type, "__await__") or _is_future(result_type):
        raise LazyResultError(service, result)


def _is_future(result_type: type) -> bool:
    """Whether it is a Future, of Python or of a library such as Dask: by its method, as no base is shared."""
    return hasattr(result_type, "add_done_callback")
