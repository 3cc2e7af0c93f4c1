"""A middleware for a broker of FastStream.

FastStream's actions and ours fit together as follows.

==========================  ===========================================================================
the outcome                 FastStream
==========================  ===========================================================================
NEW, succeeded              as without the guard: acknowledged, its answer published
NEW, failed, and the        the entry is released, and the message recovered, as without the guard
subscriber's policy is
NACK_ON_ERROR, or the
handler raised NackMessage
or called ``msg.nack()``
NEW, failed otherwise       as without the guard; the message is also parked
DUPLICATE                   acknowledged; nothing is published, or with ``keep_result`` the first answer
its original still runs,    stays in the worker, unacknowledged, until the other run is over
or the history is away
IN_DOUBT, or another body   acknowledged; parked
than the first one
it has no uuid              acknowledged; parked
==========================  ===========================================================================
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, Unpack, cast

from history.errors import ConfigurationError, MissingExtraError
from history.identity import canonical
from history.json_text import refuse_unreadable
from history.message import UNDEFINED_COUNT, Message
from history.store import HistoryStore
from history.support.rendering import exception_info, in_log, text_of
from triggers.guards.guard import Guard
from triggers.guards.host import (
    AWAY_FOR,
    NO_RESULT,
    TaskGuards,
    log_failure,
    not_now,
    result_of,
    running_here,
    shown,
    waits_for_itself,
)
from triggers.service.checking import check_able, check_takes, pointing
from triggers.service.failures import HostRetryError
from triggers.service.fingerprints import FingerprintSource
from triggers.service.keeping import Keep
from triggers.service.options import HostOptions
from triggers.service.outcome import Outcome

try:
    from faststream import AckPolicy, BaseMiddleware
    from faststream.exceptions import AckMessage, HandlerException, NackMessage, RejectMessage
    from faststream.message import AckStatus
except ModuleNotFoundError as missing:
    raise MissingExtraError(
        "doubtless.guards.faststream", extra="faststream", package="faststream"
    ) from missing

__all__ = ["guarded"]

B = TypeVar("B")

#: Identifies the run: the name of a header, or a function of the message.
Identity = str | Callable[[Any], str | Awaitable[str]]

_log = logging.getLogger(__name__)

#: The attribute of a guarded broker.
_MARK = "_doubtless_guarded"

#: When FastStream may acknowledge, so that a message comes again after its process dies.
_AFTERWARDS = (AckPolicy.ACK, AckPolicy.REJECT_ON_ERROR, AckPolicy.NACK_ON_ERROR)


class HandlerOptions(HostOptions, total=False):
    """The options of ``guarded`` for handlers of messages."""

    keep_result: bool | Keep
    fingerprint: FingerprintSource | None


def guarded(
    broker: B, *, history: str | HistoryStore, uuid: Identity, **options: Unpack[HandlerOptions]
) -> B:
    """Guard all handlers of a broker: ``guarded(broker, history="redis://...", uuid="order-id")``.

    Each subscriber has its own guard, named after its function and its source. Call this before the broker
    starts. Subscribers are checked when the broker starts.

    Args:
        broker: FastStream's, of any kind that acknowledges.
        history: a URL or a store.
        uuid: the name of a header that identifies the event, or a function of FastStream's message, which may
            be a coroutine function. FastStream's own ``message_id`` does not work: FastStream makes one up if
            the sender gave none.
        options: as in :func:`~triggers.guards.protect`, except for retries, which are FastStream's. With
            ``keep_result``, a copy is answered with the handler's first result: a request gets its reply, and
            a publisher sends it again. With ``fingerprint="body"``, a message that has the uuid of another
            message and another body is parked. It does not count as a copy.

    Returns:
        The broker.

    Raises:
        ConfigurationError: naming the option and the remedy; or (MissingExtraError) FastStream is missing.
    """
    with pointing():
        check_able("broker", broker, ("add_middleware", "start", "stop"), "give a broker of FastStream")
        if hasattr(broker, _MARK):  # two guards would wait for each other
            raise ConfigurationError("broker", "it is guarded already", "call guarded once for each broker")
        if not isinstance(uuid, str) or not uuid:
            check_takes(
                "uuid", uuid, "one message", remedy="name a header, or give a function of the message"
            )
    guards = TaskGuards("faststream", history, cast("HostOptions", options))
    setattr(broker, _MARK, _Broker(cast("Any", broker), guards, uuid))
    return broker


class _Broker:
    """A broker with a guard for each of its subscribers."""

    def __init__(self, broker: Any, guards: TaskGuards, uuid: Identity) -> None:
        self.guards = guards
        self.uuid = uuid
        self._broker = broker
        self._start: Callable[[], Awaitable[None]] = broker.start
        self._stop: Callable[..., Awaitable[None]] = broker.stop
        self._checked: dict[int, str] = {}
        # A handler takes an object that only its broker can make of a message.
        guards.tasks = lambda: {_name_of(subscriber): None for subscriber in self._broker.subscribers}
        broker.start, broker.stop = self.start, self.stop
        broker.add_middleware(self.middleware)

    def middleware(self, message: Any, /, *, context: Any) -> "_FastStreamGuarding":
        """Return the middleware of one message, in the form that FastStream wants."""
        return _FastStreamGuarding(message, context=context, guarded=self)

    async def start(self) -> None:
        """Start the broker if its subscribers lose nothing.

        Raises:
            ConfigurationError: a subscriber would lose messages.
        """
        for subscriber in self._broker.subscribers:
            self.name_of(subscriber)
        await self._start()

    async def stop(self, *args: Any, **kwargs: Any) -> None:
        """Stop the broker, and close connections."""
        await self._stop(*args, **kwargs)
        await self.guards.aclose()

    def name_of(self, subscriber: Any) -> str:
        """Return the name of a subscriber's guard.

        Raises:
            ConfigurationError: its settings would lose a message.
        """
        name = self._checked.get(id(subscriber))
        if name is None:
            name = _name_of(subscriber)
            _check(name, subscriber, self.guards)
            if name in self._checked.values():
                raise ConfigurationError(
                    f"subscriber {name}", "there are two of this name", "give one of them another function"
                )
            self._checked[id(subscriber)] = name
        return name


class _FastStreamGuarding(BaseMiddleware[Any, Any]):
    def __init__(self, msg: Any, /, *, context: Any, guarded: _Broker) -> None:
        super().__init__(msg, context=context)
        self._guarded = guarded

    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        subscriber = self.context.get_local("handler_")
        if subscriber is None:
            return await call_next(msg)  # the reply to a request of this process: not a handler's message
        guard = self._guarded.guards.of(self._guarded.name_of(subscriber))
        message = await _told(guard, self._guarded.uuid, msg)
        return await _FastStreamRun(guard, message, subscriber.ack_policy, msg).of(lambda: call_next(msg))


class _FastStreamRun:
    """One delivery of a message."""

    def __init__(self, guard: Guard, message: Message, policy: AckPolicy, msg: Any) -> None:
        self._guard = guard
        self._message = message
        self._policy = policy
        self._msg = msg
        self._done: list[HandlerException] = []
        self._given_back: list[Any] = []

    async def of(self, handler: Callable[[], Awaitable[Any]]) -> Any:
        """Run a handler once, and report the result to FastStream."""

        async def call() -> Any:
            try:
                with running_here(self._guard.name, self._message.uuid):
                    result = await handler()
            except AckMessage as done:
                self._done.append(done)
                return NO_RESULT
            except Exception as error:
                if self._comes_again(error):
                    raise HostRetryError("FastStream", error) from error
                raise
            if self._msg.committed in {AckStatus.NACKED, AckStatus.REJECTED}:  # by msg.nack(), and ended well
                self._given_back.append(result)
                raise HostRetryError("FastStream", NackMessage())
            return result

        try:
            while True:
                outcome = await self._outcome(call)
                if outcome is not None and (outcome.acknowledge or outcome.executed):
                    return self._answer(outcome)
                if outcome is not None and waits_for_itself(self._guard.name, self._message.uuid):
                    raise not_now(self._guard.name, outcome)
                await asyncio.sleep(AWAY_FOR if outcome is None else outcome.recover_after or AWAY_FOR)
        except asyncio.CancelledError:
            await self._survive()
            raise

    async def _outcome(self, call: Callable[[], Awaitable[Any]]) -> Outcome | None:
        """Return the guard's outcome; None if the guard failed, and the message stays in the worker."""
        try:
            return await self._guard.ahandle_message(self._message, call)
        except Exception as problem:  # noqa: BLE001  (any failure of the guard: the message waits)
            redact, then = self._guard.settings.redaction, "It tries again"
            run, task = self._message.uuid, self._guard.name
            log_failure("WAITS", problem, run=run, task=task, redact=redact, then=then)
            return None

    async def _survive(self) -> None:
        """Give a message back after a cancellation: most policies would acknowledge or reject it."""
        if self._guard.settings.shadow or self._msg.committed is not None:
            return
        try:
            await asyncio.shield(self._msg.nack())
        except Exception as error:  # noqa: BLE001  (any error of a broker: then it is not acknowledged)
            text = text_of(error, self._guard.settings.redaction)
            _log.warning("%s: it is not given back: %s", in_log(str(self._message.uuid)), text)

    def _comes_again(self, error: Exception) -> bool:
        """Whether FastStream gives a message back after an error."""
        if self._msg.committed is not None:  # the handler's own decision has precedence
            return bool(self._msg.committed is AckStatus.NACKED)
        if isinstance(error, HandlerException):  # with RabbitMQ the exception may decide this itself
            options: dict[str, Any] = getattr(error, "extra_options", {})
            return bool(options.get("requeue", not isinstance(error, RejectMessage)))
        return self._policy is AckPolicy.NACK_ON_ERROR

    def _answer(self, outcome: Outcome) -> Any:
        if self._done:
            raise self._done[0]
        if self._given_back:
            return self._given_back[0]
        if not outcome.executed and not outcome.result_kept:
            raise AckMessage  # a duplicate, or it is parked
        return result_of(outcome)


