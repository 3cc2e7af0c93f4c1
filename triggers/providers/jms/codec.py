"""A message as JMS has it, and back.

=================  =======================================================================================
JMS                here
=================  =======================================================================================
TextMessage        text; a JSON value if the property ``jms_body`` says ``json``
BytesMessage       bytes
MapMessage         an object, and the property ``jms_body`` is ``map``
StreamMessage      a list, and the property ``jms_body`` is ``stream``
a bare Message     None, and the property ``jms_body`` is ``none``
ObjectMessage      never opened: that would run classes that the sender chooses
JMS headers        the fields of :class:`~history.message.Message`
properties         Boolean, numbers and text; Byte, Short and Integer become int, Float becomes float
=================  =======================================================================================

When sent, whole numbers of up to 32 bits become Integer, longer ones Long. Bytes within a map or a stream are
base64 here. A null text is read as an empty text.
"""

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from history.errors import ConfigurationError
from history.json_text import JsonText, NotJsonError, read_json
from history.message import UNDEFINED_COUNT, Message
from triggers.providers.brokers.codec import instant, make
from triggers.providers.brokers.delivery import UndecodableError, problem_of
from triggers.providers.jms import jvm as jms_jvm
from triggers.providers.jms.link import JmsLink
from triggers.providers.provider import NO_LIMITS, Limits

_log = logging.getLogger(__name__)

#: The property that tells apart bodies that are the same in JMS or in JSON.
BODY = "jms_body"

#: The field of an unreadable message that holds its body, if it can be copied.
RAW_BODY = "body"

#: Properties that ActiveMQ Classic adds to its dead letters, and ours with the first destination.
_DEAD = frozenset({"dlqDeliveryFailureCause", "originalExpiration"})
FIRST_PLACE = "dlqOriginalDestination"

#: JMSX properties that a sender may set.
_SENT = {"JMSXGroupID", "JMSXGroupSeq"}


class Sending(NamedTuple):
    """A JMS message and the settings of its producer."""

    message: Any
    delivery_mode: int
    priority: int
    time_to_live: int


