"""Code that the codecs of both AMQP wires share: bodies, checks, and the way into a message."""

import reprlib
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue, ValidationError

from history.errors import ConfigurationError
from history.json_text import JsonText, NotJsonError, read_json
from history.message import HEADER_FIELDS, Message
from triggers.providers.brokers.charsets import codec_of
from triggers.providers.brokers.delivery import UndecodableError

#: A decoder returns bytes, text, or JSON with the bytes that arrived.
Body = bytes | str | JsonText

#: The longest name, or text of a basic property, in bytes.
SHORT = 255

#: Only the broker knows these.
COUNTED = {"JMSXDeliveryCount", "JMSRedelivered"}

#: The milliseconds since 1970 from the year 1 to the year 9999.
_INSTANTS = range(-62_135_596_800_000, 253_402_300_800_000)

_HEADER_OF = {field: header for header, field in HEADER_FIELDS.items()}
_LONGS = range(-(2**63), 2**63)


def encode_body(message: Message) -> tuple[str, bytes]:
    """Return content type and bytes of a message's body.

    Raises:
        ConfigurationError: a text is not valid Unicode.
    """
    if isinstance(message.body, bytes):
        return "application/octet-stream", message.body
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
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            problem = f"text that is not valid Unicode ({error.reason})"
    elif isinstance(value, int) and value not in _LONGS:
        problem = "a number of more than 64 bits"
    if problem:
        raise ConfigurationError("message", f"{name[:40]}: {problem}", "put it into the body")
    return value


def instant(milliseconds: int | None) -> int | None:
    """Return a time from the headers of a message, or None for a time that no calendar has.

    Some senders mix up seconds and milliseconds, or use the greatest number for a message that never expires.
    That is not a reason to refuse their messages.
    """
    # None is not in a range quickly: Python compares it with each number. So check for None first.
    return milliseconds if milliseconds is not None and milliseconds in _INSTANTS else None


def make(headers: Mapping[str, Any], body: Body | JsonValue) -> Message:
    """Make a message of JMS headers and properties.

    Raises:
        UndecodableError: one of them violates JMS.
    """
    try:
        return Message.from_headers(headers, body)
    except ValidationError as error:
        last = error.errors(include_url=False, include_context=False)[-1]
        path = [str(step) for step in last["loc"]] or ["uuid"]
        shown = "" if path[0] == "body" else f"{reprlib.repr(last['input'])}: "
        raise UndecodableError(_HEADER_OF.get(path[0]) or " ".join(path[:2]), shown + last["msg"]) from error
    except (ValueError, OverflowError) as error:
        raise UndecodableError("a JMS header", str(error)) from error


def decode_body(content_type: str | None, encoding: str | None, body: bytes) -> Body:
    """Return the body as its content type says.

    Raises:
        UndecodableError: it is compressed, or does not match its type.
    """
    if encoding and encoding.lower() not in {"utf-8", "binary", "identity", "8bit", "us-ascii"}:
        raise UndecodableError("content_encoding", f"{reprlib.repr(encoding)} is unknown")
    kind, _, options = (content_type or "").partition(";")
    kind = kind.strip().lower()
    if kind == "application/x-java-serialized-object":
        raise UndecodableError("content_type", "serialised Java objects are not read, for safety")
    if kind.startswith("text/"):
        return _text(body, options)
    if kind == "application/json" or kind.endswith("+json"):
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
