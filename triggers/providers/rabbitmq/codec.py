"""A message as AMQP 0-9-1 properties, headers and body, and back.

=====================  ===========================================================================
``content_type``       ``text/...`` is text, ``application/json`` a JSON value, all else bytes
basic properties       message_id, correlation_id, reply_to, type, priority, delivery_mode
``timestamp``          JMSTimestamp in whole seconds; the header of that name has milliseconds
``expiration``         milliseconds to live; read with the timestamp, written as JMSExpiration
a JMS header's name    that header, if no basic property holds it
any other header       a property; ``x-...`` headers of the broker that are not properties are dropped
=====================  ===========================================================================

A header whose value JMS does not know (a table, an array, bytes, a decimal) makes a delivery unreadable.
"""

import reprlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from history.message import UNDEFINED_COUNT, Message, PropertyValue
from triggers.providers.brokers.codec import COUNTED, SHORT, checked, decode_body, encode_body, instant, make
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.brokers.trust import (
    RABBITMQ_CLASSIC,
    RABBITMQ_QUORUM,
    FirstCount,
    TrustProfile,
    weighed,
)
from triggers.providers.provider import NO_LIMITS, Limits
from triggers.providers.rabbitmq.properties import FIELDS, Odd, read_properties

#: JMS header -> basic property, if both are short texts.
_TEXTS = {
    "JMSMessageID": "message_id",
    "JMSCorrelationID": "correlation_id",
    "JMSReplyTo": "reply_to",
    "JMSType": "type",
}

#: A number of 64 bits has at most so many digits.
_MOST_DIGITS = 20

#: How much of one field, and of all, a dead letter shows, in characters: they share one frame.
_MOST_OF_ONE, _MOST_TOLD = 1024, 16 * 1024

#: The prefix of queues in which messages wait until they are due.
LATER = "doubtless.later."

#: The header in which quorum queues count the deliveries before this one.
COUNT_HEADER = "x-delivery-count"


@dataclass(slots=True)
class Basic:
    """The values beside the body: the arguments of pika's BasicProperties."""

    properties: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: dict[str, PropertyValue] = field(default_factory=dict[str, PropertyValue])