def encode(link: JmsLink, session: Any, message: Message) -> Sending:
    """Make a JMS message.

    Raises:
        ConfigurationError: JMS cannot hold it.
    """
    properties = dict(message.properties)
    if message.uuid is not None:  # an id from elsewhere: JMS gives the message a new one
        properties.setdefault("uuid", message.uuid)
    try:
        made = _with_body(session, message, properties)
        for name, value in properties.items():
            made.setObjectProperty(name, jms_jvm.java_value(value))
        _set_headers(link, session, made, message)
    except (OverflowError, UnicodeEncodeError, TypeError, jms_jvm.JavaError) as error:
        raise ConfigurationError(
            "message", f"JMS cannot hold it ({error})", "correct or leave out what it names"
        ) from error
    left = 0
    if message.expiration is not None:
        # 0 would mean for ever.
        left = max(1, (message.expiration - datetime.now(UTC)) // timedelta(milliseconds=1))
    return Sending(made, 2 if message.persistent else 1, message.priority, left)


def _set_headers(link: JmsLink, session: Any, made: Any, message: Message) -> None:
    if message.correlation_id is not None:
        made.setJMSCorrelationID(message.correlation_id)
    if message.type is not None:
        made.setJMSType(message.type)
    if message.reply_to is not None:
        made.setJMSReplyTo(link.destination(session, link.target(message.reply_to)))
    if message.group_id is not None:
        made.setStringProperty("JMSXGroupID", message.group_id)
    if message.group_sequence is not None:
        made.setIntProperty("JMSXGroupSeq", message.group_sequence)


def _with_body(session: Any, message: Message, properties: dict[str, Any]) -> Any:
    """Make a message with a body of the kind that the property says, or of the body's own kind."""
    body: Any = message.body
    match properties.get(BODY), body:
        case "map", dict():
            made = session.createMapMessage()
            for name, value in cast("dict[str, Any]", body).items():
                made.setObject(name, jms_jvm.java_value(_plain(value)))
        case "stream", list():
            made = session.createStreamMessage()
            for value in cast("Sequence[Any]", body):
                made.writeObject(jms_jvm.java_value(_plain(value)))
        case "none", None:
            made = session.createMessage()
        case _, str():
            made = session.createTextMessage(jms_jvm.java_value(body))
        case _, bytes():
            made = session.createBytesMessage()
            made.writeBytes(jms_jvm.java_value(body))
        case _:
            made = session.createTextMessage(message.encoded().decode("utf-8"))
            properties[BODY] = "json"
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise TypeError("maps and streams of JMS cannot hold lists or objects")
    return value


def decode(link: JmsLink, received: Any, limits: Limits = NO_LIMITS) -> Message:
    """Return the message that was received.

    Raises:
        UndecodableError: we do not understand it, or Java cannot read it.
    """
    try:
        headers = _headers_of(link, received)
        properties = properties_of(received)
        if not _DEAD.isdisjoint(properties) and (destination := _first_place_of(link, received)) is not None:
            properties[FIRST_PLACE] = destination
        body = _body_of(link, received, properties, limits, headers["JMSXDeliveryCount"])
    except jms_jvm.JavaError as error:
        raise UndecodableError("message", str(jms_jvm.ThrownError(error))) from None
    return make({**properties, **headers}, body)


def _first_place_of(link: JmsLink, received: Any) -> str | None:
    """Return where a dead letter of ActiveMQ Classic was first; only its client's own method says it."""
    method = getattr(received, "getOriginalDestination", None)
    return None if method is None else link.name_of(method())


def raw(link: JmsLink, received: Any) -> dict[bytes, bytes]:
    """Return the readable part of a foreign message: its fields, and its body if it can be read."""
    shown: dict[str, Any] = {}
    with suppress(Exception):  # any part may fail in Java: the rest is shown
        shown.update(_headers_of(link, received))
    with suppress(Exception):
        shown.update(properties_of(received))
    shown.pop(RAW_BODY, None)
    with suppress(Exception):
        body = _body_of(link, received, {}, NO_LIMITS, UNDEFINED_COUNT)
        shown[RAW_BODY] = body if isinstance(body, bytes | str) else json.dumps(body)
    return {
        name.encode("utf-8", "surrogatepass"): value
        if isinstance(value, bytes)
        else str(value).encode("utf-8", "surrogatepass")
        for name, value in shown.items()
        if value is not None
    }


def properties_of(received: Any) -> dict[str, Any]:
    """Return the properties without the JMSX ones that providers set."""
    properties: dict[str, Any] = {}
    names = received.getPropertyNames()
    while names.hasMoreElements():
        name = str(names.nextElement())
        if not name.startswith("JMSX") or name in _SENT:
            properties[name] = jms_jvm.python_value(received.getObjectProperty(name))
    return properties


def _headers_of(link: JmsLink, received: Any) -> dict[str, Any]:
    redelivered = bool(received.getJMSRedelivered())
    headers = {
        "JMSMessageID": jms_jvm.python_value(received.getJMSMessageID()),
        "JMSRedelivered": redelivered,
        "JMSXDeliveryCount": link.count_of(_count_of(received), redelivered=redelivered),
        "JMSDeliveryMode": int(received.getJMSDeliveryMode()),
        "JMSCorrelationID": jms_jvm.python_value(received.getJMSCorrelationID()),
        "JMSType": jms_jvm.python_value(received.getJMSType()),
        "JMSDestination": link.name_of(received.getJMSDestination()),
        "JMSReplyTo": link.name_of(received.getJMSReplyTo()),
        "JMSPriority": int(received.getJMSPriority()),
        "JMSExpiration": instant(int(received.getJMSExpiration())),
    }
    if sent := int(received.getJMSTimestamp()):
        headers["JMSTimestamp"] = instant(sent)
    return headers


def _count_of(received: Any) -> int:
    """Return JMSXDeliveryCount; an invalid one fails later, when the message is made."""
    try:
        return int(received.getIntProperty("JMSXDeliveryCount"))
    except jms_jvm.JavaError:
        return UNDEFINED_COUNT


def _body_of(
    link: JmsLink, received: Any, properties: dict[str, Any], limits: Limits, delivery_count: int
) -> Any:
    """Return the body; if Python does not show its kind, note it in the properties."""
    api = link.api
    if jms_jvm.is_a(received, f"{api}.TextMessage"):
        text = jms_jvm.python_value(received.getText()) or ""
        if properties.get(BODY) != "json" or limits.leaves_encoded(len(text), delivery_count):
            return text
        return _json(text, properties)
    if jms_jvm.is_a(received, f"{api}.BytesMessage"):
        received.reset()
        array = jms_jvm.java_bytes(int(received.getBodyLength()))
        received.readBytes(array)
        return bytes(array)
    if jms_jvm.is_a(received, f"{api}.MapMessage"):
        properties[BODY] = "map"
        return {str(name): _jsonable(received.getObject(name)) for name in _each(received.getMapNames())}
    if jms_jvm.is_a(received, f"{api}.StreamMessage"):
        properties[BODY] = "stream"
        return _stream(received)
    if jms_jvm.is_a(received, f"{api}.ObjectMessage"):
        problem = "an object message is never opened, for that would run classes of the sender's choice"
        raise UndecodableError("body", problem)
    properties[BODY] = "none"
    return None


def _json(text: str, properties: dict[str, Any]) -> JsonText:
    try:
        value = read_json(text)
    except NotJsonError as error:
        raise UndecodableError("body", f"{error}, although {BODY} says json") from error
    del properties[BODY]
    return value


def _stream(received: Any) -> list[Any]:
    received.reset()
    values: list[Any] = []
    while True:
        try:
            values.append(_jsonable(received.readObject()))
        except jms_jvm.JavaError as error:
            if "MessageEOFException" in jms_jvm.ThrownError(error).kinds:
                return values
            raise


def _each(enumeration: Any) -> list[Any]:
    names: list[Any] = []
    while enumeration.hasMoreElements():
        names.append(enumeration.nextElement())
    return names


def _jsonable(value: Any) -> Any:
    plain = jms_jvm.python_value(value)
    return base64.b64encode(plain).decode("ascii") if isinstance(plain, bytes) else plain


def message_id_of(received: Any) -> str | None:
    """Return the JMSMessageID; None if it cannot be read."""
    with suppress(Exception):  # any part may fail in Java
        return cast("str | None", jms_jvm.python_value(received.getJMSMessageID()))
    return None


def with_reason(received: Any, message_id: str | None, added: Mapping[str, str]) -> None:
    """Add properties to a received message, and its identity if only its JMSMessageID holds it.

    A message with unreadable properties stays as it is.
    """
    try:
        properties = {name: received.getObjectProperty(name) for name in properties_of(received)}
    except Exception as error:  # noqa: BLE001  (as above)
        _log.warning(
            "properties of a dead letter are unreadable, so it is moved without a reason: %s",
            problem_of(error),
        )
        return
    received.clearProperties()
    if properties.get("uuid") is None and message_id is not None:
        properties["uuid"] = jms_jvm.java_value(message_id)
    for name, value in {**properties, **added}.items():
        with suppress(jms_jvm.JavaError):  # its sender could set it, but we may not
            received.setObjectProperty(name, value)
