"""One delivery of a Taskiq task: its run, the report to Taskiq, and what happens if the guard fails."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

from history.errors import MissingExtraError
from history.message import Message
from history.support.rendering import in_log, text_of
from triggers.detection.table import Status
from triggers.guards.arguments import compared
from triggers.guards.guard import Guard
from triggers.guards.host import (
    AWAY_FOR,
    HANDOVER,
    NO_RESULT,
    End,
    GivenUpError,
    TaskGuards,
    called_with,
    error_of,
    given,
    log_failure,
    not_now,
    running_here,
    waits_for_itself,
)
from triggers.guards.keys import Key, key_of, uuid_for
from triggers.service.failures import HostRetryError
from triggers.service.keeping import FailedBeforeError
from triggers.service.outcome import Outcome

try:
    from anyio import CancelScope  # Taskiq also needs it
    from taskiq import SimpleRetryMiddleware, TaskiqMessage
    from taskiq.exceptions import NoResultError
except ModuleNotFoundError as missing:
    raise MissingExtraError("doubtless.guards.taskiq", extra="taskiq", package="taskiq") from missing

_log = logging.getLogger(__name__)

#: As Any: its constructor has no types.
_NO_RESULT: Any = NoResultError

#: How long a task stays in the worker after the guard has failed, in seconds.
PAUSE = 5.0

#: The label in which Taskiq counts how often a task has requeued itself.
_REQUEUED = "X-Taskiq-requeue"


@dataclass(slots=True)
class TaskArrival:
    """A message and the event loop on which it came, right before the call of its task."""

    message: TaskiqMessage
    loop: asyncio.AbstractEventLoop
    taken: bool = False


class TaskRun:
    """One delivery of a task."""

    def __init__(
        self,
        guards: TaskGuards,
        broker: Any,
        task: Any,
        current: TaskArrival,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._guards, self._task = guards, task
        self._broker = broker
        self._message, self._loop = current.message, current.loop
        self._function, self._args, self._kwargs = function, args, kwargs
        self._call: Callable[[], Any] = partial(function, *args, **kwargs)
        self._no_result: NoResultError | None = None
        self._requeued = current.message.labels.get(_REQUEUED)
        # ``context.requeue()`` sends first, and then raises.
        self._wait = None if self._requeued is None else HANDOVER

    def _told(self) -> Message:
        message, function = self._message, self._function
        key = cast("Key | None", self._task.labels.get("uuid"))
        uuid: str | None = message.task_id
        if key is not None:
            # A user's function gets the sent arguments, without the ones that Taskiq adds for dependencies.
            arguments = (message.args, message.kwargs) if callable(key) else (self._args, self._kwargs)
            uuid = uuid_for(self._guard, lambda: key_of(self._task.task_name, key, function, *arguments))
        return Message(
            uuid=uuid,
            body=called_with("task", self._task.task_name, message.args, message.kwargs),
            properties={
                "taskiq_task_id": message.task_id,
                **compared(self._guard, function, message.args, message.kwargs),
            },
        )

    @cached_property
    def _guard(self) -> Guard:
        return self._guards.of(self._task.task_name)

    async def awaited(self) -> Any:
        """Run a coroutine function once, and report the result to Taskiq."""

        async def call() -> Any:
            try:
                with running_here(self._guard.name, message.uuid):
                    return await self._call()
            except Exception as error:  # noqa: BLE001  (any error: it is judged and raised again)
                return self._judge(error)

        end: End | None = None
        try:
            while end is None:
                try:
                    message = self._told()
                    outcome = await self._guard.ahandle_message(message, call, wait=self._wait)
                    end = await self._first_result() if self._is_copy(outcome) else self._answer(outcome)
                    if end is None and waits_for_itself(self._guard.name, message.uuid):
                        end = None, not_now(self._guard.name, outcome)
                    pause = outcome.recover_after or AWAY_FOR
                except Exception as problem:  # noqa: BLE001  (any failure of the guard: the task waits)
                    pause = self._say_waits(problem)
                if end is None:
                    await asyncio.sleep(pause)
        except asyncio.CancelledError:
            await self._survive()
            raise
        return given(end)

    def called(self) -> Any:
        """Run a function once, in this thread, and report the result to Taskiq."""

        def call() -> Any:
            try:
                return self._call()
            except Exception as error:  # noqa: BLE001  (as above)
                return self._judge(error)

        end: End | None = None
        while end is None:
            try:
                outcome = self._guard.handle_message(self._told(), call, wait=self._wait)
                end = self._first_result_here() if self._is_copy(outcome) else self._answer(outcome)
                pause = outcome.recover_after or AWAY_FOR
            except Exception as problem:  # noqa: BLE001  (as above)
                pause = self._say_waits(problem)
            if end is None:
                time.sleep(pause)
        return given(end)

    def _say_waits(self, problem: Exception) -> float:
        """Log that a task stays in the worker, unacknowledged; return for how many seconds."""
        run, task, redact = self._message.task_id, self._task.task_name, self._guard.settings.redaction
        then = f"It tries again in {PAUSE:.0f} s"
        log_failure("WAITS", problem, run=run, task=task, redact=redact, then=then)
        return PAUSE

    async def _survive(self) -> None:
        """Have a task come again after it was cancelled, as by ``timeout=``: the history knows its state.

        Taskiq acknowledges it. A retry middleware may send it again by itself.
        """
        if self._guards.in_shadow or self._is_sent_again(TimeoutError()):
            return
        try:
            with CancelScope(shield=True):
                # In a task of its own: a broker in memory may run it inside this call, and its time limits
                # would pile up in this task until Python's recursion limit.
                await asyncio.create_task(self._broker.kick(self._broker.formatter.dumps(self._message)))
        except Exception as error:  # noqa: BLE001  (any error of a broker: it ends as without the guard)
            text = "%s FAILED: it was cancelled, and the broker does not take it again: %s"
            why = text_of(error, self._guards.redaction)
            _log.error(text, in_log(self._message.task_id), why, extra={"trigger": self._task.task_name})

    def _judge(self, error: Exception) -> Any:
        """Raise the exception of a task by its meaning; return if the task is done and wants no result."""
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
        for middleware in self._broker.middlewares:
            if not isinstance(middleware, _retrying()):
                continue
            types = _types(middleware, self._message)
            if types is not None and not isinstance(error, tuple(types)):
                continue
            wanted = labels.get("retry_on_error")
            if isinstance(wanted, str):
                wanted = wanted.lower() == "true"
            if wanted is None:
                wanted = middleware.default_retry_label
            done, most = (
                int(labels.get("_retries", 0)),
                int(labels.get("max_retries", middleware.default_retry_count)),
            )
            if wanted and done + 1 < most:
                return True
        return False

    @staticmethod
    def _is_copy(outcome: Outcome) -> bool:
        """Whether it is a copy without a kept result in the history, while the backend may have it."""
        is_settled = outcome.executed or outcome.result_kept or isinstance(outcome.error, FailedBeforeError)
        return outcome.status is Status.DUPLICATE and not is_settled

    def _answer(self, outcome: Outcome) -> End | None:
        """Return how it ended; None if it waits for another run, or for the history."""
        if not outcome.acknowledge and not outcome.executed:
            return None
        if self._no_result is not None:
            return None, self._no_result
        if outcome.executed or outcome.result_kept:
            return outcome.result, error_of(outcome)
        self._message.labels["max_retries"] = 0  # a person decides about it, not a retry
        if isinstance(outcome.error, FailedBeforeError):
            return None, outcome.error
        return None, GivenUpError.of(self._guard.name, outcome)

    async def _first_result(self) -> End:
        """Return the result of the first run, so that Taskiq goes on with what follows it."""
        backend, task_id = self._broker.result_backend, self._message.task_id
        if await backend.is_result_ready(task_id):
            first = await backend.get_result(task_id)
            if not first.is_err:
                return first.return_value, None
        return None, _NO_RESULT()

    def _first_result_here(self) -> End:
        """Do the same in this thread: the connections of the result backend belong to the event loop."""
        return asyncio.run_coroutine_threadsafe(self._first_result(), self._loop).result()


def _retrying() -> tuple[type[Any], ...]:
    """Return the retry middlewares of the installed Taskiq."""
    import taskiq  # noqa: PLC0415  (its newer names, where there are any)

    smart = getattr(taskiq, "SmartRetryMiddleware", None)
    return (SimpleRetryMiddleware,) if smart is None else (SimpleRetryMiddleware, smart)


def _types(middleware: Any, message: TaskiqMessage) -> Any:
    """Return the exceptions that a retry middleware handles; None for all."""
    of_task = getattr(middleware, "_get_types_of_exceptions", None)
    return getattr(middleware, "types_of_exceptions", None) if of_task is None else of_task(message)