async def _told(guard: Guard, uuid: Identity, msg: Any) -> Message:
    return Message(
        uuid=await _uuid_of(guard, uuid, msg),
        body=await _body_of(msg),
        delivery_count=2 if getattr(msg.raw_message, "redelivered", False) else UNDEFINED_COUNT,
        properties={"faststream_message_id": str(msg.message_id)},
    )


async def _body_of(msg: Any) -> Any:
    """Return the body for people to read; undecoded if nobody can decode it, or read it again."""
    try:
        body = shown(await msg.decode())
        refuse_unreadable([body])
    except Exception:  # noqa: BLE001  (any error of a decoder)
        return bytes(msg.body)
    return body


async def _uuid_of(guard: Guard, uuid: Identity, msg: Any) -> str | None:
    """Return the identity of the event; None if the message has none, and is rejected and parked.

    After an error, the broker would instead deliver it again and again.
    """
    try:
        if isinstance(uuid, str):
            key: Any = msg.headers.get(uuid)
        else:
            key = uuid(msg)
            key = await key if hasattr(key, "__await__") else key
        return canonical(key)
    except Exception as error:  # noqa: BLE001  (any error of user code)
        redact, text = guard.settings.redaction, "subscriber %s: no uuid can be read of message %s: %s"
        info = exception_info(error, redact=redact)
        _log.error(text, guard.name, in_log(str(msg.message_id)), text_of(error, redact), exc_info=info)
        return None


