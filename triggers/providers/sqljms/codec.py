"""A message as a row of ``dms_msg``, and back.

========================  ===========================================================================
``msg_class``             ``BytesMessage``, ``TextMessage`` (UTF-8) or ``ObjectMessage`` (JSON)
``small_body``            a body of 1 to 250 bytes; ``large_body`` has a longer one; an empty one has neither
``message_id``            the JMSMessageID, if the sender gave one; else it is ``ID:<msg_id>``
``uuid``                  the property of that name
``timestamp`` and others  milliseconds since 1970; an ``expiration`` of 0 means never
========================  ===========================================================================

``JMSXGroupID`` and ``JMSXGroupSeq`` are properties, as in JMS.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from history.errors import ConfigurationError
from history.json_text import NotJsonError, read_json
from history.message import HEADER_FIELDS, UNDEFINED_COUNT, Message, too_long
from history.store.times import milliseconds_of
from triggers.providers.brokers.codec import Body
from triggers.providers.brokers.delivery import UndecodableError
from triggers.providers.sqljms.properties import PropertyFormatError, Stored, is_name, is_storable

#: The longest body that is small, in bytes.
SMALL = 250

_BYTES, _TEXT, _OBJECT = "BytesMessage", "TextMessage", "ObjectMessage"

_EPOCH = datetime.fromtimestamp(0, UTC)

_MILLISECOND = timedelta(milliseconds=1)

_EMPTY = Message(body=b"")

#: The columns of dms_msg and its entry for a message, and the types of PostgreSQL's arrays of them.
COLUMNS: Mapping[str, str] = {
    "msg_id": "BIGINT",
    "msg_class": "TEXT",
    "has_properties": "SMALLINT",
    "timestamp": "BIGINT",
    "correlation_id": "TEXT",
    "delivery_mode": "SMALLINT",
    "type": "TEXT",
    "expiration": "BIGINT",
    "priority": "SMALLINT",
    "small_body": "BYTEA",
    "large_body": "BYTEA",
    "uuid": "TEXT",
    "message_id": "TEXT",
    "destination_name": "TEXT",
    "reply_to_name": "TEXT",
    "delivery_time": "BIGINT",
}

#: The columns that are texts.
_TEXT_COLUMNS = (
    "uuid",
    "message_id",
    "correlation_id",
    "type",
    "destination_name",
    "reply_to_name",
    "msg_class",
)

#: The headers that are texts, by field of Message.
_TEXTS = ("correlation_id", "type", "uuid", "message_id", "destination", "reply_to")


def encode(message: Message, number: int, destination: str) -> tuple[Sequence[Any], Sequence[Sequence[Any]]]:
    """Return the values of :data:`COLUMNS`, and the rows of the message's properties.

    Raises:
        ConfigurationError: a text in a header cannot be stored.
    """
    body_kind, body = _encode_body(message)
    for field in _TEXTS:
        text = getattr(message, field)
        if text is not None and not is_storable(text):
            raise ConfigurationError(
                "message", f"its {field} is not storable text", "send such a text in the body"
            )
    properties = _properties(message, number)
    size = len(body)
    row = (
        number,
        body_kind,
        int(bool(properties)),
        _milliseconds(message.timestamp),
        message.correlation_id,
        2 if message.persistent else 1,
        message.type,
        _milliseconds(message.expiration) or 0,
        message.priority,
        body if 0 < size <= SMALL else None,
        body if size > SMALL else None,
        message.properties.get("uuid"),
        message.message_id,
        message.destination or destination,
        message.reply_to,
        # Rounded up: nothing is delivered before it.
        None if message.delivery_time is None else milliseconds_of(message.delivery_time),
    )
    return row, properties


def _properties(message: Message, number: int) -> list[Sequence[Any]]:
    properties = dict(message.properties)
    if message.group_id is not None:
        properties["JMSXGroupID"] = message.group_id
    if message.group_sequence is not None:
        properties["JMSXGroupSeq"] = message.group_sequence
    rows: list[Sequence[Any]] = []
    for name, value in properties.items():
        if name in HEADER_FIELDS and not name.startswith("JMSXGroup"):
            continue  # a column of the row itself
        if not is_name(name):
            raise ConfigurationError("message", f"a property cannot have the name {name[:60]!r}", "rename it")
        stored = Stored.of(value)
        rows.append((number, int(stored.data_type), name, stored.text))
    return rows


def _encode_body(message: Message) -> tuple[str, bytes]:
    if isinstance(message.body, bytes):
        return _BYTES, message.body
    if isinstance(message.body, str):
        return _TEXT, message.body.encode("utf-8", "surrogatepass")
    return _OBJECT, message.encoded()


def decode(row: Any) -> Message:
    """Return the message of a row that a claim returned.

    A column of SQLite holds values of any type, so each value's type is checked.

    Raises:
        UndecodableError: the row is not a message: another program wrote it.
        Exception: the value in a row may cause any other error.
    """
    for field in _TEXT_COLUMNS:
        if (text := getattr(row, field)) is not None and type(text) is not str:
            raise UndecodableError(field, f"it is {type(text).__name__}, and no text")
    count = row.delivery_count
    if type(count) is not int or count == 0 or count < UNDEFINED_COUNT:
        raise UndecodableError("delivery_count", f"{count!r} is none")
    name = row.message_id or f"ID:{row.msg_id}"
    headers: dict[str, Any] = {
        "body": _decode_body(row),
        "uuid": row.uuid or name,
        "message_id": name,
        "delivery_count": count,
        "redelivered": count > 1,
        "destination": row.destination_name,
        "timestamp": _instant(row.timestamp),
    }
    if row.uuid:
        headers["properties"] = {"uuid": row.uuid}
    if row.properties is not None:
        headers |= _decode_properties(row)
    headers |= _decode_headers(row)
    texts = (*(getattr(row, field) for field in _TEXT_COLUMNS), headers.get("group_id"))
    if (problem := too_long(headers.get("properties", {}), texts)) is not None:
        raise UndecodableError("message", problem, "put it into the body")
    # Nothing in it can be invalid, and validation would take most of the time that a message needs.
    return _EMPTY.model_copy(update=headers)


def _decode_headers(row: Any) -> dict[str, Any]:
    """Return the headers of JMS that the sender sets.

    Raises:
        UndecodableError: one of them is not valid.
    """
    if type(row.priority) is not int or not 0 <= row.priority <= 9:  # noqa: PLR2004  (of JMS)
        raise UndecodableError("priority", f"{row.priority!r} is none", "give 0 to 9")
    if type(row.delivery_mode) is not int:
        raise UndecodableError("delivery_mode", f"{row.delivery_mode!r} is none", "give 1 or 2")
    return {
        "correlation_id": row.correlation_id,
        "type": row.type,
        "reply_to": row.reply_to_name,
        "persistent": row.delivery_mode != 1,
        "priority": row.priority,
        "expiration": _instant(row.expiration) if row.expiration else None,
        "delivery_time": _instant(row.delivery_time),
    }


def _decode_properties(row: Any) -> dict[str, Any]:
    rows: Any = json.loads(row.properties) if isinstance(row.properties, str) else row.properties
    properties: dict[str, Any] = {}
    try:
        for name, data_type, text in rows:
            if type(name) is not str:
                raise UndecodableError("properties", f"{name!r} is no name")
            properties[name] = Stored(data_type or 0, text).value
    except PropertyFormatError as error:
        raise UndecodableError("properties", str(error)) from error
    group, sequence = properties.pop("JMSXGroupID", None), properties.pop("JMSXGroupSeq", None)
    if row.uuid:
        properties["uuid"] = row.uuid
    fields: dict[str, Any] = {"properties": properties}
    if group is not None:
        fields["group_id"] = str(group)
    if isinstance(sequence, int):
        fields["group_sequence"] = sequence
    return fields


def _decode_body(row: Any) -> Body:
    body = row.small_body or row.large_body or b""
    if type(body) is not bytes:
        raise UndecodableError("body", f"it is {type(body).__name__}, and no bytes")
    if row.msg_class not in {_BYTES, _TEXT, _OBJECT, None}:
        raise UndecodableError("msg_class", f"{row.msg_class!r} is unknown")
    try:
        match row.msg_class:
            case "TextMessage":
                return body.decode("utf-8", "surrogatepass")
            case "ObjectMessage":
                return read_json(body)
            case _:
                return body
    except NotJsonError as error:
        raise UndecodableError("body", str(error)) from error
    except ValueError as error:
        problem = f"it is none of a {row.msg_class} ({type(error).__name__})"
        raise UndecodableError("body", problem) from error


def raw_fields(row: Any) -> dict[bytes, bytes]:
    """Return the fields of a row that is not a message."""
    shown = {name: getattr(row, name) for name in COLUMNS}
    return {
        name.encode(): value if isinstance(value, bytes) else str(value).encode("utf-8", "backslashreplace")
        for name, value in shown.items()
        if value is not None
    } | _raw_properties(row.properties)


def _raw_properties(properties: Any) -> dict[bytes, bytes]:
    if properties is None:
        return {}
    shown = properties if isinstance(properties, str) else json.dumps(properties, default=repr)
    return {b"properties": shown.encode("utf-8", "backslashreplace")}


def _milliseconds(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // _MILLISECOND


# Messages that arrive together were mostly sent together.
@lru_cache(maxsize=256)
def _instant(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    if type(milliseconds) is not int:
        raise UndecodableError("timestamp", f"{milliseconds!r} is not a number of milliseconds")
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise UndecodableError("timestamp", f"{milliseconds} ms since 1970 is no instant") from None
