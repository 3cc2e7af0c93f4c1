"""A middleware that wraps the function of each task.

A hook of Taskiq cannot skip a task: if the hook raises, the message stays unacknowledged, and its sender gets
no answer. So the hook before a task only puts our function around the task's function. Taskiq's actions and
ours fit together as follows.

==========================  ===========================================================================
the outcome                 Taskiq
==========================  ===========================================================================
NEW, succeeded              the result, as without the guard
NEW, failed, and a retry    the entry is released, and Taskiq's retry runs it again
middleware sends it again,
or ``context.requeue()``
NEW, failed for good        as without the guard; the task is also parked, with its arguments
DUPLICATE                   the first result, if the history (``keep_result``) or the result backend has
                            it; else acknowledged, and no result is written
its original still runs,    stays in the worker, unacknowledged, until the other run is over
or the history is away
IN_DOUBT, or called with    the result is a :class:`~triggers.guards.taskiq.GivenUpError`; parked
other arguments than first
==========================  ===========================================================================
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from inspect import currentframe, iscoroutinefunction, unwrap
from typing import Any, Unpack

from history.errors import ConfigurationError, MissingExtraError
from history.store import HistoryStore
from triggers.guards.arguments import TaskOptions, with_arguments
from triggers.guards.host import LEFT_OUT, GivenUpError, TaskGuards, Unguarded
from triggers.guards.taskiq.run import TaskArrival, TaskRun
from triggers.service.checking import check_switch

try:
    from taskiq import TaskiqMessage, TaskiqMiddleware
    from taskiq_dependencies import DependencyGraph
except ModuleNotFoundError as missing:
    raise MissingExtraError("doubtless.guards.taskiq", extra="taskiq", package="taskiq") from missing

__all__ = ["GivenUpError", "guarded"]

#: Marks a function that a guard has wrapped.
_MARK = "_doubtless_guarded"

#: When a worker may acknowledge, so that a task comes again after its worker dies.
_AFTERWARDS = ("when_executed", "when_saved")

#: The message of the next call in this context. A function runs in a copy of it, so its own changes are lost.
_current: ContextVar[TaskArrival | None] = ContextVar("_current", default=None)


def guarded(*, history: str | HistoryStore, **options: Unpack[TaskOptions]) -> TaskiqMiddleware:
    """Return a middleware for a broker: ``broker.add_middlewares(guarded(history="redis://..."))``.

    Each task has its own guard under its name. The uuid of a run is the task's id, which retries keep. A task
    that is sent twice has two ids. If publishers may do this, name a key: ``@broker.task(uuid="order_id")``
    for a parameter, or a function of the arguments. ``@broker.task(guarded=False)`` leaves a task out.

    Args:
        history: a URL or a store. Each process of a worker opens its own.
        options: as in :func:`~triggers.guards.protect`, except for retries, which are Taskiq's. With
            ``keep_result``, a copy under another task id also gets the first result. With
            ``fingerprint="arguments"``, a task that has the key of another task and other arguments fails and
            is parked. It does not count as a copy.

    Raises:
        ConfigurationError: naming the option and the remedy; or (MissingExtraError) Taskiq is missing.
    """
    return _TaskiqGuarding(TaskGuards("taskiq", history, with_arguments(options)))


class _TaskiqGuarding(TaskiqMiddleware):
    def __init__(self, guards: TaskGuards) -> None:
        super().__init__()
        self._guards = guards
        guards.tasks, guards.unguarded = self._tasks, self._left_out

    def _left_out(self) -> dict[str, Unguarded]:
        tasks = self.broker.get_all_tasks()
        return {name: LEFT_OUT for name, task in tasks.items() if not task.labels.get("guarded", True)}

    def _tasks(self) -> dict[str, Callable[..., Any] | None]:
        """Return the functions of the tasks; None for a task with dependencies that only a worker has."""
        tasks: dict[str, Callable[..., Any] | None] = {}
        for name, task in self.broker.get_all_tasks().items():
            if task.labels.get("guarded", True):
                function: Callable[..., Any] = unwrap(task.original_func)
                tasks[name] = function if DependencyGraph(function).is_empty() else None
        return tasks

    def pre_send(self, message: TaskiqMessage) -> TaskiqMessage:
        """Remove labels that are only for the worker, and may be functions."""
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
        _current.set(TaskArrival(message, asyncio.get_running_loop()))
        return message

    def startup(self) -> None:
        """Refuse options of tasks under which they would not be guarded, or none of their runs could begin.

        Raises:
            ConfigurationError: naming the task and the option.
        """
        for name, task in self.broker.get_all_tasks().items():
            check_switch(f"task {name}: guarded", task.labels.get("guarded", True))
            if task.labels.get("guarded", True):
                function = unwrap(task.original_func)
                is_sent_whole = DependencyGraph(function).is_empty()
                key = task.labels.get("uuid")
                self._guards.check_key(f"task {name}", key, function, sent_whole=is_sent_whole)

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
    ) -> TaskRun | None:
        """Return the delivery that is to be run; None for a plain call, by a test or by another task."""
        current = _current.get()
        if current is None or current.taken or current.message.task_name != task.task_name:
            return None
        current.taken = True  # a nested call from the task is a plain call
        return TaskRun(self._guards, self.broker, task, current, function, args, kwargs)


def _receiver() -> Any:
    """Return the receiver that calls the hook that calls this; None if another caller does.

    No hook gets the receiver as an argument, and only the receiver knows when it acknowledges.
    """
    hook = frame.f_back if (frame := currentframe()) is not None else None
    caller = None if hook is None else hook.f_back
    return None if caller is None else caller.f_locals.get("self")


def _check(message: TaskiqMessage, receiver: Any, guards: TaskGuards) -> None:
    """Refuse settings under which a crash loses a task, or a guard cannot work.

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
