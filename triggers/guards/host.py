"""The common part of the guards of all frameworks: one guard for each task, by its name."""

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, cast
from weakref import WeakSet

from history.errors import ConfigurationError, DoubtlessError
from history.json_text import refuse_unreadable
from history.message import Message
from history.store import HistoryStore
from history.support.redaction import Redaction, redaction_of
from history.support.rendering import encodable, exception_info, in_log, text_of
from triggers.declaration.decorator import Trigger, trigger
from triggers.guards.guard import Guard, protect
from triggers.guards.keys import check_key
from triggers.service.checking import pointing
from triggers.service.failures import FatalError, HostRetryError, TransientError
from triggers.service.options import LARGEST_BODY, GuardOptions, HostOptions, check_names
from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)

#: The result of a run, and the exception to raise for the framework instead, if any.
End = tuple[Any, BaseException | None]

#: The pause before a task is tried again while its history is unavailable, in seconds.
AWAY_FOR = 5.0

#: How long a run that its framework sent again waits for the run before it. The earlier run ends a moment
#: later and releases its claim; otherwise the copy would look again only at the end of the lease.
HANDOVER = timedelta(seconds=2)

#: The options that a framework's own retries replace.
_THE_HOSTS = ("on_retry_failure", "retry", "transacted", "transient")


#: The options of every framework with guards of :class:`TaskGuards`; each reads ``fingerprint`` differently.
_OPTIONS = [*HostOptions.__annotations__, "keep_result", "fingerprint"]


class GivenUpError(DoubtlessError):
    """A task was not run, and is parked for a person to decide: it may have run, or must not run."""

    @classmethod
    def of(cls, guard: str, outcome: Outcome) -> "GivenUpError":
        """Report the result of a run. Frameworks send an error as class and arguments: here, the text."""
        error = cls(
            f"{guard}: {outcome.uuid} was not run and is parked: {outcome.reason}; see: doubtless parked list"
        )
        error.__cause__ = outcome.error
        return error


#: The classes of JSON's scalar values, except None.
_SCALARS = {bool, int, float, str}

#: Returns a value of a subclass as one of the class itself.
_EXACT: Sequence[tuple[type, Callable[[Any], Any]]] = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
)

#: The runs inside each task of asyncio, by the names of their guards and their uuids.
_RUNS_HERE: set[tuple[asyncio.Task[Any] | None, str, str | None]] = set()


@contextmanager
def running_here(guard: str, uuid: str | None) -> Generator[None]:
    """Note that this task of asyncio runs a uuid while the block runs."""
    run = asyncio.current_task(), guard, uuid
    _RUNS_HERE.add(run)
    try:
        yield
    finally:
        _RUNS_HERE.discard(run)


def waits_for_itself(guard: str, uuid: str | None) -> bool:
    """Whether this task of asyncio already runs a uuid: a broker in memory may deliver inside of a run."""
    return (asyncio.current_task(), guard, uuid) in _RUNS_HERE


def not_now(guard: str, outcome: Outcome) -> TransientError:
    """Return the error of a task that cannot run now, in a process in which nothing can run it later."""
    why = outcome.reason.partition(";")[0]
    return TransientError(
        f"{guard}: {outcome.uuid} was not run: {why}; nothing runs it again in this process: call it again"
    )


#: The result of a run without a result: not a value, so that nothing is kept of it.
NO_RESULT = object()

#: The body that a guard parks if it could not keep a task's arguments.
CUT = "not kept"


@dataclass(frozen=True, slots=True)
class Unguarded:
    """Why no guard wraps a task; ``is_meant`` says that the user asked for that."""

    why: str
    is_meant: bool = False


#: A task that its author leaves out.
LEFT_OUT = Unguarded("not guarded: guarded=False leaves it out", is_meant=True)


