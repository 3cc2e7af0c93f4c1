"""A message as AMQP 1.0 sections, and back: the JMS mapping of AMQP.

=======================  =========================================================================
header                   durable, priority; delivery-count + 1 is JMSXDeliveryCount
properties               message-id, correlation-id, to, reply-to, subject (JMSType), group-id,
                         group-sequence, creation-time, absolute-expiry-time
application properties   properties, with their types; a JMS header that has no field above
body                     text is a string value; bytes are data; a JSON value is data of the
                         content type ``application/json``
``x-opt-jms-msg-type``   5 with text, 3 with data
=======================  =========================================================================

The decoder also reads string, number, list and map values, and data of any other content type, which becomes
bytes. A value that JMS has no type for makes a delivery unreadable. Ids that are not text are read as the JMS
mapping says: ``ID:AMQP_ULONG:7``, ``ID:AMQP_UUID:...``, ``ID:AMQP_BINARY:...``.
"""

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from pydantic import JsonValue

from history.message import UNDEFINED_COUNT, Message
from triggers.providers.amqp.driver import driver
from triggers.providers.brokers.codec import COUNTED, Body, checked, decode_body, encode_body, instant, make
from triggers.providers.brokers.delivery import UndecodableError, problem_of
from triggers.providers.brokers.trust import FirstCount, TrustProfile, weighed
from triggers.providers.provider import NO_LIMITS, Limits

#: JMS header -> attribute of proton's message, if both are texts.
_TEXTS = {
    "JMSMessageID": "id",
    "JMSCorrelationID": "correlation_id",
    "JMSReplyTo": "reply_to",
    "JMSType": "subject",
    "JMSDestination": "address",
    "JMSXGroupID": "group_id",
}

#: JMS header in milliseconds -> attribute in seconds.
_TIMES = {"JMSTimestamp": "creation_time", "JMSExpiration": "expiry_time"}

_MESSAGE_TYPE = "x-opt-jms-msg-type"
_OBJECT_MESSAGE = 1

_UINTS = range(1, 2**32)

#: How much of a dead letter's field to show beside its bytes, and how many fields.
_MOST_OF_ONE, _MOST_FIELDS = 1024, 50


