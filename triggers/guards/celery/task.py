"""A base class for Celery tasks.

What Celery does with a task and what we do fit together as follows.

==========================  ===========================================================================
the outcome                 Celery
==========================  ===========================================================================
NEW, succeeded              the result, as without the guard
NEW, ``self.retry()``,      the entry is released, and Celery's retry runs it again
``autoretry_for``
NEW, any other failure      FAILURE; the task is parked, with what it was called with
DUPLICATE                   the first result, where the result backend has it, so that chains go on; else
                            the copy is ignored
its original still runs,    sent again, later, with the same id
or the history is away
IN_DOUBT                    FAILURE with an :class:`~triggers.guards.celery.GivenUpError`; parked
==========================  ===========================================================================
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, Unpack, cast

from history.errors import ConfigurationError, DoubtlessError, MissingExtraError
from history.message import UNDEFINED_COUNT, Message
from history.store import HistoryStore
from triggers.detection.table import Status
from triggers.guards.guard import Guard, protect
from triggers.guards.options import GuardOptions
from triggers.service.outcome import Outcome

#: When a task is sent again whose history is away, in seconds.
AWAY_FOR = 5.0

#: What says which run is meant: the name of a parameter of the task, or a function of its arguments.
Key = str | Callable[..., str]

#: What is transient for every trigger that does not say otherwise.
_TRANSIENT: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)


class GivenUpError(DoubtlessError):
    """A task was not run, and is kept for a person to decide: it may have happened, or may not be run."""

    def __init__(self, guard: str, outcome: Outcome) -> None:
        super().__init__(
            f"{guard}: {outcome.uuid} was not run and is parked: {outcome.reason}; see: doubtless parked list"
        )


def guarded(*, history: str | HistoryStore, **options: Unpack[GuardOptions]) -> type[Any]:
    """Return a base class for tasks: ``Celery("shop", task_cls=guarded(history="redis://..."))``.

    Each task is a guard of its own under its name. The uuid of a run is the task's id. A task that is sent
    twice has two, so name a key where publishers may do so: ``@app.task(uuid="order_id")`` for a parameter,
    or a function of the arguments.

    Args:
        history: a URL or a store. Each process of a prefork pool opens its own.
        options: as of :func:`~triggers.guards.protect`.

    Raises:
        ConfigurationError: naming the option and the remedy; or (MissingExtraError) Celery is not installed.
    """
    protect("celery", history=history, **options)  # where the user's line is still known
    celery = _celery()
    kept = (*options.get("transient", _TRANSIENT), celery.exceptions.Retry, celery.exceptions.Reject)
    released: GuardOptions = {**options, "transient": kept, "transacted": True}
    guards: dict[str, Guard] = {}

    def call(task: Any, *args: Any, **kwargs: Any) -> Any:
        if task.request.called_directly:
            return task.run(*args, **kwargs)
        guard = guards.get(task.name)
        if guard is None:
            _refuse_green_threads()
            guard = guards.setdefault(task.name, protect(task.name, history=history, **released))
        return _Run(task, guard, celery).of(args, kwargs)

    members: dict[str, Any] = {
        "__doc__": "A task that runs once for each id or key.",
        "__call__": call,
        "on_bound": classmethod(_check),
        "abstract": True,
        "acks_late": True,
        "reject_on_worker_lost": True,
        "uuid": None,
    }
    return type("GuardedTask", (celery.Task,), members)


def _celery() -> Any:
    try:
        celery: Any = import_module("celery")
    except ModuleNotFoundError as error:
        raise MissingExtraError("triggers.guards.celery", extra="celery", package="celery") from error
    import_module("celery.exceptions")
    return celery


def _check(task: Any, _app: Any) -> None:
    """Refuse settings under which a crash loses a task.

    Raises:
        ConfigurationError: naming the task and the setting.
    """
    for setting in ("acks_late", "reject_on_worker_lost"):
        if not getattr(task, setting):
            raise ConfigurationError(
                f"task {task.name}: {setting}",
                "is off: a worker that dies has acknowledged a task that it has not done",
                "leave it out, the guard switches it on",
            )


class _Run:
    """One delivery of a task."""

    def __init__(self, task: Any, guard: Guard, celery: Any) -> None:
        self._task = task
        self._guard = guard
        self._celery = celery

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the task's function once, and tell Celery what has become of it."""
        ignored: list[Exception] = []

        def call() -> Any:
            try:
                return self._task.run(*args, **kwargs)
            except self._celery.exceptions.Ignore as wanted:
                # The task's own word that it has done what it wanted.
                ignored.append(wanted)

        outcome = self._guard.handle_message(self._message(args, kwargs), call)
        if ignored:
            raise ignored[0]
        return self._answer(outcome)

    def _message(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Message:
        request = self._task.request
        info: Mapping[str, Any] = request.delivery_info or {}
        return Message(
            uuid=self._key(args, kwargs),
            body={"task": self._task.name, "args": _shown(args), "kwargs": _shown(kwargs)},
            # Celery does not count: redelivered means more than once, and its absence means nothing.
            delivery_count=2 if info.get("redelivered") else UNDEFINED_COUNT,
            properties={"celery_task_id": request.id},
        )

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        key: Key | None = self._task.uuid
        if key is None:
            return str(self._task.request.id)
        if callable(key):
            return str(key(*args, **kwargs))
        bound = inspect.signature(self._task.run).bind(*args, **kwargs)
        bound.apply_defaults()
        if key not in bound.arguments:
            raise ConfigurationError(
                f"task {self._task.name}: uuid",
                f"it has no parameter {key!r}",
                "name one, or give a function",
            )
        return str(bound.arguments[key])

    def _answer(self, outcome: Outcome) -> Any:
        if outcome.error is not None:
            raise outcome.error
        if outcome.executed:
            return outcome.result
        if outcome.status is Status.DUPLICATE:
            return self._first_result()
        if not outcome.acknowledge:
            self._send_again(outcome.recover_after or AWAY_FOR)
        raise GivenUpError(self._guard.name, outcome)

    def _first_result(self) -> Any:
        """Return what the first run returned, so that Celery goes on with what follows it.

        A worker may have died between the completion and that. What follows has its id already, so that a
        guard drops one of two.
        """
        meta = self._task.backend.get_task_meta(self._task.request.id)
        if meta.get("status") == self._celery.states.SUCCESS:
            return meta.get("result")
        raise self._celery.exceptions.Ignore

    def _send_again(self, seconds: float) -> NoReturn:
        """Send the same task again, and drop this copy; it counts as none of the task's own retries."""
        again = self._task.signature_from_request(countdown=seconds, retries=self._task.request.retries)
        again.apply_async()
        raise self._celery.exceptions.Ignore


def _shown(value: Any) -> Any:
    """Return arguments as JSON values, for a person to read; what is none is shown as text."""
    if isinstance(value, Mapping):
        return {str(name): _shown(one) for name, one in cast("Any", value).items()}
    if isinstance(value, list | tuple):
        return [_shown(one) for one in cast("Sequence[Any]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _refuse_green_threads() -> None:
    """Refuse pools of green threads: a lease is renewed by a thread, which must run while a task computes.

    Raises:
        ConfigurationError: threads are patched.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if (gevent and gevent.is_module_patched("threading")) or (
        eventlet and eventlet.is_monkey_patched("thread")
    ):
        raise ConfigurationError(
            "celery worker --pool", "gevent and eventlet are not supported", "use prefork, threads or solo"
        )