class TaskGuards:
    """One guard for each task of an application, made when its first message comes.

    So each process of a framework that forks has its own connections. ``tasks`` returns the functions of the
    existing tasks by their names; None for a task that only its framework can call. ``unguarded`` returns the
    tasks of the same application that no guard wraps.

    Raises:
        ConfigurationError: naming the option and the remedy.
    """

    def __init__(self, host: str, history: str | HistoryStore, options: HostOptions) -> None:
        self.tasks: Callable[[], Mapping[str, Callable[..., Any] | None]] = dict
        self.unguarded: Callable[[], Mapping[str, Unguarded]] = dict
        APPLICATIONS.add(self)
        with pointing():
            _refuse_retries(host, options)
            check_names("guarded", options, _OPTIONS)
        guard_options = cast(
            "GuardOptions", {**options, "transient": (HostRetryError,), "on_retry_failure": "suspend"}
        )
        self._host = host
        self._history = history
        self._options = guard_options
        self._guards: dict[str, Guard] = {}
        self._said: set[str] = set()
        protect(
            host, history=history, **guard_options
        )  # for its checks, while the user's line is still known

    def of(self, name: str) -> Guard:
        """Return the guard of a task.

        Raises:
            ConfigurationError: threads are green here.
        """
        guard = self._guards.get(name)
        if guard is None:
            try:
                refuse_green_threads(self._host)
            except ConfigurationError as error:
                self.refuse(error)
            guard = self._guards.setdefault(name, protect(name, history=self._history, **self._options))
        return guard

    @property
    def in_shadow(self) -> bool:
        """Whether no task is stopped."""
        return self._options.get("shadow", False)

    @property
    def redaction(self) -> Redaction | None:
        """Removes values from the texts of errors; None if nothing is removed."""
        return redaction_of(self._options.get("redact"))

    def refuse(self, error: ConfigurationError) -> None:
        """Refuse settings that would lose a task; in shadow, where everything goes on, log it once.

        Raises:
            ConfigurationError: this one, unless in shadow.
        """
        if not self.in_shadow:
            raise error
        if (text := str(error)) not in self._said:
            self._said.add(text)
            _log.warning("%s; in shadow it goes on, and without it is refused", text)

    def check_key(
        self, task: str, key: Any, function: Callable[..., Any], *, sent_whole: bool = True
    ) -> None:
        """Refuse a key that can identify no call of a task; see :func:`~triggers.guards.keys.check_key`.

        Raises:
            ConfigurationError: naming the task, and what is wrong with the key, unless in shadow.
        """
        try:
            with pointing():
                check_key(task, key, function, sent_whole=sent_whole)
        except ConfigurationError as error:
            self.refuse(error)

    def triggers(self, *, only_callable: bool = False) -> list[Trigger[..., Any]]:
        """Return a trigger for each task that exists now; it calls the task with its parked arguments."""
        declared = partial(trigger, history=self._history, max_body_size=LARGEST_BODY, **self._options)
        return [
            declared(name, name=name)(_calling(name, function))
            for name, function in self.tasks().items()
            if function is not None or not only_callable
        ]

    def close(self) -> None:
        """Close the connections of this process."""
        for guard in self._guards.values():
            guard.close()

    async def aclose(self) -> None:
        """Close the connections of this process, including those of its running event loop."""
        for guard in self._guards.values():
            await guard.aclose()
        self.close()


#: The applications of this process with guarded tasks, for code that looks at triggers.
APPLICATIONS: WeakSet[TaskGuards] = WeakSet()


def _calling(name: str, function: Callable[..., Any] | None) -> Callable[[Message], Any]:
    """Return a service that calls a task with its parked arguments."""

    def arguments(message: Message) -> tuple[Sequence[Any], Mapping[str, Any]]:
        body: Any = message.body
        if not isinstance(body, dict) or CUT in body:
            raise FatalError(f"{name}: its arguments are not JSON, and were not kept: send it anew")
        kept = cast("dict[str, Any]", body)
        return kept["args"], kept["kwargs"]

    def call(message: Message) -> Any:
        assert function is not None  # noqa: S101  (such a task is not handed out to be called)
        args, kwargs = arguments(message)
        return function(*args, **kwargs)

    async def await_it(message: Message) -> Any:
        return await call(message)

    return await_it if inspect.iscoroutinefunction(function) else call