def encode(message: Message, time_to_live: int | None = None) -> bytes:
    """Return the encoded message; in a queue it lives ``time_to_live`` milliseconds.

    Raises:
        ConfigurationError: a property cannot be sent so.
    """
    sent: Any = driver.Message(durable=message.persistent, priority=message.priority)
    if isinstance(message.body, str):
        sent.body = checked("body", message.body)
    else:
        sent.content_type, sent.body = encode_body(message)
        sent.inferred = True  # as data, not as a binary value
    sent.annotations = {_MESSAGE_TYPE: driver.byte(5 if isinstance(message.body, str) else 3)}
    properties: dict[str, Any] = {}
    for name, value in message.headers().items():
        if name in _TEXTS:
            setattr(sent, _TEXTS[name], checked(name, value))
        elif name in _TIMES:
            # Add half a millisecond, because proton cuts the product.
            setattr(sent, _TIMES[name], (cast("int", value) + 0.5) / 1000)
        elif name == "JMSXGroupSeq" and message.group_id is not None and value in _UINTS:
            sent.group_sequence = value
        elif name not in COUNTED and name not in {"JMSDeliveryMode", "JMSPriority"}:
            properties[name] = checked(name, value)
    sent.properties = properties
    if time_to_live is not None:
        sent.ttl = (time_to_live + 0.5) / 1000  # as above
    return cast("bytes", sent.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpOrigin:
    """Where deliveries come from: the destination, and the worth of its count."""

    destination: str
    profile: TrustProfile
    first_count: FirstCount = FirstCount.WEIGHED

    def count(self, before: int, *, redelivered: bool) -> int:
        """Return JMSXDeliveryCount from the header's delivery-count."""
        if not self.profile.keeps_count:
            return UNDEFINED_COUNT
        return weighed(
            before + 1, redelivered=redelivered, profile=self.profile, first_count=self.first_count
        )


def decode(encoded: bytes, origin: AmqpOrigin, limits: Limits = NO_LIMITS) -> Message:
    """Return the message of a delivery.

    Raises:
        UndecodableError: it is not a message.
    """
    received: Any = driver.Message()
    try:
        received.decode(encoded)
    except Exception as error:  # foreign bytes can make proton's decoder raise anything
        raise UndecodableError("message", f"is not an AMQP message ({error})") from error
    redelivered = received.delivery_count > 0 or not received.first_acquirer
    headers: dict[str, Any] = {"JMSDestination": origin.destination}
    for header, name in _TEXTS.items():
        if (value := getattr(received, name)) not in (None, ""):
            headers[header] = _id(value)
    for header, name in _TIMES.items():
        if seconds := getattr(received, name):
            headers[header] = instant(round(seconds * 1000))
    if received.group_sequence:
        headers["JMSXGroupSeq"] = received.group_sequence
    for name, value in cast("Mapping[Any, Any]", received.properties or {}).items():
        headers[str(name)] = _property(str(name), value)
    headers |= {
        "JMSDeliveryMode": 2 if received.durable else 1,
        "JMSPriority": min(received.priority, 9),
        "JMSXDeliveryCount": origin.count(received.delivery_count, redelivered=redelivered),
        "JMSRedelivered": redelivered,
    }
    return make(headers, _body(received, limits, headers["JMSXDeliveryCount"]))


def _id(value: Any) -> str:
    match value:
        case str():
            return str(value)
        case UUID():
            return f"ID:AMQP_UUID:{value}"
        case bytes() | memoryview():
            return f"ID:AMQP_BINARY:{value.hex()}"
        case _:
            return f"ID:AMQP_ULONG:{value}"


#: proton's kinds of number and text that JMS has as well; a decimal is an ``int`` to Python, but not here.
_INTEGERS = {"int", "byte", "ubyte", "short", "ushort", "int32", "uint", "ulong", "timestamp"}
_FLOATS = {"float", "float32"}
_STRINGS = {"str", "symbol", "char"}


def _property(name: str, value: Any) -> Any:
    type_name = type(value).__name__
    if value is None or type_name == "bool":
        return value
    if type_name in _INTEGERS:
        return int(value)
    if type_name in _FLOATS:
        return float(value)
    if type_name in _STRINGS:
        return str(value)
    raise UndecodableError(name, f"a value of type {type_name}, which a JMS property cannot have")


def _body(received: Any, limits: Limits, count: int) -> Body | JsonValue:
    body: Any = received.body
    annotations: dict[Any, Any] = received.annotations or {}
    if annotations.get(_MESSAGE_TYPE) == _OBJECT_MESSAGE:
        raise UndecodableError("body", "serialised Java objects are not read, for safety")
    if isinstance(body, memoryview):
        body = body.tobytes()
    if isinstance(body, bytes):
        if limits.leaves_encoded(len(body), count):
            return body
        # Without a content type proton says "None".
        content_type, encoding = (
            "" if (text := str(symbol)) == "None" else text
            for symbol in (received.content_type, received.content_encoding)
        )
        return decode_body(content_type, encoding, body)
    return _json(body)


def _json(value: Any) -> JsonValue:
    """Return a value as JSON has it.

    Raises:
        UndecodableError: JSON has no such value.
    """
    if value is None or type(value) in {bool, int, float, str}:
        return cast("JsonValue", value)
    type_name, untyped = type(value).__name__, value
    if isinstance(value, dict):
        if all(isinstance(name, str) for name in untyped):
            return {str(name): _json(inner) for name, inner in untyped.items()}
    elif isinstance(value, list):
        return [_json(inner) for inner in untyped]
    elif type_name in _INTEGERS | _FLOATS | _STRINGS:
        return cast("JsonValue", _property("body", value))
    raise UndecodableError("body", f"a value of type {type_name}")


def raw_fields(encoded: bytes) -> dict[bytes, bytes]:
    """Return a delivery as it came: its bytes, and its readable parts, for people."""
    fields: dict[bytes, bytes] = {}
    try:
        received: Any = driver.Message()
        received.decode(encoded)
        properties: dict[Any, Any] = received.properties or {}
        shown: dict[Any, Any] = {"message_id": received.id, **properties, "body": received.body}
        for name, value in shown.items():
            fields[str(name).encode("utf-8", "surrogatepass")] = _bytes_of(value)
    except Exception as error:  # noqa: BLE001  (as above)
        fields[b"problem"] = problem_of(error).encode()
    return {**fields, b"message": encoded}


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, memoryview):
        return value.tobytes()
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def encode_unreadable(fields: Mapping[bytes, bytes], reason: str) -> bytes:
    """Return a dead letter for an unreadable delivery: its bytes as they came."""
    letter: Any = driver.Message(durable=True, body=fields[b"message"], inferred=True)
    letter.properties = {"dead-letter-reason": reprlib.repr(reason), "dead-letter-fields": _shown(fields)}
    return cast("bytes", letter.encode())


def _shown(fields: Mapping[bytes, bytes]) -> str:
    shown = {
        name[:_MOST_OF_ONE].decode("utf-8", "replace"): value[:_MOST_OF_ONE].decode("utf-8", "replace")
        for name, value in list(fields.items())[:_MOST_FIELDS]
        if name != b"message"
    }
    return json.dumps(shown)
