"""A middleware that wraps the function of each task.

A hook of Taskiq cannot skip a task: what it raises leaves the message unacknowledged, and its sender without
an answer. So the hook before a task only puts our function around the task's. What Taskiq does with a task
and what we do fit together as follows.

==========================  ===========================================================================
the outcome                 Taskiq
==========================  ===========================================================================
NEW, succeeded              the result, as without the guard
NEW, failed, and a retry    the entry is released, and Taskiq's retry runs it again
middleware sends it again,
or ``context.requeue()``
NEW, failed for good        as without the guard; the task is parked as well, with its arguments
DUPLICATE                   the first result, where the history (``keep_result``) or the result backend has
                            it; else acknowledged, and no result is written
its original still runs,    waits in its place, unacknowledged, until the other one is over
or the history is away
IN_DOUBT, or called with    the result is a :class:`~triggers.guards.taskiq.GivenUpError`; parked
other arguments than first
==========================  ===========================================================================
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from inspect import currentframe, iscoroutinefunction, unwrap
from typing import Any, Unpack, cast

from history.errors import ConfigurationError, MissingExtraError
from history.message import Message
from history.store import HistoryStore
from triggers.detection.table import Status
from triggers.guards.arguments import TaskOptions, compared, with_arguments
from triggers.guards.host import (
    AWAY_FOR,
    HANDOVER,
    NO_RESULT,
    GivenUpError,
    Key,
    TaskGuards,
    called_with,
    key_of,
    result_of,
    uuid_for,
)
from triggers.service.failures import HostRetryError
from triggers.service.keeping import FailedBeforeError
from triggers.service.outcome import Outcome

try:
    from taskiq import SimpleRetryMiddleware, TaskiqMessage, TaskiqMiddleware
    from taskiq.exceptions import NoResultError
    from taskiq_dependencies import DependencyGraph
except ModuleNotFoundError as missing:
    raise MissingExtraError("triggers.guards.taskiq", extra="taskiq", package="taskiq") from missing

__all__ = ["GivenUpError", "guarded"]

#: As Any: its constructor has no types.
_NO_RESULT: Any = NoResultError

#: What marks a function that a guard has wrapped.
_MARK = "_doubtless_guarded"

#: When a worker may acknowledge, so that a task whose worker dies comes again.
_AFTERWARDS = ("when_executed", "when_saved")

#: Where Taskiq counts how often a task has put itself back.
_REQUEUED = "X-Taskiq-requeue"


@dataclass(slots=True)
class _Arrival:
    """A message whose task is about to be called, and the event loop that it came on."""

    message: TaskiqMessage
    loop: asyncio.AbstractEventLoop
    taken: bool = False


#: What this context is about to call. A function runs in a copy of it, so that what it writes there is lost.
_current: ContextVar[_Arrival | None] = ContextVar("_current", default=None)


def guarded(*, history: str | HistoryStore, **options: Unpack[TaskOptions]) -> TaskiqMiddleware:
    """Return a middleware for a broker: ``broker.add_middlewares(guarded(history="redis://..."))``.

    Each task is a guard of its own under its name. The uuid of a run is the task's id, which retries keep.
    A task that is sent twice has two, so name a key where publishers may do so:
    ``@broker.task(uuid="order_id")`` for a parameter, or a function of the arguments.
    ``@broker.task(guarded=False)`` leaves a task out.

    Args:
        history: a URL or a store. Each process of a worker opens its own.
        options: as of :func:`~triggers.guards.protect`, but for retries, which are Taskiq's. With
            ``keep_result``, a copy under another task id gets the first result, too. With
            ``fingerprint="arguments"``, a task with the key of another one and other arguments fails, and is
            parked, instead of being taken for its copy.

    Raises:
        ConfigurationError: naming the option and the remedy; or (MissingExtraError) Taskiq is missing.
    """
    return _Guarding(TaskGuards("taskiq", history, with_arguments(options)))


class _Guarding(TaskiqMiddleware):
    def __init__(self, guards: TaskGuards) -> None:
        super().__init__()
        self._guards = guards
        guards.tasks = self._tasks

    def _tasks(self) -> dict[str, Callable[..., Any] | None]:
        """Return the functions of the tasks; None for one whose dependencies only a worker has."""
        tasks: dict[str, Callable[..., Any] | None] = {}
        for name, task in self.broker.get_all_tasks().items():
            if task.labels.get("guarded", True):
                function: Callable[..., Any] = unwrap(task.original_func)
                tasks[name] = function if DependencyGraph(function).is_empty() else None
        return tasks

    def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        """Leave out what is for the worker only, and may be a function."""
        for label in ("uuid", "guarded"):
            message.labels.pop(label, None)
        return message

    def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
        task: Any = self.broker.find_task(message.task_name)
        if not task.labels.get("guarded", True):
            return message
        receiver = _receiver()
        _check(message, receiver, self._guards)
        if getattr(receiver, "is_process_pool", False):
            return message  # only in shadow
        if not getattr(task.original_func, _MARK, False):
            task.original_func = self._wrapped(task)
        _current.set(_Arrival(message, asyncio.get_running_loop()))
        return message

    async def shutdown(self) -> None:
        await self._guards.aclose()

    def _wrapped(self, task: Any) -> Callable[..., Any]:
        function: Callable[..., Any] = task.original_func
        wrapped: Callable[..., Any]
        if iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                run = self._run(task, function, args, kwargs)
                return await function(*args, **kwargs) if run is None else await run.awaited()

            wrapped = awaited
        else:

            @wraps(function)
            def called(*args: Any, **kwargs: Any) -> Any:
                run = self._run(task, function, args, kwargs)
                return function(*args, **kwargs) if run is None else run.called()

            wrapped = called
        setattr(wrapped, _MARK, True)
        return wrapped

    def _run(
        self, task: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> "_Run | None":
        """Return the delivery that is to be run; None for a plain call, by a test or by another task."""
        current = _current.get()
        if current is None or current.taken or current.message.task_name != task.task_name:
            return None
        current.taken = True  # what the task calls in turn is a plain call
        return _Run(self._guards, self.broker, task, current, function, args, kwargs)


def _receiver() -> Any:
    """Return the receiver that calls the hook which calls this; None where something else does.

    No hook is handed the receiver, and it alone knows when it acknowledges.
    """
    hook = frame.f_back if (frame := currentframe()) is not None else None
    caller = None if hook is None else hook.f_back
    return None if caller is None else caller.f_locals.get("self")


def _check(message: TaskiqMessage, receiver: Any, guards: TaskGuards) -> None:
    """Refuse settings under which a crash loses a task, or a guard cannot be there.

    Raises:
        ConfigurationError: naming the task and the setting.
    """
    when: Any = message.labels.get("ack_type", getattr(receiver, "ack_time", "when_saved"))
    when = str(getattr(when, "value", when)).lower()
    if when not in _AFTERWARDS:
        guards.refuse(
            ConfigurationError(
                f"task {message.task_name}: ack_type",
                f"is {when}: a worker that dies has acknowledged a task that it has not done",
                "use when_saved, which is Taskiq's default, or when_executed",
            )
        )
    if getattr(receiver, "is_process_pool", False):
        guards.refuse(
            ConfigurationError(
                f"task {message.task_name}: --use-process-pool",
                "a guard does not go with a function into another process",
                "use threads, which are Taskiq's default, and more workers",
            )
        )


class _Run:
    """One delivery of a task."""

    def __init__(
        self,
        guards: TaskGuards,
        broker: Any,
        task: Any,
        current: _Arrival,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._guard = guards.of(task.task_name)
        self._broker = broker
        self._message, self._loop = current.message, current.loop
        message = self._message
        self._call: Callable[[], Any] = partial(function, *args, **kwargs)
        self._no_result: NoResultError | None = None
        self._requeued = message.labels.get(_REQUEUED)
        # ``context.requeue()`` sends first, and then raises.
        self._wait = None if self._requeued is None else HANDOVER
        key = cast("Key | None", task.labels.get("uuid"))
        uuid: str | None = message.task_id
        if key is not None:
            # A function of the user's takes what was sent, without what Taskiq adds for dependencies.
            given = (message.args, message.kwargs) if callable(key) else (args, kwargs)
            uuid = uuid_for(self._guard, lambda: key_of(task.task_name, key, function, *given))
        self._told = Message(
            uuid=uuid,
            body=called_with("task", task.task_name, message.args, message.kwargs),
            properties={
                "taskiq_task_id": message.task_id,
                **compared(self._guard, function, message.args, message.kwargs),
            },
        )

    async def awaited(self) -> Any:
        """Run a coroutine function once, and tell Taskiq what has become of it."""

        async def call() -> Any:
            try:
                return await self._call()
            except Exception as error:  # noqa: BLE001  (whatever it is, it is judged and raised again)
                return self._judge(error)

        while True:
            outcome = await self._guard.ahandle_message(self._told, call, wait=self._wait)
            if outcome.acknowledge or outcome.executed:
                break
            await asyncio.sleep(outcome.recover_after or AWAY_FOR)
        return await self._first_result() if self._is_copy(outcome) else self._answer(outcome)

    def called(self) -> Any:
        """Run a function once, in this thread, and tell Taskiq what has become of it."""

        def call() -> Any:
            try:
                return self._call()
            except Exception as error:  # noqa: BLE001  (as above)
                return self._judge(error)

        while True:
            outcome = self._guard.handle_message(self._told, call, wait=self._wait)
            if outcome.acknowledge or outcome.executed:
                break
            time.sleep(outcome.recover_after or AWAY_FOR)
        if not self._is_copy(outcome):
            return self._answer(outcome)
        # The connections of the result backend are the event loop's.
        return asyncio.run_coroutine_threadsafe(self._first_result(), self._loop).result()

    def _judge(self, error: Exception) -> Any:
        """Raise what a task raised as what it means; return where the task is done and wants no result."""
        if isinstance(error, NoResultError):
            if self._message.labels.get(_REQUEUED) != self._requeued:
                raise HostRetryError("Taskiq", error) from error
            self._no_result = error
            return NO_RESULT
        if self._is_sent_again(error):
            raise HostRetryError("Taskiq", error) from error
        raise error

    def _is_sent_again(self, error: Exception) -> bool:
        """Whether a retry middleware sends the task again after an error, by its own rules."""
        labels = self._message.labels
        for one in self._broker.middlewares:
            if not isinstance(one, _retrying()):
                continue
            types = _types(one, self._message)
            if types is not None and not isinstance(error, tuple(types)):
                continue
            wanted = labels.get("retry_on_error")
            if isinstance(wanted, str):
                wanted = wanted.lower() == "true"
            if wanted is None:
                wanted = one.default_retry_label
            done, most = (
                int(labels.get("_retries", 0)),
                int(labels.get("max_retries", one.default_retry_count)),
            )
            if wanted and done + 1 < most:
                return True
        return False

    @staticmethod
    def _is_copy(outcome: Outcome) -> bool:
        """Whether it is a copy whose first run left nothing in the history, while the backend may know."""
        known = outcome.executed or outcome.result_kept or isinstance(outcome.error, FailedBeforeError)
        return outcome.status is Status.DUPLICATE and not known

    def _answer(self, outcome: Outcome) -> Any:
        if self._no_result is not None:
            raise self._no_result
        if outcome.executed or outcome.result_kept:
            return result_of(outcome)
        self._message.labels["max_retries"] = 0  # a person decides on it, not a retry
        if isinstance(outcome.error, FailedBeforeError):
            raise outcome.error
        raise GivenUpError.of(self._guard.name, outcome) from outcome.error

    async def _first_result(self) -> Any:
        """Return what the first run returned, so that Taskiq goes on with what follows it."""
        backend, task_id = self._broker.result_backend, self._message.task_id
        if await backend.is_result_ready(task_id):
            first = await backend.get_result(task_id)
            if not first.is_err:
                return first.return_value
        raise _NO_RESULT


def _retrying() -> tuple[type[Any], ...]:
    """Return the retry middlewares of the Taskiq that is installed."""
    import taskiq  # noqa: PLC0415  (its newer names, where there are any)

    smart = getattr(taskiq, "SmartRetryMiddleware", None)
    return (SimpleRetryMiddleware,) if smart is None else (SimpleRetryMiddleware, smart)


def _types(middleware: Any, message: TaskiqMessage) -> Any:
    """Return the exceptions that a retry middleware is for; None for all."""
    of_task = getattr(middleware, "_get_types_of_exceptions", None)
    return getattr(middleware, "types_of_exceptions", None) if of_task is None else of_task(message)
