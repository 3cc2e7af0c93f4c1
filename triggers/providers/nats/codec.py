"""A message as payload and headers of NATS, and back.

=====================  ===========================================================================
payload                the body's bytes
``content-type``       ``text/...`` is text, ``application/json`` a JSON value, all else bytes
a JMS header name      that header, as text: JMSTimestamp and JMSExpiration in ms since 1970
``properties``         a JSON object of values that are not text, and of texts that no header can carry:
                       with line ends, with spaces around them, or with an invalid name
any other name         a property, as text
=====================  ===========================================================================

So a message of any other publisher is also a message: its bytes, and its headers as properties. Without a
header ``uuid`` or ``JMSMessageID`` it is identified by its ``Nats-Msg-Id``, by which JetStream drops a second
copy within two minutes. Without that, stream, sequence and time identify it: that tells redeliveries apart
from new messages, but does not detect what a publisher sends twice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from history.errors import ConfigurationError
from history.message import UNDEFINED_COUNT, Message
from triggers.providers.brokers.codec import decode_body, encode_body, make
from triggers.providers.brokers.delivery import with_headers
from triggers.providers.brokers.headers import CONTENT_TYPE, TYPED, spelled, to_texts, typed_of
from triggers.providers.provider import NO_LIMITS, Limits

#: The header by which JetStream recognises copies of one message.
MESSAGE_ID = "Nats-Msg-Id"

#: The header with the due time of a message. When it is due, other headers have this prefix.
SCHEDULE = "Nats-Schedule"

#: The end of the server's time: it counts nanoseconds since 1970 in eight bytes with a sign.
_LAST = datetime(2262, 4, 11, tzinfo=UTC)

#: The prefix of headers that are instructions to the server. As properties they are only carried.
_OF_SERVER = "nats-"

#: The names that a header may have.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Published:
    """A message for a subject."""

    payload: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NatsDelivered:
    """A message as it came, and from where; ``answer`` is the subject that takes its acknowledgement.

    ``count`` is how often it was delivered, ``stored`` when the stream took it, in ns since 1970.
    """

    subject: str
    answer: str
    payload: bytes
    headers: Mapping[str, str]
    stream: str
    sequence: int
    count: int
    stored: int

    @property
    def name(self) -> str:
        """The identity of the message, if nothing in it names it; a recreated stream counts from 1 again."""
        return f"ID:{self.stream}:{self.sequence}:{self.stored}"


def delivered(subject: str, answer: str, payload: bytes, headers: Mapping[str, str] | None) -> NatsDelivered:
    """Return what came, from its parts.

    Source: ADR-15 of NATS: ``$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<...>.<time>.<pending>``,
    or with ``<domain>.<account>`` before the stream.

    Raises:
        ValueError: it did not come from a stream.
    """
    tokens = answer.split(".")
    if tokens[:2] != ["$JS", "ACK"] or len(tokens) < 9:  # noqa: PLR2004
        raise ValueError(f"{answer!r} is not a subject for answers")
    first = 2 if len(tokens) == 9 else 4  # noqa: PLR2004
    stream, _, count, sequence, _, stored = tokens[first : first + 6]
    return NatsDelivered(
        subject, answer, payload, headers or {}, stream, int(sequence), int(count), int(stored)
    )


def encode(message: Message) -> Published:
    """Return payload and headers.

    Raises:
        ConfigurationError: a property cannot be sent so.
    """
    content_type, body = encode_body(message)
    return Published(body, {CONTENT_TYPE: content_type, **dict(to_texts(message, _fits))})


def later(published: Published, due: datetime, subject: str) -> Published:
    """Return a message that waits in the stream until ``due``; the server then sends it to ``subject``.

    Source: ADR-51 of NATS, of servers from 2.12 on.

    Raises:
        ConfigurationError: the server would take the time for one that is over.
    """
    if due > _LAST:
        raise ConfigurationError(
            "delivery_time",
            f"{due:%Y-%m-%d} is too far ahead: NATS counts to {_LAST:%Y-%m-%d}",
            "send it later",
        )
    headers = {SCHEDULE: f"@at {due.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", f"{SCHEDULE}-Target": subject}
    return Published(published.payload, {**published.headers, **headers})


def _fits(name: str, text: str) -> bool:
    """Whether a property can be a header and come back as it was."""
    return (
        _NAME.fullmatch(name) is not None
        and not name.lower().startswith(_OF_SERVER)
        and text == text.strip()
        and not {"\r", "\n", "\0"} & set(text)
    )


def decode(came: NatsDelivered, count: int = UNDEFINED_COUNT, limits: Limits = NO_LIMITS) -> Message:
    """Return the message that came, with its delivery count.

    Raises:
        UndecodableError: it is not a message.
    """
    texts = spelled({name: text for name, text in came.headers.items() if not name.startswith(SCHEDULE)})
    content_type, typed = texts.pop(CONTENT_TYPE, None), texts.pop(TYPED, None)
    headers = {
        "JMSMessageID": texts.get(MESSAGE_ID) or came.name,
        "JMSDestination": came.subject,
        "JMSTimestamp": came.stored // 1_000_000,
        **texts,
        **typed_of(typed),
        "JMSXDeliveryCount": count,
        "JMSRedelivered": came.count > 1,
    }
    if limits.leaves_encoded(len(came.payload), count):
        return make(headers, came.payload)
    return make(headers, decode_body(content_type, None, came.payload))


def raw_fields(came: NatsDelivered) -> dict[bytes, bytes]:
    """Return a message as it came."""
    headers = [(name.encode("utf-8", "surrogatepass"), text.encode()) for name, text in came.headers.items()]
    own = {
        b"body": came.payload,
        b"subject": came.subject.encode(),
        b"stream": came.stream.encode(),
        b"sequence": b"%d" % came.sequence,
    }
    return with_headers(own, headers)


def letter_of(fields: Mapping[bytes, bytes], reason: str) -> Published:
    """Return a dead letter for an unreadable message: as it came, with the reason."""
    texts = {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, value in fields.items()
        if name != b"body"
    }
    kept = {name: text for name, text in texts.items() if _fits(name, text)}
    return Published(fields.get(b"body", b""), {**kept, "dead-letter-reason": _one_line(reason)})


def _one_line(text: str) -> str:
    return " ".join(text.split())
