"""The messages of a producer, each made of a body and options, with a stable identity.

Source: webMethods ``pub.jms:send`` for the options. Unlike there, a message without a uuid gets a new one,
so that a repeated send is recognised as a duplicate.

Messages that the service of a transacted trigger sends leave only after the service has succeeded
(:class:`SentInRun`): a failed try has sent nothing. There, the uuid of a message without one follows from the
trigger, the delivery's uuid and the number of the message in this run. So a try after a crash sends the same
messages again, and a consumer that detects duplicates runs each of them once.
"""

import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import count
from typing import Any, TypedDict, Unpack, cast
from uuid import NAMESPACE_URL, uuid4, uuid5

from pydantic import BaseModel, ValidationError

from history.errors import ConfigurationError
from history.message import Message, PropertyValue
from history.support.user_code import put_back
from triggers.service.checking import check_text, check_utf8

#: A body: bytes, text, a JSON value, a pydantic model (as JSON), or a whole message.
Body = bytes | str | dict[str, Any] | list[Any] | bool | int | float | BaseModel | None

#: The uuids of replies are made in this namespace.
_REPLIES = uuid5(NAMESPACE_URL, "urn:doubtless:reply")

#: The uuids of what services send are made in this namespace.
_SENT = uuid5(NAMESPACE_URL, "urn:doubtless:sent")

#: Sends a kept message. Its argument is the connection of the service's transaction, or None without one.
Leave = Callable[[Any], Awaitable[object]]

#: The property by which webMethods relates a reply to its request; it comes before the uuid.
_REPLY_TAG = "wm_tag"