def encode(message: Message) -> tuple[Basic, bytes]:
    """Return properties, headers and body.

    Raises:
        ConfigurationError: a property cannot be sent so.
    """
    content_type, body = encode_body(message)
    basic = Basic({"content_type": content_type, "delivery_mode": 1 + message.persistent})
    basic.properties["priority"] = message.priority
    for name, value in message.headers().items():
        if name in _TEXTS and len(str(value).encode("utf-8", "surrogatepass")) <= SHORT:
            basic.properties[_TEXTS[name]] = checked(name, value)
        elif name == "JMSTimestamp":
            basic.headers[name] = value
            basic.properties["timestamp"] = max(0, cast("int", value) // 1000)
        elif name not in COUNTED and name not in {"JMSDeliveryMode", "JMSPriority"}:
            basic.headers[name] = checked(name, value)
    return basic, body


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where deliveries come from: the destination, and the worth of its queue's count.

    ``quorum`` is None for a queue that somebody else declared: then a missing count does not mean 1.
    """

    destination: str
    quorum: bool | None
    first_count: FirstCount = FirstCount.WEIGHED

    def count(self, earlier: Any, *, redelivered: bool) -> int:
        """Return JMSXDeliveryCount from the header's value: None means no header.

        Raises:
            UndecodableError: it is not a count.
        """
        if earlier is None:
            if not self.quorum or redelivered:
                return UNDEFINED_COUNT
            earlier = 0
        if type(earlier) is bool or not isinstance(earlier, int) or earlier < 0:
            raise UndecodableError(COUNT_HEADER, f"{reprlib.repr(earlier)} is not a number of deliveries")
        return weighed(
            int(earlier) + 1, redelivered=redelivered, profile=self.profile, first_count=self.first_count
        )

    @property
    def profile(self) -> TrustProfile:
        """The worth of the count."""
        return RABBITMQ_CLASSIC if self.quorum is False else RABBITMQ_QUORUM


def decode(
    encoded: bytes, body: bytes, *, redelivered: bool, origin: Origin, limits: Limits = NO_LIMITS
) -> Message:
    """Return the message of a delivery; ``encoded`` are its properties.

    Raises:
        UndecodableError: it is not a message.
    """
    properties = read_properties(encoded)
    received = _arrived(properties.headers)
    count = origin.count(received.pop(COUNT_HEADER, None), redelivered=redelivered)
    headers: dict[str, Any] = {"JMSDestination": origin.destination}
    for header, name in _TEXTS.items():
        if (value := getattr(properties, name)) is not None:
            headers[header] = value
    if properties.timestamp is not None:
        headers["JMSTimestamp"] = instant(properties.timestamp * 1000)
    if properties.priority is not None:
        headers["JMSPriority"] = min(properties.priority, 9)
    if properties.delivery_mode is not None:
        headers["JMSDeliveryMode"] = properties.delivery_mode
    if properties.expiration is not None:
        headers["JMSExpiration"] = _expiration(properties.expiration, headers.get("JMSTimestamp"))
    for name, value in received.items():
        if (plain := _property(name, value)) is not _LEFT_OUT:
            headers[name] = plain
    headers |= {"JMSXDeliveryCount": count, "JMSRedelivered": redelivered or count > 1}
    if limits.leaves_encoded(len(body), count):
        return make(headers, body)
    return make(headers, decode_body(properties.content_type, properties.content_encoding, body))


def _arrived(headers: dict[str, Any]) -> dict[str, Any]:
    """Remove the headers of the wait until delivery time: the message was not dead-lettered."""
    if not str(headers.get("x-first-death-queue", "")).startswith(LATER):
        return headers
    waited_last = str(headers.get("x-last-death-queue", LATER)).startswith(LATER)
    prefixes = ("x-first-death-", "x-last-death-") if waited_last else ("x-first-death-",)
    return {name: value for name, value in headers.items() if not name.startswith(prefixes)}


_LEFT_OUT = object()


#: The meaning of AMQP's letters.
_ODD = {
    "S": "text that is not UTF-8",
    "x": "bytes",
    "A": "array",
    "F": "table",
    "D": "decimal",
    "T": "timestamp",
}


def _property(name: str, value: Any) -> Any:
    if not isinstance(value, Odd):
        return value
    if name.startswith("x-") or name in {"CC", "BCC"}:
        return _LEFT_OUT
    raise UndecodableError(name, f"a value of type {_ODD[value.kind]}, which a JMS property cannot have")


def _expiration(to_live: str, sent: int | None) -> int | None:
    if not (to_live.isascii() and to_live.isdigit() and len(to_live) <= _MOST_DIGITS):
        raise UndecodableError("expiration", f"{reprlib.repr(to_live)} is not a number of milliseconds")
    return None if sent is None else sent + int(to_live)


def raw_fields(encoded: bytes, body: bytes) -> dict[bytes, bytes]:
    """Return a delivery as it came: the body, the encoded properties, and their values for people to read."""
    shown: dict[bytes, bytes] = {}
    with suppress(Exception):  # perhaps they are the reason why the delivery is unreadable
        read = read_properties(encoded)
        values: dict[str, Any] = {name: getattr(read, name) for name in _NAMES} | read.headers
        shown = {name.encode(): _shown(value) for name, value in values.items() if value is not None}
    return {**shown, b"properties": encoded, b"body": body}


#: The basic properties that have their own name.
_NAMES = tuple(name for name, _ in FIELDS if name != "headers")


def _shown(value: Any) -> bytes:
    return value.encoded if isinstance(value, Odd) else str(value).encode()


def letter_of(fields: Mapping[bytes, bytes], reason: str) -> tuple[Basic, bytes]:
    """Return a dead letter for an unreadable delivery: its body, and the readable part of the rest."""
    headers: dict[str, PropertyValue] = {}
    left = _MOST_TOLD
    for name, value in fields.items():
        text = value[:_MOST_OF_ONE].decode("utf-8", "replace")
        left -= len(name) + len(text)
        if name != b"body" and left > 0:
            headers[name.decode("utf-8", "replace")[: SHORT // 4]] = text
    headers["dead-letter-reason"] = reason
    return Basic({"delivery_mode": 2}, headers), fields.get(b"body", b"")
