"""Rows as messages: for resolvers, for parking, and for trigger services that run row by row."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from pydantic import ValidationError

from history.identity import IdentityError, canonical
from history.message import HEADER_FIELDS, UNDEFINED_COUNT, Message
from triggers.spark.rows.arrow import BrokenText
from triggers.spark.rows.columns import users_of
from triggers.spark.settings import Columns

#: The headers that are an identity.
_IDENTITIES = frozenset({"uuid", "JMSMessageID"})


#: A delivery count in text that Spark also reads, see :func:`~triggers.spark.rows.columns.delivery_count`.
_COUNT = re.compile(r"\s*[+-]?[0-9]{1,19}\s*", re.ASCII)


class NoIdentityError(ValueError):
    """The value in the identity column cannot be an identity."""

    def __init__(self, column: str | None, problem: str) -> None:
        super().__init__(f"its {column} {problem}")


def identity_of_row(row: Mapping[str, Any], columns: Columns) -> str | None:
    """Return the identity by :func:`~triggers.spark.rows.columns.identity`; None if there is none.

    Raises:
        NoIdentityError: it is not UTF-8, or too long.
    """
    for column in (columns.uuid, columns.message_id):
        value = None if column is None else row[column]
        if isinstance(value, BrokenText):
            raise NoIdentityError(column, "is no UTF-8")
        try:
            if text := canonical(_as_text(value)):
                return text
        except IdentityError as error:
            raise NoIdentityError(column, f"cannot be its identity: {error.problem}") from error
    return None


def unidentified(row: Mapping[str, Any], columns: Columns) -> Mapping[str, Any]:
    """Return a row that gets no identity from a column that the settings do not name."""
    if columns.body is None:  # then no column becomes a header
        return row
    named = {columns.uuid, columns.message_id, columns.delivery_count, columns.body}
    return {
        f"column {name}" if name in _IDENTITIES and name not in named else name: value
        for name, value in row.items()
    }


def raw_of(row: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return the columns of a row that is not a message, as a provider returns a delivery's fields."""
    return {
        name.encode("utf-8", "backslashreplace"): value if isinstance(value, bytes) else str(value).encode()
        for name, value in users_of(row).items()
    }


def _as_text(value: Any) -> str | None:
    if isinstance(value, BrokenText):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bytes | bytearray):
        return canonical(value)
    return None if value is None else str(value)


def message_of(row: Mapping[str, Any], columns: Columns, *, destination: str, uuid: str | None) -> Message:
    """Return a row as a whole message: a column without another meaning becomes a property.

    A column with the name of a JMS header is that header. Without a column for the body, the body is the
    whole row, as a JSON object. Values that JSON cannot hold are written as text. ``uuid`` is the identity as
    Spark has computed it.

    Raises:
        pydantic.ValidationError: the row's uuid, message id or delivery count is invalid.
        NoIdentityError: its message id is too many bytes.
    """
    named = {columns.uuid, columns.message_id, columns.delivery_count, columns.body}
    headers: dict[str, Any] = {}
    if columns.body is not None:
        headers = {name: _property(value) for name, value in row.items() if name not in named}
    identity: dict[str, Any] = {
        "uuid": uuid,
        "JMSMessageID": _text(row, columns.message_id),
        "JMSXDeliveryCount": _count(row, columns.delivery_count),
    }
    identity = {name: value for name, value in identity.items() if value is not None}
    body = body_of(row, columns)
    try:
        return Message.from_headers({"JMSDestination": destination, **headers, **identity}, body)
    except ValidationError:
        # A column that has the name of a header, and holds something else.
        kept = {name: value for name, value in headers.items() if name not in HEADER_FIELDS}
        return Message.from_headers({"JMSDestination": destination, **kept, **identity}, body)


def message_of_keyed(row: Mapping[str, Any], columns: Columns, *, destination: str, uuid: str) -> Message:
    """Do the same as :func:`message_of` for a row with an identity, which is always a message.

    Headers and properties have a limit, and columns have none. If a row exceeds it, the whole row is the
    body, and the message has no further header and no property.
    """
    try:
        return message_of(row, columns, destination=destination, uuid=uuid)
    except (ValidationError, NoIdentityError):
        return Message(uuid=uuid, body=plain(dict(row)), destination=destination)


def body_of(row: Mapping[str, Any], columns: Columns) -> Any:
    """Return the body of a row: its column for that, else the whole row as a JSON object."""
    return plain(dict(row)) if columns.body is None else _body(row[columns.body])


def _text(row: Mapping[str, Any], column: str | None) -> str | None:
    try:
        return None if column is None else _as_text(row[column]) or None
    except IdentityError as error:
        raise NoIdentityError(column, f"cannot be its message id: {error.problem}") from error


def _count(row: Mapping[str, Any], column: str | None) -> Any:
    if column is None or row[column] is None:
        return UNDEFINED_COUNT
    count = row[column]
    is_number = isinstance(count, Decimal) or (isinstance(count, str) and _COUNT.fullmatch(count))
    return int(count) if is_number else count


def _property(value: Any) -> bool | int | float | str | None:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    written = plain(value)
    return written if isinstance(written, str) else json.dumps(written)


def _body(value: Any) -> Any:
    match value:
        case bytes():
            return bytes(value)
        case str():
            return str(value)
        case _:
            return plain(value)


#: Types that JSON has.
_AS_IT_IS = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: bytes as hexadecimal, other values as text, and instants in UTC."""
    if _is_flat(value):
        return value
    try:
        return json.loads(json.dumps(value, default=_as_written))
    except TypeError:  # the keys of a map are not text
        return json.loads(json.dumps(_with_text_keys(value), default=_as_written))


def _is_flat(value: Any) -> bool:
    """Whether a row or struct holds only JSON values: most do, and there are many."""
    if type(value) is not dict:
        return False
    items: Mapping[Any, Any] = cast("Any", value)
    return all(type(name) is str and type(item) in _AS_IT_IS for name, item in items.items())


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        pairs: Mapping[Any, Any] = cast("Any", value)
        return {_as_written(key): _with_text_keys(item) for key, item in pairs.items()}
    if isinstance(value, list | tuple):
        items: Sequence[Any] = cast("Any", value)
        return [_with_text_keys(item) for item in items]
    return value


def _as_written(value: Any) -> str:
    if isinstance(value, BrokenText):
        return value.decode("utf-8", "backslashreplace")
    return value.hex() if isinstance(value, bytes | bytearray) else str(in_utc(value))


def in_utc(value: Any) -> Any:
    """Return an instant in UTC, whatever the zone of Spark's session is, and other values unchanged.

    Python compares two instants of one zone by their clock, which shows each time of an hour twice when it
    goes back; so do texts. An instant of the last hours of 9999 stays, if it is in the year 10000 in UTC.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError:
        return value