def _refuse_retries(host: str, options: Mapping[str, Any]) -> None:
    for name in _THE_HOSTS:
        if name in options:
            raise ConfigurationError(
                name, f"{host} decides itself what is run again", f"leave it out: use the retries of {host}"
            )


def log_failure(
    ended: str, problem: Exception, *, run: object, task: str, redact: Redaction | None, then: str
) -> None:
    """Log a failure of a guard, without anything that ``redact`` finds.

    ``ended`` is WAITS or RECOVERED, ``run`` identifies the run, and ``then`` says what comes next.
    """
    _log.error(
        "%s %s: %s. The guard failed before it knew how the run ended. %s",
        in_log(str(run)),
        ended,
        text_of(problem, redact),
        then,
        exc_info=exception_info(problem, redact=redact),
        extra={"trigger": task},
    )


def result_of(outcome: Outcome) -> Any:
    """Return the result of a run.

    Raises:
        Exception: the run's exception. It also makes the framework run the task again.
    """
    if (error := error_of(outcome)) is not None:
        raise error
    return outcome.result


def given(end: End) -> Any:
    """Return the result of a run.

    Raises:
        BaseException: the exception to raise for the framework instead.
    """
    result, error = end
    if error is not None:
        raise error
    return result


def error_of(outcome: Outcome) -> BaseException | None:
    """Return the exception of a run, as the task raised it; None without an exception."""
    return outcome.error.error if isinstance(outcome.error, HostRetryError) else outcome.error


def called_with(unit: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parked data of a call, for a person's decision, and to run it again.

    It is always a body that a message can have: this must not fail a call that its framework can run.
    """
    try:
        whole = _is_json(list(args)) and _is_json(dict(kwargs))
        body = {unit: name, "args": shown(args), "kwargs": shown(kwargs)}
        refuse_unreadable(body)
    except Exception:  # noqa: BLE001  (nested too deeply, with too many digits, or of a class that fails)
        whole, texts = False, {key: _as_text(value) for key, value in kwargs.items()}
        body = {unit: name, "args": [_as_text(value) for value in args], "kwargs": texts}
    return body if whole else {**body, CUT: "values that are not JSON are shown as text"}


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_json(item) for name, item in cast("Any", value).items())
    if isinstance(value, list | tuple):
        return all(_is_json(item) for item in cast("Sequence[Any]", value))
    return value is None or type(value) in _SCALARS


def shown(value: Any) -> Any:
    """Return arguments as JSON values for people to read; anything else is shown as text."""
    if isinstance(value, Mapping):
        return {str(name): shown(item) for name, item in cast("Any", value).items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in cast("Sequence[Any]", value)]
    if value is None or type(value) in _SCALARS:
        return value
    # Nobody knows what the methods of a subclass do.
    exactly = next((exact for scalar, exact in _EXACT if isinstance(value, scalar)), _as_text)
    return exactly(value)


def _as_text(value: object) -> str:
    try:
        return encodable(str.__str__(repr(value)))
    except Exception:  # noqa: BLE001  (its __repr__ is unknown code; a deep or long value has none)
        return f"a {type(value).__qualname__} that cannot be shown"


def refuse_green_threads(host: str) -> None:
    """Refuse pools of green threads: a thread renews the lease, and must run while a task computes.

    Raises:
        ConfigurationError: threads are patched.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if (gevent and gevent.is_module_patched("threading")) or (
        eventlet and eventlet.is_monkey_patched("thread")
    ):
        raise ConfigurationError(
            f"the pool of {host}",
            "gevent and eventlet are not supported: a thread renews the leases",
            "use processes or threads",
        )
