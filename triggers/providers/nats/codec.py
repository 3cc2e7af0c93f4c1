"""A message as payload and headers of NATS, and back.

=====================  ===========================================================================
payload                the body's bytes
``content-type``       ``text/...`` is text, ``application/json`` a JSON value, all else bytes
a JMS header name      that header, as text: JMSTimestamp and JMSExpiration in ms since 1970
``properties``         a JSON object of what is no text, and of text that no header of NATS can carry:
                       with line ends, with spaces around it, or under a name that is none
any other name         a property, as text
=====================  ===========================================================================

So a message of any other publisher is a message, too: its bytes, and its headers as properties. One without
a header ``uuid`` or ``JMSMessageID`` is known by its ``Nats-Msg-Id``, by which JetStream drops a second copy
within two minutes, and else by stream, sequence and time: that tells redeliveries apart from new messages,
and not what a publisher sends twice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from history.message import UNDEFINED_COUNT, Message
from triggers.providers.brokers.codec import decode_body, encode_body, make
from triggers.providers.brokers.headers import CONTENT_TYPE, TYPED, spelled, to_texts, typed_of
from triggers.providers.provider import NO_LIMITS, Limits

#: The header by which JetStream knows copies of one message.
MESSAGE_ID = "Nats-Msg-Id"

#: The header that says when a message is due. What it becomes then says by headers of these beginnings.
SCHEDULE = "Nats-Schedule"

#: How headers begin that tell the server to do something. As properties they are only carried.
_OF_SERVER = "nats-"

#: A name that a header may have.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Published:
    """What goes to a subject."""

    payload: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message as it came, and from where; ``answer`` is the subject that takes its answers.

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
        """What the message is known by, if nothing in it names it; a stream made anew counts from 1 again."""
        return f"ID:{self.stream}:{self.sequence}:{self.stored}"


def delivered(subject: str, answer: str, payload: bytes, headers: Mapping[str, str] | None) -> Delivered:
    """Return what came, from the parts of it.

    Source: ADR-15 of NATS: ``$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<...>.<time>.<pending>``,
    or with ``<domain>.<account>`` before the stream.

    Raises:
        ValueError: it did not come from a stream.
    """
    words = answer.split(".")
    if words[:2] != ["$JS", "ACK"] or len(words) < 9:  # noqa: PLR2004
        raise ValueError(f"{answer!r} is no subject for answers")
    first = 2 if len(words) == 9 else 4  # noqa: PLR2004
    stream, _, count, sequence, _, stored = words[first : first + 6]
    return Delivered(subject, answer, payload, headers or {}, stream, int(sequence), int(count), int(stored))


def encode(message: Message) -> Published:
    """Return payload and headers.

    Raises:
        ConfigurationError: a property cannot be sent so.
    """
    content_type, body = encode_body(message)
    return Published(body, {CONTENT_TYPE: content_type, **dict(to_texts(message, _fits))})


def later(published: Published, due: datetime, subject: str) -> Published:
    """Return what waits in the stream until ``due``, and then goes to a subject of it by itself.

    Source: ADR-51 of NATS, of servers from 2.12 on.
    """
    headers = {SCHEDULE: f"@at {due.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", f"{SCHEDULE}-Target": subject}
    return Published(published.payload, {**published.headers, **headers})


def _fits(name: str, text: str) -> bool:
    """Whether something can be a header of its own and come back as it was."""
    return (
        _NAME.fullmatch(name) is not None
        and not name.lower().startswith(_OF_SERVER)
        and text == text.strip()
        and not {"\r", "\n", "\0"} & set(text)
    )


def decode(came: Delivered, count: int = UNDEFINED_COUNT, limits: Limits = NO_LIMITS) -> Message:
    """Return the message that came, with its delivery count.

    Raises:
        UndecodableError: it is none.
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


def raw_fields(came: Delivered) -> dict[bytes, bytes]:
    """Return a message as it came."""
    found = {name.encode("utf-8", "surrogatepass"): text.encode() for name, text in came.headers.items()}
    place = {
        b"subject": came.subject.encode(),
        b"stream": came.stream.encode(),
        b"sequence": b"%d" % came.sequence,
    }
    return {**found, **place, b"body": came.payload}


def letter_of(fields: Mapping[bytes, bytes], reason: str) -> Published:
    """Return a dead letter for what could not be read: as it came, with the reason."""
    texts = {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, value in fields.items()
        if name != b"body"
    }
    kept = {name: text for name, text in texts.items() if _fits(name, text)}
    return Published(fields.get(b"body", b""), {**kept, "dead-letter-reason": _one_line(reason)})


def _one_line(text: str) -> str:
    return " ".join(text.split())
