"""Messages as the rows of a DataFrame: one column for each JMS header, the properties as a map, the body.

====================  ===================================================================================
``offset``            the place of the entry in the log
``uuid``              the message's identity: the property ``uuid``, else JMSMessageID
JMS headers           under their names; instants are timestamps, JMSXDeliveryCount is -1 (undefined)
``properties``        map<string, string>: text as it is, numbers and booleans as JSON
``body``, ``body_kind``  the body as bytes (or as text, see the option ``body``); a JSON body is its JSON.
                      ``body_kind`` says what it was: ``bytes``, ``text`` or ``json``
``unreadable``        null; for an entry that is not a message, the problem. Then all columns above except
                      ``offset`` are null, so that nobody mistakes it for a message, and ...
``raw``               ... holds its fields: UTF-8 if possible, else ``base64:`` and base64
====================  ===================================================================================
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import types as T  # noqa: N812  (as everybody calls it)

from history.message import Message, PropertyValue
from history.store.parking import raw_fields
from triggers.spark.rows.arrow import UNSTORABLE, RecordBatch, record_batch
from triggers.spark.sources.log import LogEntry

#: The type of the column ``body``.
BodyType = Literal["binary", "string"]

_TEXTS = T.MapType(T.StringType(), T.StringType())

#: JMS header -> type of the column, and how it is read from a message.
_HEADERS: dict[str, tuple[T.DataType, Callable[[Message], Any]]] = {
    "JMSMessageID": (T.StringType(), lambda message: message.message_id),
    "JMSXDeliveryCount": (T.IntegerType(), lambda message: message.delivery_count),
    "JMSRedelivered": (T.BooleanType(), lambda message: message.redelivered),
    "JMSDeliveryMode": (T.IntegerType(), lambda message: 2 if message.persistent else 1),
    "JMSPriority": (T.IntegerType(), lambda message: message.priority),
    "JMSTimestamp": (T.TimestampType(), lambda message: message.timestamp),
    "JMSExpiration": (T.TimestampType(), lambda message: message.expiration),
    "JMSDeliveryTime": (T.TimestampType(), lambda message: message.delivery_time),
    "JMSCorrelationID": (T.StringType(), lambda message: message.correlation_id),
    "JMSType": (T.StringType(), lambda message: message.type),
    "JMSDestination": (T.StringType(), lambda message: message.destination),
    "JMSReplyTo": (T.StringType(), lambda message: message.reply_to),
    "JMSXGroupID": (T.StringType(), lambda message: message.group_id),
    "JMSXGroupSeq": (T.LongType(), lambda message: message.group_sequence),
}


def message_schema(body: BodyType) -> T.StructType:
    """Return the columns of a source of messages."""
    body_type = T.StringType() if body == "string" else T.BinaryType()
    return T.StructType(
        [
            T.StructField("offset", T.StringType()),
            T.StructField("uuid", T.StringType()),
            *(T.StructField(name, data_type) for name, (data_type, _) in _HEADERS.items()),
            T.StructField("properties", _TEXTS),
            T.StructField("body", body_type),
            T.StructField("body_kind", T.StringType()),
            T.StructField("unreadable", T.StringType()),
            T.StructField("raw", _TEXTS),
        ]
    )


@dataclass(frozen=True)
class MessageRows:
    """Makes Arrow batches of entries, with the columns of :func:`message_schema`."""

    body: BodyType

    @property
    def schema(self) -> T.StructType:
        """The columns."""
        return message_schema(self.body)

    def batches(self, pages: Iterable[Sequence[LogEntry]]) -> Iterator[RecordBatch]:
        """Return one batch for each page of entries."""
        schema = self.schema
        for page in pages:
            rows = [self._row(entry) for entry in page]
            try:
                yield record_batch(rows, schema)
            except UNSTORABLE:
                checked = [_checked(row, entry, schema) for row, entry in zip(rows, page, strict=True)]
                yield record_batch(checked, schema)

    def _row(self, entry: LogEntry) -> tuple[Any, ...]:
        message = entry.message
        if message is None:
            return _unreadable(entry, entry.problem)
        body_kind, body = _body_of(message)
        if self.body == "string" and isinstance(body, bytes):
            try:
                body = body.decode()
            except UnicodeDecodeError:
                return _unreadable(entry, "body: is no UTF-8; read it with option('body', 'binary')")
        return (
            entry.offset,
            message.uuid,
            *(read(message) for _, read in _HEADERS.values()),
            [(name, _text(value)) for name, value in message.properties.items()],
            body,
            body_kind,
            None,
            None,
        )


def _checked(row: tuple[Any, ...], entry: LogEntry, schema: T.StructType) -> tuple[Any, ...]:
    try:
        record_batch([row], schema)
    except UNSTORABLE as error:
        return _unreadable(entry, f"a column cannot hold it ({error})")
    return row


def _unreadable(entry: LogEntry, problem: str | None) -> tuple[Any, ...]:
    nothing = (None,) * (len(_HEADERS) + 4)
    return (entry.offset, *nothing, problem, list(raw_fields(dict(entry.fields)).items()))


def _body_of(message: Message) -> tuple[str, bytes | str]:
    match message.body:
        case bytes():
            return "bytes", message.body
        case str():
            return "text", message.body
        case _:
            return "json", message.encoded().decode("utf-8")


def _text(value: PropertyValue) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