def _name_of(subscriber: Any) -> str:
    """Return a name that no other subscriber has: its functions and its sources."""
    functions = "+".join(call.name for call in subscriber.calls)
    listens = {key: value for key, value in subscriber.get_log_context(None).items() if key != "message_id"}
    group = getattr(getattr(subscriber, "stream_sub", None), "group", None)
    places: Sequence[Any] = [*listens.values(), group]
    return "@".join([functions, *(str(destination) for destination in places if destination)])


def _check(name: str, subscriber: Any, guards: TaskGuards) -> None:
    """Refuse settings under which a crash loses a message, or under which a uuid is missing.

    Raises:
        ConfigurationError: naming the subscriber and the setting.
    """
    policy, class_name = subscriber.ack_policy, type(subscriber).__name__
    if policy is AckPolicy.ACK_FIRST:
        guards.refuse(
            ConfigurationError(
                f"subscriber {name}: ack_policy",
                "is ACK_FIRST: a process that dies has acknowledged what it has not done (Kafka's default)",
                "use ack_policy=AckPolicy.NACK_ON_ERROR",
            )
        )
    if policy not in _AFTERWARDS:
        guards.refuse(
            ConfigurationError(
                f"subscriber {name}: ack_policy",
                "is MANUAL, or what it listens to cannot acknowledge (a channel or a list of Redis)",
                "use NACK_ON_ERROR or REJECT_ON_ERROR, and with Redis a stream with a group",
            )
        )
    if "Batch" in class_name:
        guards.refuse(
            ConfigurationError(
                f"subscriber {name}: batch",
                "a batch is many messages and one run",
                "take one message at a time",
            )
        )