class SendOptions(TypedDict, total=False):
    """The options of a message that is sent; None counts as left out.

    - ``uuid``: its identity, of any length but empty. By default the uuid of the message, or a new one; in
      the service of a transacted trigger, one that is the same in each try.
    - ``priority``: 0 to 9; 4 by default.
    - ``time_to_live``: after it the message expires; never by default.
    - ``delay``: before it the message is not delivered.
    - ``properties`` are added to those of the message.
    - the others are the JMS headers of these names.
    """

    uuid: str | None
    priority: int | None
    time_to_live: timedelta | None
    delay: timedelta | None
    correlation_id: str | None
    reply_to: str | None
    type: str | None
    group_id: str | None
    group_sequence: int | None
    persistent: bool | None
    properties: Mapping[str, PropertyValue] | None


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that was sent to the provider, or that is ``queued`` on disk until the provider is back.

    ``message`` is as it was sent; a queued message has no JMSMessageID yet.
    """

    message: Message
    queued: bool = False

    @property
    def uuid(self) -> str:
        """The identity under which it was sent."""
        return cast("str", self.message.uuid)

    @property
    def message_id(self) -> str | None:
        """The JMSMessageID; None if the provider has not given one yet."""
        return self.message.message_id


def compose(destination: str, body: Body | Message, **options: Unpack[SendOptions]) -> Message:
    """Make the message to send.

    A :class:`Message` keeps its headers and properties unless an option replaces them. Its identity becomes
    the property ``uuid``. Values of one delivery (the count, the destination) are left out.

    Raises:
        ConfigurationError: an option is wrong; the error names it and the remedy.
    """
    check_text("destination", destination, "name the queue, topic or stream")
    check_utf8("destination", destination)
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    fields, kept = _fields(body)
    properties: dict[str, Any] = {**kept, **_mapping(chosen.pop("properties", {}))}
    fields["uuid"] = chosen.pop("uuid", None)
    if fields["uuid"] is None:
        fields["uuid"] = properties.get("uuid") or _identity(body)
    sent = datetime.now(UTC)
    # JMS counts in milliseconds: round now, so that the message arrives as it was sent.
    sent = sent.replace(microsecond=sent.microsecond // 1000 * 1000)
    times = _times(sent, chosen.pop("time_to_live", None), chosen.pop("delay", None))
    values: dict[str, Any] = {**fields, **chosen, **times, "timestamp": sent, "properties": properties}
    try:
        return Message(**values)
    except ValidationError as error:
        raise wrong_message(error) from error


def compose_batch(
    destination: str, bodies: Sequence[Body | Message], **options: Unpack[SendOptions]
) -> Sequence[Message]:
    """Make many messages with the same options; raises as :func:`compose`.

    Python would also take one text, mapping or message apart into its characters, keys or fields.
    """
    # Typed Any: a user's value, and not every user runs a type checker.
    batch: Any = bodies
    if isinstance(batch, str | bytes | bytearray | Mapping | BaseModel) or not isinstance(batch, Iterable):
        problem = f"a {type(bodies).__qualname__} is not a list of bodies"
        raise ConfigurationError("bodies", problem, "give a list, or use send for one message")
    if options.get("uuid") is not None:
        raise ConfigurationError("uuid", "cannot be the same for many messages", "give each Message its own")
    return [compose(destination, body, **options) for body in bodies]


def compose_request(
    destination: str, body: Body | Message, timeout: Any, **options: Unpack[SendOptions]
) -> Message:
    """Make a request, and check how long its sender waits; raises as :func:`compose`."""
    if options.get("reply_to") is not None:
        raise ConfigurationError("reply_to", "is set by request itself", "leave it out, or use send")
    if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
        raise ConfigurationError("timeout", f"{timeout!r} is not a duration above zero", "use a timedelta")
    return compose(destination, body, **options)


def _mapping(properties: Any) -> Mapping[str, Any]:
    """Return the properties; refuse a value that is not a mapping."""
    if not isinstance(properties, Mapping):
        problem = f"a {type(properties).__qualname__} is not a mapping"
        raise ConfigurationError("properties", problem, 'write properties={"name": value}')
    return cast("Mapping[str, Any]", properties)


def _fields(body: Body | Message) -> tuple[dict[str, Any], dict[str, PropertyValue]]:
    """Return the fields that a message keeps when it is sent, and its properties without the uuid."""
    if not isinstance(body, Message):
        return {"body": body.model_dump(mode="json") if isinstance(body, BaseModel) else body}, {}
    left_out = {"uuid", "delivery_count", "redelivered", "destination", "timestamp", "properties"}
    fields = {name: getattr(body, name) for name in Message.model_fields if name not in left_out}
    return fields, {name: value for name, value in body.properties.items() if name != "uuid"}


def _identity(body: Body | Message) -> str:
    return (body.uuid if isinstance(body, Message) else None) or fresh_uuid()


def _times(sent: datetime, time_to_live: timedelta | None, delay: timedelta | None) -> dict[str, datetime]:
    times: dict[str, datetime] = {}
    for option, field, duration in (
        ("time_to_live", "expiration", time_to_live),
        ("delay", "delivery_time", delay),
    ):
        if duration is None:
            continue
        # Typed Any: a user's value, and not every user runs a type checker.
        value: Any = duration
        if not isinstance(value, timedelta) or value < timedelta(milliseconds=1):
            raise ConfigurationError(
                option, f"{value!r} is not a duration", "use a timedelta of a millisecond or more"
            )
        try:
            times[field] = sent + value
        except OverflowError as error:
            raise ConfigurationError(option, f"{value} ends after the year 9999", "leave it out") from error
    if time_to_live is not None and delay is not None and delay >= time_to_live:
        raise ConfigurationError(
            "delay", "is as long as time_to_live, so the message would expire first", "make delay shorter"
        )
    return times


def wrong_message(error: ValidationError) -> ConfigurationError:
    """Return our error for a message that cannot be made."""
    # Values stay out of the text: they may be personal.
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(map(str, problem["loc"])) or "uuid"
    if problem["type"] == "extra_forbidden":
        near = get_close_matches(field, SendOptions.__annotations__, n=1)
        remedy = f"use {near[0]}" if near else "put your own values into properties={...}"
        return ConfigurationError(field, "is not an option of a message", remedy)
    return ConfigurationError(field, problem["msg"], "correct it")


def correlation_of(request: Message) -> str:
    """Return the JMSCorrelationID of a reply: the request's ``wm_tag``, else its uuid, else its JMSMessageID.

    Raises:
        ConfigurationError: the request has none of them.
    """
    tag = request.properties.get(_REPLY_TAG)
    correlation_id = tag if isinstance(tag, str) and tag else request.sent_uuid or request.uuid
    if correlation_id is None:
        raise ConfigurationError("request", "has neither uuid nor JMSMessageID", "send it with a uuid")
    return correlation_id


def compose_reply(request: Message, body: Body | Message, **options: Unpack[SendOptions]) -> Message:
    """Make the reply to a request; its uuid follows from the request's, so a second run sends the same uuid.

    Raises:
        ConfigurationError: the request names no destination for replies, or has no identity.
    """
    # Typed Any: a user's value, and not every user runs a type checker.
    asked: Any = request
    if not isinstance(asked, Message):
        problem = f"a {type(asked).__qualname__} is not a Message"
        raise ConfigurationError("request", problem, "give the message that the service got")
    if not request.reply_to:
        raise ConfigurationError(
            "request", "has no JMSReplyTo: nobody waits for a reply", "do not reply to it"
        )
    reply: dict[str, Any] = {"correlation_id": correlation_of(request)}
    if request.uuid is not None:
        reply["uuid"] = str(uuid5(_REPLIES, request.uuid.encode("utf-8", "surrogatepass").hex()))
    reply |= {name: value for name, value in options.items() if value is not None}
    return compose(request.reply_to, body, **cast("SendOptions", reply))


class SentInRun:
    """The messages that a run of a service has sent so far, in order.

    Args:
        trigger: its name.
        uuids: of the messages that it runs for; several in a batch.
        blocking: whether they leave by blocking calls.
    """

    def __init__(self, trigger: str, uuids: Sequence[str], *, blocking: bool) -> None:
        self.blocking = blocking
        self.over = False
        self._source = [trigger, *uuids]
        self._numbers = count(1)
        self._kept: list[Leave] = []
        self._endings: list[Callable[[], Awaitable[object]]] = []

    def fresh_uuid(self) -> str:
        """Return the uuid for the next message without one: the same in each run for the same delivery."""
        return str(uuid5(_SENT, json.dumps([*self._source, next(self._numbers)])))

    def keep(self, leave: Leave) -> None:
        """Keep something until the service has succeeded; it is sent then."""
        self._kept.append(leave)

    async def leave(self, connection: Any) -> None:
        """Send everything that was kept, in order.

        Raises:
            Exception: what a provider raised; the run has failed, and what has left already has its uuid.
        """
        for leave in self._kept:
            await leave(connection)

    def at_end(self, ending: Callable[[], Awaitable[object]]) -> None:
        """Call something when the run has ended: after everything has left, or when the run has failed."""
        self._endings.append(ending)

    async def end(self) -> None:
        """Note that the run has ended: a task that outlives it sends immediately."""
        self.over = True
        for ending in self._endings:
            await ending()


_RUNNING: ContextVar[SentInRun | None] = ContextVar("doubtless_sends", default=None)
_NOT_SENDING = nullcontext()


def running_sends() -> SentInRun | None:
    """Return the sends of the running service of a transacted trigger; None outside of such a service."""
    sends = _RUNNING.get()
    return None if sends is None or sends.over else sends


@contextmanager
def sending(sends: SentInRun | None) -> Generator[None]:
    """Keep what is sent while the block runs: in its thread or task, and in those it starts.

    With None, it leaves immediately.
    """
    outer = _RUNNING.set(sends)
    try:
        yield
    finally:
        put_back(_RUNNING, outer)


def not_sending() -> AbstractContextManager[None]:
    """Keep nothing that the service of a trigger sends that is not transacted.

    If a transacted service calls it, its message is completed even if the transacted service fails.
    """
    return _NOT_SENDING if running_sends() is None else sending(None)


def fresh_uuid() -> str:
    """Return the uuid for a message without one: derived in a transacted service, else random."""
    sends = running_sends()
    return str(uuid4()) if sends is None else sends.fresh_uuid()
