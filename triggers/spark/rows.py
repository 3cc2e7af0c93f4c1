"""Rows as messages: for resolvers, for parking, and for trigger services that run row by row."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from history.message import HEADER_FIELDS, UNDEFINED_COUNT, Message
from triggers.spark.settings import Columns


def message_of(row: Mapping[str, Any], columns: Columns, *, destination: str, uuid: str | None) -> Message:
    """Return a row as a message, whole: what is not named as something else becomes a property.

    A column with the name of a JMS header is that header. Without a column for the body, the body is the
    whole row, as a JSON object. What JSON cannot hold is written as text. ``uuid`` is the identity as Spark
    has told it.

    Raises:
        pydantic.ValidationError: the row's uuid, message id or delivery count is none.
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
    body = _plain(dict(row)) if columns.body is None else _body(row[columns.body])
    try:
        return Message.from_headers({"JMSDestination": destination, **headers, **identity}, body)
    except ValidationError:
        # A column that has the name of a header, and holds something else.
        kept = {name: value for name, value in headers.items() if name not in HEADER_FIELDS}
        return Message.from_headers({"JMSDestination": destination, **kept, **identity}, body)


def _text(row: Mapping[str, Any], column: str | None) -> str | None:
    return None if column is None or row[column] is None else str(row[column])


def _count(row: Mapping[str, Any], column: str | None) -> Any:
    if column is None or row[column] is None:
        return UNDEFINED_COUNT
    return row[column]


def _property(value: Any) -> bool | int | float | str | None:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _body(value: Any) -> Any:
    return value if isinstance(value, bytes | str) else _plain(value)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    return json.loads(json.dumps(value, default=_told))


def _told(value: Any) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)
