"""A message's headers and properties as text headers of a broker, and back: for Kafka and NATS.

Each text goes as one header. All other values, texts that a broker's headers cannot carry, and texts that
would be read as a header of ours go together in one header, as a JSON object.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from history.message import HEADER_FIELDS, Message
from triggers.providers.brokers.codec import COUNTED, checked
from triggers.providers.brokers.delivery import UndecodableError

#: The header that names the kind of body.
CONTENT_TYPE = "content-type"

#: The header that names the encoding of the body.
ENCODING = "content-encoding"

#: The header with the properties that are not text.
TYPED = "properties"

#: The values of absent headers, which need not be sent.
_DEFAULTS = {"JMSDeliveryMode": 2, "JMSPriority": 4}

#: Our spelling of the names that mean something to us, by their lower case.
_SPELLED = {name.lower(): name for name in (*HEADER_FIELDS, CONTENT_TYPE, ENCODING, TYPED)}

_OURS = frozenset(_SPELLED.values())

T = TypeVar("T")


def spelled(headers: dict[str, T]) -> dict[str, T]:
    """Return headers with our spelling of known names: other publishers may write them in any case.

    If all names are ours, it returns the same dictionary.
    """
    if headers.keys() <= _OURS:
        return headers
    renamed: dict[str, T] = {}
    for name, value in headers.items():
        if name in _OURS:
            renamed[name] = value
            continue
        ours = _SPELLED.get(name.lower(), name)
        renamed[name if ours in headers else ours] = value
    return renamed


def to_texts(message: Message, fits: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """Return the headers of a message; ``fits`` says whether a name and a text can be one.

    Raises:
        ConfigurationError: a property cannot be sent so.
    """
    texts: list[tuple[str, str]] = []
    typed: dict[str, Any] = {}
    for name, value in message.headers().items():
        if name in COUNTED or (name in _DEFAULTS and _DEFAULTS[name] == value):
            continue
        # A header UUID would be read as our header uuid, so such a property is not sent as a header.
        is_text = name in HEADER_FIELDS or (isinstance(value, str) and name.lower() not in _SPELLED)
        if is_text and fits(name, str(value)):
            texts.append((name, str(checked(name, value))))
        else:
            typed[name] = value
    if typed:
        texts.append((TYPED, json.dumps(typed)))
    return texts


def typed_of(text: str | None) -> dict[str, Any]:
    """Return the properties that are not text.

    Raises:
        UndecodableError: it is not a JSON object.
    """
    if text is None:
        return {}
    try:
        types = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UndecodableError(TYPED, f"is not JSON ({error})") from error
    if not isinstance(types, dict):
        raise UndecodableError(TYPED, "is not a JSON object", 'send {"name": value}')
    return cast("dict[str, Any]", types)
