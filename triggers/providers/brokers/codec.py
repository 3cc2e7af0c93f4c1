"""Code that the codecs of both AMQP wires share: bodies, checks, and the way into a message."""

import re
import reprlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue, ValidationError

from history.errors import ConfigurationError
from history.json_text import JsonText, NotJsonError, read_json
from history.message import HEADER_FIELDS, Message, read_header
from history.support.rendering import encodable
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.brokers.plain import plain

#: A decoder returns bytes, text, or JSON with the bytes that arrived.
Body = bytes | str | JsonText

#: The longest name, or text of a basic property, in bytes.
SHORT = 255

#: Only the broker knows these.
COUNTED = {"JMSXDeliveryCount", "JMSRedelivered"}

_EPOCH = datetime.fromtimestamp(0, UTC)

#: The milliseconds since 1970 from the year 1 to the year 9999.
_INSTANTS = range(-62_135_596_800_000, 253_402_300_800_000)

#: The content type of a body that is just bytes, as we send it.
_BYTES = "application/octet-stream"

_HEADER_OF = {field: header for header, field in HEADER_FIELDS.items()}
_LONGS = range(-(2**63), 2**63)

_UNICODE = (
    "ascii",
    "utf_8",
    "utf_8_sig",
    *(f"utf_{bits}{order}" for bits in (16, 32) for order in ("", "_be", "_le")),
)
_EUROPE = (
    "latin_1",
    *(f"iso8859_{part}" for part in (*range(1, 12), *range(13, 17))),
    "koi8_r",
    "koi8_u",
    "mac_roman",
)
_PCS = tuple(f"cp{page}" for page in (437, 850, 852, 855, 858, 866, 874, *range(1250, 1259)))
_ASIA = (
    *("shift_jis", "cp932", "euc_jp", "iso2022_jp"),
    *("gb2312", "gbk", "gb18030", "big5", "cp950"),
    *("euc_kr", "cp949", "tis_620"),
)
_MAINFRAMES = ("cp037", "cp273", "cp500", "cp1140")

_READ = frozenset((*_UNICODE, *_EUROPE, *_PCS, *_ASIA, *_MAINFRAMES))

#: The characters of a charset's name; no name is longer.
_NAME = re.compile(r"[A-Za-z0-9_.:+()-]{1,40}")


def encode_body(message: Message) -> tuple[str, bytes]:
    """Return content type and bytes of a message's body.

    Raises:
        ConfigurationError: a text is not valid Unicode.
    """
    if isinstance(message.body, bytes):
        return _BYTES, message.body
    if isinstance(message.body, str):
        return "text/plain; charset=utf-8", checked("body", message.body).encode()
    return "application/json", message.encoded()


def checked(name: str, value: Any) -> Any:
    """Return a value that AMQP can carry.

    Raises:
        ConfigurationError: it cannot.
    """
    problem = ""
    if len(name.encode("utf-8", "surrogatepass")) > SHORT:
        problem = f"its name is longer than {SHORT} bytes"
    elif isinstance(value, int) and value not in _LONGS:
        problem = "a number of more than 64 bits"
    else:
        try:
            (name + value if isinstance(value, str) else name).encode()
        except UnicodeEncodeError as error:
            problem = f"text that is not valid Unicode ({error.reason})"
    if problem:
        raise ConfigurationError("message", f"{encodable(name[:40])}: {problem}", "put it into the body")
    return value


# Messages that come together were often sent in the same millisecond.
@lru_cache(maxsize=256)
def moment(milliseconds: int) -> datetime | None:
    """Return the moment of a time from the headers of a message, where :func:`instant` returns a time."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def instant(milliseconds: int | None) -> int | None:
    """Return a time from the headers of a message, or None for a time that no calendar has.

    Some senders mix up seconds and milliseconds, or use the greatest number for a message that never expires.
    That is not a reason to refuse their messages.
    """
    # None is not in a range quickly: Python compares it with each number. So check for None first.
    return milliseconds if milliseconds is not None and milliseconds in _INSTANTS else None


def make(
    headers: Mapping[str, Any], body: Body | JsonValue, own: Mapping[str, Any] = MappingProxyType({})
) -> Message:
    """Make a message of JMS headers and properties.

    ``own`` has fields of the message that the provider itself knows. A header replaces such a field.

    Raises:
        UndecodableError: one of them violates JMS.
    """
    usual = plain(headers, body, own)
    if usual is not None:
        return usual
    own_headers = {_HEADER_OF[field]: value for field, value in own.items()}
    try:
        return Message.from_headers({**own_headers, **headers}, body)
    except ValidationError as error:
        # Not the first error: an empty JMSMessageID is first reported as an empty uuid.
        last = error.errors(include_url=False, include_context=False)[-1]
        path = [str(step) for step in last["loc"]]
        # Nobody should read a body in a log; without a path, the input is the whole message.
        shown = "" if not path or path[0] == "body" else f"{reprlib.repr(last['input'])}: "
        name = "uuid" if not path else _HEADER_OF.get(path[0]) or " ".join(path[:2])
        raise UndecodableError(name, shown + last["msg"]) from error
    except (ValueError, OverflowError) as error:
        # A number of thousands of digits, or an instant beyond the year 9999.
        raise UndecodableError(_overflowing(headers), str(error)) from error


def _overflowing(headers: Mapping[str, Any]) -> str:
    for name, value in headers.items():
        try:
            read_header(name, value)
        except (ValueError, OverflowError):
            return name
    return "a JMS header"


def decode_body(content_type: str | None, encoding: str | None, body: bytes) -> Body:
    """Return the body as its content type says.

    Raises:
        UndecodableError: it is compressed, or does not match its type.
    """
    if encoding and encoding.lower() not in {"utf-8", "binary", "identity", "8bit", "us-ascii"}:
        raise UndecodableError("content_encoding", f"{reprlib.repr(encoding)} is unknown")
    if content_type is None or content_type == _BYTES:
        return body
    media_type, _, options = content_type.partition(";")
    media_type = media_type.strip().lower()
    if media_type == "application/x-java-serialized-object":
        raise UndecodableError("content_type", "serialised Java objects are not read, for safety")
    if media_type.startswith("text/"):
        return _text(body, options)
    if media_type == "application/json" or media_type.endswith("+json"):
        try:
            return read_json(body)
        except NotJsonError as error:
            raise UndecodableError("body", str(error)) from error
    return body


def _text(body: bytes, options: str) -> str:
    parameters = dict(_option(option) for option in options.split(";") if "=" in option)
    charset = parameters.get("charset") or "utf-8"
    codec = codec_of(charset)
    if codec is None:
        raise UndecodableError("content_type", f"the charset {reprlib.repr(charset)} is not supported")
    try:
        return body.decode(codec)
    except UnicodeError as error:
        raise UndecodableError("body", f"is not text in {charset} ({error})") from error


def _option(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip(" \"'")


def _names() -> Iterator[tuple[str, str]]:
    for codec in _READ:
        yield codec, codec
    for alias, codec in aliases.items():
        if codec in _READ:
            yield alias, codec


_CODECS: Mapping[str, str] = dict(_names())


def codec_of(charset: str) -> str | None:
    """Return Python's name of a charset, or None if we do not read it.

    We read the charsets that people send, each in one pass over the bytes. A sender may name any, and some
    that Python knows are not really charsets: ``punycode`` takes quadratic time, ``undefined`` always fails,
    ``rot13`` and ``base64`` give no text. So there is a list.
    """
    if _NAME.fullmatch(charset) is None:
        return None
    return _CODECS.get(normalize_encoding(charset.lower()))
