"""A base class for Celery tasks.

Celery's actions and ours fit together as follows.

==========================  ===========================================================================
the outcome                 Celery
==========================  ===========================================================================
NEW, succeeded              the result, as without the guard
NEW, ``self.retry()``,      the entry is released, and Celery's retry runs it again
``autoretry_for``
NEW, ``self.replace()``     the replacement runs, under this id; if the same task ran before, this is
                            a new run
NEW, any other failure      FAILURE; the task is parked, with its arguments
DUPLICATE                   the first result, if the history (``keep_result``) or the result backend has
                            it, so that chains go on; else the copy is ignored
its original still runs,    sent again, later, with the same id; FAILURE for an eager task
or the history is away
IN_DOUBT, or called with    FAILURE with an :class:`~triggers.guards.celery.GivenUpError`; parked
other arguments than first
==========================  ===========================================================================
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Unpack, cast
from weakref import WeakSet

from history.errors import ConfigurationError, MissingExtraError
from history.identity import canonical
from history.message import UNDEFINED_COUNT, Message
from history.store import HistoryStore
from history.support.rendering import in_log, text_of
from triggers.detection.table import Status
from triggers.guards.arguments import TaskOptions, compared, with_arguments
from triggers.guards.celery.sending import (
    first_arguments,
    give_back,
    is_sent_again,
    mark,
    named,
    retry_noting,
    send_again,
    uuid_of,
)
from triggers.guards.celery.subclasses import (
    COPY,
    called,
    start,
    tell_of_unguarded,
    unguarded_in,
    without_self,
    wrap_members,
)
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
    not_now,
    refuse_green_threads,
)
from triggers.guards.keys import Key, key_of, uuid_for
from triggers.service.failures import HostRetryError
from triggers.service.keeping import FailedBeforeError
from triggers.service.outcome import Outcome

__all__ = ["GivenUpError", "guarded"]

_HOST = "celery"

#: The prefix of the id under which the result backend keeps the result of a link of a chain.
_KEPT = "doubtless-"

_log = logging.getLogger(__name__)


def guarded(*, history: str | HistoryStore, **options: Unpack[TaskOptions]) -> type[Any]:
    """Return a base class for tasks: ``Celery("shop", task_cls=guarded(history="redis://..."))``.

    Each task has its own guard under its name. The uuid of a run is the task's id. A task that is sent twice
    has two ids. If publishers may do this, name a key: ``@app.task(uuid="order_id")`` for a parameter, or a
    function of the arguments.

    Args:
        history: a URL or a store. Each process of a prefork pool opens its own.
        options: as in :func:`~triggers.guards.protect`, except for retries, which are Celery's. With
            ``keep_result``, a copy under another task id also gets the first result. With
            ``fingerprint="arguments"``, a task that has the key of another task and other arguments fails and
            is parked. It does not count as a copy.

    Raises:
        ConfigurationError: naming the option and the remedy; or (MissingExtraError) Celery is not installed.
    """
    celery = _celery()
    guards = TaskGuards(_HOST, history, with_arguments(options))

    functions: dict[str, Any] = {}
    apps: WeakSet[Any] = WeakSet()
    guards.tasks = lambda: functions
    guards.unguarded = lambda: unguarded_in(apps, made)

    def bound(task: Any, app: Any) -> None:
        # A class at the place of a task: it can only be called, and the function takes it as self.
        _check(task, guards)
        apps.add(app)
        name = task.name

        def run(*args: Any, **kwargs: Any) -> Any:
            return app.tasks[name](*args, **kwargs)

        run.__wrapped__ = task.run  # type: ignore[attr-defined]  # what it comes to
        if name is not None:
            functions[name] = run

    def enter(task: Any, args: tuple[Any, ...], kwargs: dict[str, Any], own: Callable[..., Any]) -> Any:
        return _CeleryRun(task, guards, celery, own).of(args, kwargs)

    def subclassed(cls: Any, /, **options: Any) -> None:
        cast("Any", super(made, cls)).__init_subclass__(**options)
        wrap_members(cls, celery.Task, enter, hooks=not guards.in_shadow)

    def replace(task: Any, sig: Any) -> Any:
        mark(sig, task)
        return celery.Task.replace(task, sig)

    def retry(task: Any, /, *args: Any, **kwargs: Any) -> Any:
        return retry_noting(celery, task, args, kwargs)

    members: dict[str, Any] = {
        "__doc__": "A task that runs once for each id or key.",
        "__call__": called(_run, enter),
        "__init_subclass__": classmethod(subclassed),
        "replace": replace,
        "retry": retry,
        "on_bound": classmethod(bound),
        "abstract": True,
        "uuid": None,
    }
    if not guards.in_shadow:  # a guard that changes nothing
        members |= {
            "acks_late": True,
            "reject_on_worker_lost": True,
            "Request": "triggers.guards.celery.request:Request",
        }
    made: Any = type("GuardedTask", (celery.Task,), members)
    refuse = _refusing(made, guards)
    celery.signals.worker_init.connect(refuse)
    tell = tell_of_unguarded(made)
    celery.signals.worker_init.connect(tell)
    leave = _leaving(guards)
    celery.signals.worker_process_shutdown.connect(leave)
    celery.signals.worker_shutdown.connect(leave)  # for the pools without processes of their own
    # A signal holds its handlers weakly: they live as long as the class.
    made.refuse_worker, made.tell_of_unguarded = staticmethod(refuse), staticmethod(tell)
    made.leave_worker = staticmethod(leave)
    return cast("type[Any]", made)


def _refusing(base: type[Any], guards: TaskGuards) -> Callable[..., None]:
    """Return a handler that ends a worker that cannot run tasks of ``base``, before each of them fails."""

    def refuse(sender: Any, **_about: Any) -> None:
        try:
            refuse_green_threads(_HOST)
        except ConfigurationError as error:
            sender.app.finalize(auto=True)
            if not any(isinstance(task, base) for task in sender.app.tasks.values()):
                return
            try:
                guards.refuse(error)
            except ConfigurationError as refusal:
                # A signal logs any other exception of its handlers, and goes on.
                text = f"the worker does not start: {refusal}: --pool prefork or --pool threads"
                raise SystemExit(text) from refusal

    return refuse


def _leaving(guards: TaskGuards) -> Callable[..., None]:
    """Return a handler for the end of a worker, or of a process of its pool, where no other code runs."""

    def leave(**_about: Any) -> None:
        guards.close()

    return leave


def _celery() -> Any:
    try:
        celery: Any = import_module("celery")
    except ModuleNotFoundError as error:
        raise MissingExtraError("doubtless.guards.celery", extra="celery", package="celery") from error
    import_module("celery.exceptions")
    import_module("celery.backends.base")
    import_module("celery.signals")
    return celery


def _check(task: Any, guards: TaskGuards) -> None:
    """Refuse settings under which a crash loses a task, and a key that identifies no call of it.

    Raises:
        ConfigurationError: naming the task and the setting.
    """
    if not str(task.name).startswith("celery."):  # Celery's own tasks may inherit a key that is not for them
        guards.check_key(f"task {task.name}", without_self(task, "uuid"), without_self(task, "run"))
    for setting in ("acks_late", "reject_on_worker_lost"):
        if not getattr(task, setting):
            guards.refuse(
                ConfigurationError(
                    f"task {task.name}: {setting}",
                    "is off: a worker that dies has acknowledged a task that it has not done",
                    "leave it out, the guard switches it on",
                )
            )


def _run(task: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run the task: the ``__call__`` of a class that defines none."""
    return task.run(*args, **kwargs)


