"""Fingerprints of bodies: two messages of one uuid are copies of each other only if these are equal."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Literal

from history.beside.fingerprints import FINGERPRINT_SIZE
from history.errors import ConfigurationError
from history.json_text import NotJsonError, canonical_json
from history.message import Message
from history.support.rendering import shown
from triggers.service.checking import check_plain

#: "body", or a function that returns the part of a message to compare: bytes, text or JSON; None for nothing.
FingerprintSource = Literal["body"] | Callable[[Message], Any]

#: Returns the fingerprint of a message; None if it has none. Raises what user code raises.
Fingerprint = Callable[[Message], bytes | None]

_REMEDY = 'write fingerprint="body", or give a function of the message'


def read_fingerprint(source: Any) -> Fingerprint | None:
    """Return a function that reads the fingerprint of messages; None if fingerprints are not used.

    Raises:
        ConfigurationError: it is neither "body" nor a synchronous function.
    """
    if source is None:
        return None
    if isinstance(source, str) and source == "body":
        return _of_body
    if not callable(source):
        raise ConfigurationError("fingerprint", f"{shown(source)} is neither 'body' nor a function", _REMEDY)
    check_plain("fingerprint", source, "one message", remedy=_REMEDY)

    def asked(message: Message) -> bytes | None:
        counts = source(message.copied())
        return None if counts is None else fingerprint_of(counts)

    return asked


def _of_body(message: Message) -> bytes:
    return fingerprint_of(message.body if (received := message.received) is None else received)


def fingerprint_of(value: Any) -> bytes:
    """Return eight bytes over a value; JSON is compared by its meaning, whether parsed, text or bytes.

    The order of names, white space and the spelling of a number make no difference, but each digit counts.
    Bytes and text that are not JSON are compared as they are.

    Raises:
        TypeError: it is neither bytes, nor text, nor a JSON value.
    """
    return blake2b(_canonical(value), digest_size=FINGERPRINT_SIZE).digest()


def _canonical(value: Any) -> bytes:
    try:
        return b"json:" + canonical_json(value)
    except NotJsonError:
        if not isinstance(value, bytes | str):
            raise
        raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        return b"raw:" + raw
