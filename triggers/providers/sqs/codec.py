"""A message as body and attributes of SQS, and back.

=====================  ===========================================================================
body                   the body as text; bytes, and text that SQS does not allow, in base64
``content-type``       ``text/...`` is text, ``application/json`` a JSON value, all else bytes
``content-encoding``   ``base64`` if the body is in it; ``=`` is an empty body, which SQS does not take
``uuid``               the uuid, if it is text that SQS allows
``properties``         a JSON object of everything else: headers under their JMS names, and properties
any other attribute    a property: text, a number, or bytes in hex
=====================  ===========================================================================

So a message never has more than four attributes; SQS allows ten. A message of any other sender is also a
message: its body as text, and its attributes as properties. A message without an attribute ``uuid`` or
``JMSMessageID`` is identified by the id that SQS gave it: that tells redeliveries apart from new messages,
but does not detect what a sender sends twice.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any

from history.message import UNDEFINED_COUNT, Message
from triggers.providers.brokers.codec import decode_body, encode_body, make
from triggers.providers.brokers.delivery import UndecodableError, with_headers
from triggers.providers.brokers.headers import CONTENT_TYPE, ENCODING, TYPED, spelled, to_texts, typed_of
from triggers.providers.provider import NO_LIMITS, Limits

_BASE64 = "base64"

#: Represents an empty body.
_EMPTY = "="

#: Characters that SQS does not allow in text, because XML 1.0 does not.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: The attributes that can identify a message.
_IDENTITY = "uuid"

Attributes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message for a queue."""

    body: str
    attributes: Attributes

    @property
    def size(self) -> int:
        """How many bytes SQS counts."""
        size = len(self.body.encode())
        for name, attribute in self.attributes.items():
            text = str(attribute.get("StringValue", ""))
            size += (
                len(name)
                + len(attribute["DataType"])
                + len(text.encode())
                + len(attribute.get("BinaryValue", b""))
            )
        return size


@dataclass(frozen=True, slots=True)
class SqsDelivered:
    """A message as it came, with the handle that settles it; ``sent`` is in ms since 1970."""

    queue: str
    receipt: str
    message_id: str
    body: str
    attributes: Attributes
    count: int
    sent: int
    group: str | None

    @classmethod
    def of(cls, queue: str, message: Mapping[str, Any]) -> "SqsDelivered":
        """Return what came, from boto3's words for it."""
        system: Mapping[str, str] = message.get("Attributes", {})
        return cls(
            queue,
            message["ReceiptHandle"],
            message["MessageId"],
            message["Body"],
            message.get("MessageAttributes", {}),
            int(system.get("ApproximateReceiveCount", 1)),
            int(system.get("SentTimestamp", 0)),
            system.get("MessageGroupId"),
        )


def encode(message: Message) -> Sent:
    """Return body and attributes.

    Raises:
        ConfigurationError: a property cannot be sent so.
    """
    content_type, payload = encode_body(message)
    attributes = {CONTENT_TYPE: content_type}
    body = _as_text(content_type, payload)
    if body is None:
        body, attributes[ENCODING] = base64.b64encode(payload).decode() or _EMPTY, _BASE64
    attributes |= dict(to_texts(message, _fits))
    written = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
    return Sent(body, written)


def _as_text(content_type: str, payload: bytes) -> str | None:
    """Return the body as SQS allows it; None if it does not."""
    if content_type == "application/octet-stream" or not payload:
        return None
    text = payload.decode()
    return None if _FORBIDDEN.search(text) else text


def _fits(name: str, text: str) -> bool:
    return name == _IDENTITY and bool(text) and not _FORBIDDEN.search(text)


def decode(came: SqsDelivered, limits: Limits = NO_LIMITS) -> Message:
    """Return the message that came.

    SQS only guesses how often a message was delivered, so its count is -1. But if the guess is above the
    trigger's limit, it becomes the count, and the message is given up.

    Raises:
        UndecodableError: it is not a message.
    """
    texts = spelled({name: _value(attribute) for name, attribute in came.attributes.items()})
    content_type, encoding = texts.pop(CONTENT_TYPE, None), texts.pop(ENCODING, None)
    typed = texts.pop(TYPED, None)
    count = came.count if came.count > limits.max_delivery_count else UNDEFINED_COUNT
    headers = {
        "JMSMessageID": f"ID:{came.message_id}",
        "JMSDestination": came.queue,
        "JMSTimestamp": came.sent or None,
        "JMSXGroupID": came.group,
        **texts,
        **typed_of(None if typed is None else str(typed)),
        "JMSXDeliveryCount": count,
        "JMSRedelivered": came.count > 1,
    }
    if encoding == _BASE64:
        payload = _from_base64(came.body)
    elif content_type is None and encoding is None:
        return make(headers, came.body)
    else:
        payload = came.body.encode()
    if limits.leaves_encoded(len(payload), count):
        return make(headers, payload)
    other = None if encoding in {None, _BASE64} else str(encoding)
    return make(headers, decode_body(None if content_type is None else str(content_type), other, payload))


def _from_base64(body: str) -> bytes:
    try:
        return b"" if body == _EMPTY else base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UndecodableError("body", f"is not base64 ({error})") from error


def _value(attribute: Mapping[str, Any]) -> str | int | float:
    """Return an attribute's value as a property: a number whose digits would change stays text."""
    text = _text(attribute)
    if not str(attribute.get("DataType")).startswith("Number"):
        return text
    try:
        exact = Decimal(text)
        number = int(text) if text.lstrip("-").isdigit() else float(text)
    except (InvalidOperation, ValueError):
        return text
    return number if Decimal(repr(number)) == exact and isfinite(number) else text


def _text(attribute: Mapping[str, Any]) -> str:
    if str(attribute.get("DataType")).startswith("Binary"):
        return bytes(attribute.get("BinaryValue", b"")).hex()
    return str(attribute.get("StringValue", ""))


def raw_fields(came: SqsDelivered) -> dict[bytes, bytes]:
    """Return a message as it came."""
    attributes = [(name.encode(), _text(attribute).encode()) for name, attribute in came.attributes.items()]
    own = {
        b"body": came.body.encode(),
        b"queue": came.queue.encode(),
        b"message_id": came.message_id.encode(),
    }
    return with_headers(own, attributes)


def letter_of(came: SqsDelivered, reason: str) -> Sent:
    """Return a dead letter for an unreadable message: as it came, with the reason.

    SQS allows ten attributes, so some may be cut. The list of parked messages also holds the reason.
    """
    kept = dict(list(came.attributes.items())[:9])
    text = _FORBIDDEN.sub(" ", reason) or "unknown"
    return Sent(came.body, {**kept, "dead-letter-reason": {"DataType": "String", "StringValue": text}})
