"""A message as key, value and headers of a Kafka record, and back.

=====================  ===========================================================================
value                  the body's bytes; no value at all (a tombstone) is an empty body
key                    JMSXGroupID: Kafka keeps the order of one key. A key that is not text becomes
                       hex here, and also in the property ``kafka_key``
``content-type``       ``text/...`` is text, ``application/json`` a JSON value, all else bytes
a JMS header name      that header, as text: JMSTimestamp and JMSExpiration in ms since 1970
``properties``         a JSON object of the properties that are not text
any other name         a property, as text; bytes that are not UTF-8 in hex. If a name comes twice, the
                       last header counts, as everywhere in Kafka
=====================  ===========================================================================

So a record of any other producer is also a message: its bytes, and its headers as properties. A record
without a header ``uuid`` or ``JMSMessageID`` is identified by its topic, partition, offset and timestamp:
that tells redeliveries apart from new messages, but does not detect what a producer sends twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from history.message import UNDEFINED_COUNT, Message
from triggers.providers.brokers.codec import decode_body, encode_body, make, moment
from triggers.providers.brokers.delivery import UndecodableError, with_headers
from triggers.providers.brokers.headers import CONTENT_TYPE, TYPED, spelled, to_texts, typed_of
from triggers.providers.provider import NO_LIMITS, Limits

#: The property of a record without a value, which deletes its key if a topic is compacted.
TOMBSTONE = "kafka_tombstone"

#: The property of a key that is not text.
KEY = "kafka_key"

#: The timestamp of a record without one.
_NO_TIME = -1

Headers = Sequence[tuple[str, bytes | None]]

#: The headers of a record if the driver cannot read them. A list, because all empty tuples are the same one.
UNREADABLE: Headers = []


class KafkaRecord(NamedTuple):
    """A record for a topic; ``timestamp`` is in milliseconds since 1970, None for now."""

    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp: int | None = None


class Consumed(NamedTuple):
    """A record as it came, and from where; ``again`` if it was handed out before.

    ``delivery_count`` is -1 if none is kept.
    """

    topic: str
    partition: int
    offset: int
    record: KafkaRecord
    again: bool
    delivery_count: int = UNDEFINED_COUNT

    @property
    def name(self) -> str:
        """The identity of the record, if nothing in it names it.

        The time is part of it. Otherwise records of another cluster, or of a recreated topic, would count as
        the earlier records in their places.
        """
        return name_of_record(self.topic, self.partition, self.offset, self.record.timestamp)


def name_of_record(topic: str, partition: int, offset: int, timestamp: int | None) -> str:
    """Return the identity of a record by its place, and its time in milliseconds since 1970."""
    identity = f"ID:{topic}:{partition}:{offset}"
    return identity if timestamp is None else f"{identity}:{timestamp}"


def encode(message: Message) -> KafkaRecord:
    """Return a record.

    Raises:
        ConfigurationError: a property cannot be sent so.
    """
    content_type, body = encode_body(message)
    headers: list[tuple[str, bytes | None]] = [(CONTENT_TYPE, content_type.encode())]
    headers += [(name, text.encode()) for name, text in to_texts(message, _fits)]
    key = None if message.group_id is None else message.group_id.encode()
    sent = None if message.timestamp is None else round(message.timestamp.timestamp() * 1000)
    return KafkaRecord(body, key, headers, sent if sent is None or sent >= 0 else None)


def _fits(name: str, _: str) -> bool:
    """Whether a name can be a header: librdkafka ends a name at a zero."""
    return name not in (TOMBSTONE, KEY, "") and "\0" not in name


def decode(consumed: Consumed, limits: Limits = NO_LIMITS) -> Message:
    """Return the message of a record.

    Raises:
        UndecodableError: it is not a message.
    """
    # In one function, and each field read once: every message comes through here.
    topic, partition, offset, (value, key, came, milliseconds), again, count = consumed
    if came is UNREADABLE:
        raise UndecodableError("headers", "have a name that is not UTF-8, so Kafka's client cannot read them")
    texts = spelled(_texts_of(came))
    content_type, typed = texts.pop(CONTENT_TYPE, None), texts.pop(TYPED, None)
    headers: dict[str, Any] = texts if key is None else _of_key(key) | texts
    if typed is not None:
        headers |= typed_of(typed)
    # Only Kafka knows these.
    headers.pop("JMSXDeliveryCount", None)
    headers.pop("JMSRedelivered", None)
    own: dict[str, Any] = {"destination": topic, "delivery_count": count, "redelivered": again}
    if headers.get("JMSMessageID") is None:
        headers.pop("JMSMessageID", None)  # a header without a value
        own["message_id"] = name_of_record(topic, partition, offset, milliseconds)
    if (
        milliseconds is not None
        and milliseconds != _NO_TIME
        and "JMSTimestamp" not in headers
        and (sent := moment(milliseconds))
    ):
        own["timestamp"] = sent
    if value is None:
        return make({**headers, TOMBSTONE: True}, b"", own)
    if limits.leaves_encoded(len(value), count):
        return make(headers, value, own)
    return make(headers, decode_body(content_type, None, value), own)


def _texts_of(headers: Headers) -> dict[str, str | None]:
    try:
        # Nearly all headers are text. A function for each of them would take most of the time.
        return {name: None if value is None else str(value, "utf-8") for name, value in headers}
    except UnicodeDecodeError:
        return {name: _text(value) for name, value in headers}


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        return value.hex()


def _of_key(key: bytes) -> dict[str, str | None]:
    try:
        return {"JMSXGroupID": key.decode()}
    except UnicodeDecodeError:
        return {"JMSXGroupID": key.hex(), KEY: key.hex()}


def raw_fields(consumed: Consumed) -> dict[bytes, bytes]:
    """Return a record as it came."""
    record = consumed.record
    headers = [(name.encode("utf-8", "surrogatepass"), value or b"") for name, value in record.headers]
    own = {
        b"body": record.value or b"",
        b"topic": consumed.topic.encode(),
        b"partition": b"%d" % consumed.partition,
        b"offset": b"%d" % consumed.offset,
    }
    if record.key is not None:
        own[b"key"] = record.key
    return with_headers(own, headers)


def letter_of(fields: Mapping[bytes, bytes], reason: str) -> KafkaRecord:
    """Return a dead letter for an unreadable record: as it came, with the reason."""
    headers = [
        (name.decode("utf-8", "replace"), value)
        for name, value in fields.items()
        if name not in (b"body", b"key") and b"\0" not in name
    ]
    return KafkaRecord(
        fields.get(b"body", b""), fields.get(b"key"), [*headers, ("dead-letter-reason", reason.encode())]
    )
