"""A middleware that wraps the function of each actor.

Dramatiq's actions and ours fit together as follows.

==========================  ===========================================================================
the outcome                 Dramatiq
==========================  ===========================================================================
NEW, succeeded              the result, as without the guard
NEW, failed, and Retries    the entry is released, and Dramatiq's retry runs it again
sends it again
NEW, failed for good        as without the guard; the message is also parked, with its arguments
DUPLICATE                   the first result, if the history (``keep_result``) or the result backend has
                            it, so that pipelines go on; else the copy is skipped and acknowledged
its original still runs,    sent again, later, with the same id
or the history is away
IN_DOUBT, or called with    failed with a :class:`~triggers.guards.dramatiq.GivenUpError`, and not tried
other arguments than first  again; parked
==========================  ===========================================================================
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Unpack, cast

from history.errors import ConfigurationError, MissingExtraError
from history.message import Message
from history.store import HistoryStore
from history.support.rendering import in_log, text_of
from triggers.detection.table import Status
from triggers.guards.arguments import TaskOptions, compared, with_arguments
from triggers.guards.dramatiq.following import follow, is_followed, leave_out, taken_from
from triggers.guards.host import (
    AWAY_FOR,
    LEFT_OUT,
    End,
    GivenUpError,
    TaskGuards,
    Unguarded,
    called_with,
    error_of,
    given,
    log_failure,
)
from triggers.guards.keys import Key, key_of, uuid_for
from triggers.service.checking import check_switch
from triggers.service.failures import HostRetryError
from triggers.service.keeping import FailedBeforeError
from triggers.service.outcome import Outcome

try:
    from dramatiq.generic import GenericActor
    from dramatiq.middleware import Middleware, MiddlewareError, Retries, SkipMessage
    from dramatiq.middleware.threading import Interrupt
    from dramatiq.results import ResultFailure, ResultMissing, Results
except ModuleNotFoundError as missing:
    raise MissingExtraError("doubtless.guards.dramatiq", extra="dramatiq", package="dramatiq") from missing

__all__ = ["GivenUpError", "guarded"]

_log = logging.getLogger(__name__)

#: Marks a function that a guard has wrapped.
_MARK = "_doubtless_guarded"

#: How long a message stays in the worker before it is offered to the broker again, in seconds.
PAUSE = 5.0

#: The message with which this thread is about to call an actor.
_current: ContextVar[Any] = ContextVar("_current", default=None)


def guarded(*, history: str | HistoryStore, **options: Unpack[TaskOptions]) -> Middleware:
    """Return a middleware for a broker: ``broker.add_middleware(guarded(history="redis://..."))``.

    Each actor has its own guard under its name. The uuid of a run is the message's id, which retries keep. A
    message that is sent twice has two ids. If publishers may do this, name a key:
    ``@dramatiq.actor(uuid="order_id")`` for a parameter, or a function of the arguments.
    ``@dramatiq.actor(guarded=False)`` leaves an actor out.

    Args:
        history: a URL or a store. Each process of a worker opens its own.
        options: as in :func:`~triggers.guards.protect`, except for retries, which are Dramatiq's. With
            ``keep_result``, a copy under another message id also gets the first result. With
            ``fingerprint="arguments"``, a message that has the key of another message and other arguments
            fails and is parked. It does not count as a copy.

    Raises:
        ConfigurationError: naming the option and the remedy; or (MissingExtraError) Dramatiq is missing.
    """
    return _DramatiqGuarding(TaskGuards("dramatiq", history, with_arguments(options)))


class _RefusedError(ConfigurationError, MiddlewareError):
    """Refuses an actor. Dramatiq logs any other exception of a middleware, and goes on without it."""


class _DramatiqGuarding(Middleware):
    def __init__(self, guards: TaskGuards) -> None:
        self._guards = guards
        self._functions: dict[str, Callable[..., Any]] = {}
        self._on_success: dict[str, str | None] = {}
        self._left_out: dict[str, Unguarded] = {}
        guards.tasks = lambda: self._functions
        guards.unguarded = lambda: self._left_out

    @property
    def actor_options(self) -> set[str]:
        return {"uuid", "guarded"}

    def before_declare_actor(self, broker: Any, actor: Any) -> None:
        self._wrap(broker, actor)

    def after_declare_actor(self, broker: Any, actor: Any) -> None:
        # For actors that existed before the middleware.
        self._wrap(broker, actor)

    def before_process_message(self, broker: Any, message: Any) -> None:
        del broker
        _current.set(message)

    def after_skip_message(self, broker: Any, message: Any) -> None:
        del broker, message
        _current.set(None)

    def after_worker_shutdown(self, broker: Any, worker: Any) -> None:
        del broker, worker
        self._guards.close()

    def _check(self, actor: Any) -> None:
        """Refuse options of an actor under which it would not be guarded, or none of its messages would run.

        Raises:
            _RefusedError: naming the actor and the option.
        """
        name = f"actor {actor.actor_name}"
        try:
            check_switch(f"{name}: guarded", actor.options.get("guarded", True))
            self._guards.check_key(name, actor.options.get("uuid"), _named(actor.fn))
        except ConfigurationError as error:
            raise _RefusedError(error.setting, error.problem, error.remedy) from None

    def _wrap(self, broker: Any, actor: Any) -> None:
        self._check(actor)
        function: Callable[..., Any] = actor.fn
        if not actor.options.get("guarded", True):
            self._left_out[actor.actor_name] = LEFT_OUT
            return
        if getattr(function, _MARK, False):
            return

        name = actor.actor_name
        if not self._guards.in_shadow:
            self._on_success[name] = taken_from(actor)

        @wraps(function)
        def guarded_call(*args: Any, **kwargs: Any) -> Any:
            message = _current.get()
            if message is None or message.actor_name != name:
                return function(*args, **kwargs)  # a plain call, by a test or by another actor
            _current.set(None)  # a nested call from the actor is a plain call
            run = _DramatiqRun(self._guards, broker, actor, message, on_success=self._on_success.get(name))
            return run.of(function, args, kwargs)

        setattr(guarded_call, _MARK, True)
        self._functions[name] = function
        actor.fn = guarded_call


class _DramatiqRun:
    """One delivery of a message."""

    def __init__(
        self, guards: TaskGuards, broker: Any, actor: Any, message: Any, *, on_success: str | None
    ) -> None:
        self._guards, self._on_success = guards, on_success
        self._key = cast("Key | None", actor.options.get("uuid"))
        self._broker = broker
        self._actor = actor
        self._message = message

    def of(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the actor's function once, and report the result to Dramatiq."""

        def call() -> Any:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                if self._is_sent_again(error):
                    raise HostRetryError("Dramatiq", error) from error
                raise
            self._keep(result)
            self._go_on(result)
            return result

        named = _named(function)
        try:
            guard = self._guard = self._guards.of(self._actor.actor_name)
            end = self._answer(guard.handle_message(self._told(named, args, kwargs), call))
        except Exception as problem:  # noqa: BLE001  (any failure of the guard: the message comes again)
            self._say_recovered(problem)
            end = None, self._send_again(AWAY_FOR)
        except Interrupt as interrupt:
            self._survive(interrupt)
            raise
        return given(end)

    def _go_on(self, result: Any) -> None:
        """Do what follows the message, once for its id; without a key, its id is the run's."""
        if self._guard.settings.shadow or not is_followed(self._message, self._on_success):
            return
        redact = self._guards.redaction
        call = partial(follow, self._broker, self._message, result, self._on_success, redact=redact)
        if self._key is None:
            call()
        else:
            self._guards.of(f"{self._guard.name}/followed").handle(self._message.message_id, call)

    def _keep(self, result: Any) -> None:
        """Keep the result of a pipeline's link before the link is completed, so that a copy can go on.

        Also keep the result of a part of a group, which the group's callbacks may read. Other messages pay
        nothing.
        """
        for middleware in self._broker.middleware:
            if isinstance(middleware, Results):
                results = cast("Any", middleware)
                if not self._is_kept(results.store_results):
                    return
                mine = self._actor.options.get("result_ttl", results.result_ttl)
                try:
                    results.backend.store_result(
                        self._message, result, self._message.options.get("result_ttl", mine)
                    )
                except Exception as error:  # noqa: BLE001  (any error: the message has been done)
                    text = text_of(error, self._guard.settings.redaction)
                    _log.warning(
                        "%s: its result is not kept before it is done: %s",
                        in_log(self._message.message_id),
                        text,
                    )
                return

    def _is_kept(self, by_default: bool) -> bool:  # noqa: FBT001  (as Dramatiq has it)
        options = self._message.options
        if options.get("pipe_target") is not None:
            return True
        mine = self._actor.options.get("store_results", by_default)
        return is_followed(self._message, self._on_success) and bool(options.get("store_results", mine))

    def _told(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Message:
        name, key = self._actor.actor_name, self._key
        uuid: str | None = str(self._message.message_id)
        if key is not None:
            uuid = uuid_for(self._guard, lambda: key_of(name, key, function, args, kwargs))
        return Message(
            uuid=uuid,
            body=called_with("actor", name, args, kwargs),
            properties={
                "dramatiq_message_id": self._message.message_id,
                **compared(self._guard, function, args, kwargs),
            },
        )

    def _is_sent_again(self, error: BaseException) -> bool:
        """Whether the middleware Retries sends the message again after an error, by its own rules."""
        options, mine = self._message.options, self._actor.options
        throws = options.get("throws") or mine.get("throws")
        retries: Any = next(
            (middleware for middleware in self._broker.middleware if isinstance(middleware, Retries)), None
        )
        if retries is None or (throws and isinstance(error, throws)):
            return False
        done = options.get("retries", 0)
        wanted = mine.get("retry_when", retries.retry_when)
        if wanted is not None:
            return bool(wanted(done, error))
        most = options.get("max_retries", mine.get("max_retries", retries.max_retries))
        return most is None or done < most

    def _answer(self, outcome: Outcome) -> End:
        if outcome.executed:
            return outcome.result, error_of(outcome)
        if outcome.status is Status.DUPLICATE:
            if outcome.result_kept and self._key is not None:
                self._keep(outcome.result)
                self._go_on(outcome.result)  # a copy under another id may be a part of another group
            leave_out(self._message)
            if isinstance(outcome.error, FailedBeforeError):
                return self._failed(outcome.error)
            return (outcome.result, None) if outcome.result_kept else self._first_result()
        if not outcome.acknowledge:
            return None, self._send_again(outcome.recover_after or AWAY_FOR)
        return self._failed(GivenUpError.of(self._guard.name, outcome))

    def _failed(self, error: Exception) -> End:
        """Fail without another try: Retries fails it immediately."""
        self._message.options["throws"] = type(error)
        return None, error

    def _first_result(self) -> End:
        """Return the result of the first run, so that Dramatiq goes on with what follows it.

        A worker may have died between the completion and that step. The next message already has its id, so
        that a guard drops one of two.
        """
        for middleware in self._broker.middleware:
            if isinstance(middleware, Results):
                try:
                    return cast("Any", middleware).backend.get_result(self._message), None
                except ResultMissing:
                    break
                except ResultFailure as failure:
                    return self._failed(failure)
        return None, self._skipped(f"{self._message.message_id} was done before")

    def _send_again(self, seconds: float) -> Exception:
        """Send the same message again, and drop this copy; this does not count as one of the actor's retries.

        Until the broker takes it, this copy stays in the worker, unacknowledged.
        """
        while True:
            try:
                self._broker.enqueue(self._message.copy(), delay=int(seconds * 1000))
                break
            except Exception as error:  # noqa: BLE001  (any error of a broker)
                text = "%s WAITS: the broker does not take it again: %s"
                why = text_of(error, self._guards.redaction)
                _log.warning(text, in_log(self._message.message_id), why, extra=self._named)
                time.sleep(PAUSE)
        return self._skipped(f"{self._message.message_id} is sent again in {seconds:.1f} s")

    def _skipped(self, why: str) -> Exception:
        # A skipped message would otherwise have the result None.
        self._message.options["store_results"] = False
        return SkipMessage(why)

    def _survive(self, interrupt: Interrupt) -> None:
        """Have the message come again after a time limit or a shutdown: the history knows that it started."""
        if self._guards.in_shadow or self._is_sent_again(interrupt):
            return
        try:
            self._broker.enqueue(self._message.copy(), delay=int(AWAY_FOR * 1000))
        except Exception as error:  # noqa: BLE001  (as above; the message fails as without the guard)
            text = "%s FAILED: %s. The broker does not take it again: %s"
            why = text_of(error, self._guards.redaction)
            _log.error(text, in_log(self._message.message_id), interrupt, why, extra=self._named)

    def _say_recovered(self, problem: Exception) -> None:
        run, task, redact = self._message.message_id, self._actor.actor_name, self._guards.redaction
        log_failure("RECOVERED", problem, run=run, task=task, redact=redact, then="It is sent again")

    @property
    def _named(self) -> dict[str, str]:
        return {"trigger": self._actor.actor_name}


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with an actor's parameters: a class-based actor passes all to a method of it."""
    return cast("Any", function).perform if isinstance(function, GenericActor) else function