class _CeleryRun:
    """One delivery of a task."""

    def __init__(self, task: Any, guards: TaskGuards, celery: Any, own: Callable[..., Any]) -> None:
        self._task = task
        self._guards = guards
        self._celery = celery
        self._own = own

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the task's function once, and report the result to Celery."""
        try:
            end = self._end(args, kwargs)
        except Exception as problem:  # noqa: BLE001  (a time limit may raise anywhere in the guard)
            give_back(self._celery, self._task, problem, self._guards.redaction)
        return given(end)

    def _end(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> End:
        """Run it once; return its result, and the exception to raise for Celery."""
        self._guard = self._guards.of(self._task.name)
        request, exceptions = self._task.request, self._celery.exceptions
        ignored: list[Exception] = []
        returned: list[Any] = []

        def call() -> Any:
            try:
                start(request)
                result = self._own(*args, **kwargs)
            except exceptions.Ignore as wanted:
                # The task itself says that it has done its work.
                ignored.append(wanted)
                result = NO_RESULT
            except Exception as error:
                if is_sent_again(request) or isinstance(error, exceptions.Reject | exceptions.Retry):
                    raise HostRetryError("Celery", error) from error
                raise
            if is_sent_again(request):  # by retry(throw=False), and it nevertheless succeeded
                returned.append(result)
                raise HostRetryError("Celery", exceptions.Retry("it was sent again"))
            if not ignored:
                self._keep(result)
            return result

        # ``self.retry()`` sends first, and then raises.
        wait = HANDOVER if request.retries else None
        outcome = self._guard.handle_message(self._message(args, kwargs), call, wait=wait)
        if ignored:
            return None, ignored[0]
        end = (returned[0], None) if returned else self._answer(outcome)
        request.callbacks = named(request)
        return end

    def _message(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Message:
        request = self._task.request
        info: Mapping[str, Any] = request.delivery_info or {}
        return Message(
            uuid=uuid_for(self._guard, lambda: self._key(args, kwargs)),
            body=called_with("task", self._task.name, args, kwargs),
            # Celery does not count: redelivered means more than once, and its absence means nothing.
            delivery_count=2 if info.get("redelivered") else UNDEFINED_COUNT,
            properties={
                "celery_task_id": request.id,
                **first_arguments(request, compared(self._guard, self._task.run, args, kwargs)),
            },
        )

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        key: Key | None = self._task.uuid
        if key is None:
            return uuid_of(self._task.request.id, self._task)
        identity = canonical(key_of(self._task.name, key, self._task.run, args, kwargs))
        return identity and uuid_of(identity, self._task)

    def _answer(self, outcome: Outcome) -> End:
        if outcome.executed:
            return outcome.result, error_of(outcome)
        if outcome.status is Status.DUPLICATE:
            setattr(self._task.request, COPY, True)
            if isinstance(outcome.error, FailedBeforeError):
                return self._failed_before(outcome.error)
            return (outcome.result, None) if outcome.result_kept else self._first_result()
        if not outcome.acknowledge:
            if self._task.request.is_eager:
                return None, not_now(self._guard.name, outcome)
            send_again(self._task, outcome.recover_after or AWAY_FOR)
            return None, self._celery.exceptions.Ignore()
        return None, GivenUpError.of(self._guard.name, outcome)

    def _keep(self, result: Any) -> None:
        """Keep the result of a chain's link before the link is completed, so that a copy can go on with it.

        Only if something follows: other tasks pay nothing. Not under the task's own id: success there means
        to Celery that the next link was sent.
        """
        request = self._task.request
        if request.ignore_result or not (request.chain or request.callbacks or request.chord):
            return
        try:
            self._task.backend.store_result(_KEPT + request.id, result, self._celery.states.SUCCESS)
        except Exception as error:  # noqa: BLE001  (any error: the task has been done)
            text = text_of(error, self._guards.redaction)
            _log.warning("%s: its result is not kept before it is done: %s", in_log(request.id), text)

    def _failed_before(self, error: FailedBeforeError) -> End:
        """Fail as the first run did, so that Celery continues with the errbacks, once under one id."""
        if self._result_of(self._task.request.id).get("status") == self._celery.states.FAILURE:
            return None, self._celery.exceptions.Ignore()
        return None, error

    def _first_result(self) -> End:
        """Return the result of the first run, so that Celery goes on with what follows it.

        A worker may have died between the completion and that step. The next link already has its id, so that
        a guard drops one of two.
        """
        for task_id in (self._task.request.id, _KEPT + self._task.request.id):
            meta = self._result_of(task_id)
            if meta.get("status") == self._celery.states.SUCCESS:
                return meta.get("result"), None
        return None, self._celery.exceptions.Ignore()

    def _result_of(self, task_id: str) -> Mapping[str, Any]:
        """Return the result backend's data for a task; nothing without a backend, which is the default."""
        backend = self._task.backend
        if isinstance(backend, self._celery.backends.base.DisabledBackend):
            return {}
        meta: Mapping[str, Any] = backend.get_task_meta(task_id)
        return meta
