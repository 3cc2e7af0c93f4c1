"""A waiting message as rows of the limbo, and back; bodies and properties are kept as SQL-JMS keeps them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import Table

from history.entry import digest
from history.message import Message
from history.sql.database.engine import AnyConnection, AnyRow, fetch
from history.sql.statements.dialects import Statement, statement
from history.store import instant, milliseconds
from triggers.providers.sqljms.codec import COLUMNS, decode, encode
from triggers.providers.sqljms.limbo.tables import LIMBO_TABLES

#: The codes of message classes: the original's are not published, so these are in alphabetical order.
CLASS_TYPES = {"BytesMessage": 1, "MapMessage": 2, "ObjectMessage": 3, "StreamMessage": 4, "TextMessage": 5}

#: A property that is null: it has no value, and the column needs one.
_NULL = 0

_MILLISECOND = timedelta(milliseconds=1)

#: The tables with rows of single messages.
_TABLES: Final = LIMBO_TABLES[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """The terms on which an input gets a message again; ``attempts`` have begun so far."""

    input: str
    attempts: int
    delay: timedelta
    max_attempts: int
    failure_port: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InLimbo:
    """A message that waits in limbo.

    ``component`` and ``port`` are the source and the output port for the message at ``due``; with ``again``
    they are the component and input port that get it. ``failures`` counts failures to send. Until
    ``held_until`` the message belongs to the holder of ``token``. ``limbo`` names the one who put it in.
    """

    id: int
    component: str
    port: str
    message: Message
    due: datetime
    failures: int = 0
    again: Again | None = None
    token: str | None = None
    held_until: datetime | None = None
    error: str | None = None
    limbo: str | None = None


@dataclass(frozen=True, slots=True)
class LimboRows:
    """The rows of a message, by table; empty for tables that have none."""

    state: dict[str, Any]
    message: dict[str, Any]
    body: dict[str, Any]
    reply_to: list[dict[str, Any]]
    properties: list[dict[str, Any]]
    types: list[dict[str, Any]]
    delay: list[dict[str, Any]]


def rows_of(number: int, message: Message, again: Again | None) -> LimboRows:
    """Return the rows of a message, without its due time and without the name of who put it there.

    Raises:
        ConfigurationError: a header or the name of a property cannot be stored.
    """
    values, properties = encode(message, number, "")
    columns = dict(zip(COLUMNS, values, strict=True))
    names = [{"msg_id": number, "name": name} for _, _, name, _ in properties]
    return LimboRows(
        state=_state(number, message, again, columns),
        message={
            "msg_id": number,
            "class": columns["msg_class"],
            "class_type": CLASS_TYPES[columns["msg_class"]],
            "type": columns["type"],
            "expiration": columns["expiration"],
            "correlation_id": columns["correlation_id"],
        },
        body={"msg_id": number, "body": columns["small_body"] or columns["large_body"] or b""},
        reply_to=[]
        if message.reply_to is None
        else [{"msg_id": number, "reply_to": _utf8(message.reply_to)}],
        properties=[
            name | {"value": text or ""} for name, (_, _, _, text) in zip(names, properties, strict=True)
        ],
        types=[
            name | {"type": _NULL if text is None else type_name}
            for name, (_, type_name, _, text) in zip(names, properties, strict=True)
        ],
        delay=[] if again is None else [_delay(number, message, again, columns)],
    )


def _state(number: int, message: Message, again: Again | None, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the row of our table; a message for an input waits there under the digest of its uuid."""
    waits = again is not None and message.uuid is not None
    return {
        "msg_id": number,
        "input": "" if again is None else again.input,
        "digest": digest(message.uuid or "") if waits else None,
        "error": None if again is None else again.error,
    } | {name: columns[name] for name in ("uuid", "message_id", "timestamp", "delivery_mode", "priority")}


def _delay(number: int, message: Message, again: Again, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the row of the terms, and of the headers that a plain second send would overwrite."""
    return {
        "msg_id": number,
        "delay": milliseconds(again.delay),
        "max_attempts": again.max_attempts,
        "failure_port": again.failure_port,
        "redelivered": 1,
        "destination": None if message.destination is None else _utf8(message.destination),
    } | {name: columns[name] for name in ("message_id", "timestamp", "delivery_mode", "priority")}


def waiting_of(row: AnyRow, properties: Iterable[AnyRow]) -> InLimbo:
    """Return the message from its rows.

    Raises:
        UndecodableError: they are not a message: another program wrote them.
    """
    again = None
    if row.again:
        again = Again(
            input=row.input,
            attempts=row.delivery_count,
            delay=int(row.delay) * _MILLISECOND,
            max_attempts=row.max_attempts,
            failure_port=row.failure_port,
            error=row.last_error,
        )
    shown = [[prop.prop_name, prop.prop_type, _text_of(prop)] for prop in properties]
    return InLimbo(
        id=row.msg_id,
        component=row.msg_src_name,
        port=row.port_name,
        message=_message_of(row, shown, again),
        due=instant(row.delivery_date),
        failures=0 if row.again else row.delivery_count,
        again=again,
        token=row.token,
        held_until=None if row.lease_until is None else instant(row.lease_until),
        error=row.last_error,
        limbo=row.limbo_name,
    )


def _text_of(row: AnyRow) -> str | None:
    return None if row.prop_type == _NULL else row.prop_value


def _message_of(row: AnyRow, properties: Sequence[Sequence[Any]], again: Again | None) -> Message:
    message = decode(
        SimpleNamespace(
            msg_id=row.msg_id,
            msg_class=row.msg_class,
            small_body=None,
            large_body=bytes(row.msg_body or b""),
            uuid=row.uuid,
            message_id=row.message_id,
            destination_name=None if row.jms_destination is None else _text(row.jms_destination),
            reply_to_name=None if row.jms_replyto is None else _text(row.jms_replyto),
            timestamp=row.timestamp,
            correlation_id=row.jms_correlationid,
            type=row.jms_type,
            expiration=row.jms_expiration or 0,
            delivery_mode=row.delivery_mode,
            priority=row.priority,
            delivery_time=None if row.again else row.delivery_date,
            properties=properties,
            delivery_count=max(row.delivery_count, 1),
        )
    )
    if again is not None:
        return message.model_copy(update={"redelivered": True})
    # It was not sent yet: it has no count, and its JMSMessageID only if its sender gave one.
    return message.model_copy(
        update={"delivery_count": -1, "redelivered": False, "message_id": row.message_id}
    )


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return bytes(data).decode("utf-8", "surrogatepass")


def _raw(table: Table) -> Statement:
    names = [column.name for column in table.columns]
    # SQLite cannot return text that is not UTF-8.
    blobs = ", ".join(f"CAST({name} AS BLOB) AS {name}" for name in names)
    return statement(
        sqlite=f"SELECT {blobs} FROM {table.name} WHERE msg_id = :id",  # noqa: S608  (ours)
        postgresql=f"SELECT {', '.join(names)} FROM {table.name} WHERE msg_id = :id",  # noqa: S608  (ours)
    )


# The rows of a message, table by table.
RAW: Final = {table.name: _raw(table) for table in _TABLES}


@dataclass(frozen=True, slots=True)
class OddWaiting:
    """A taken message that cannot be read: its fields as bytes, and what is wrong with them."""

    id: int
    token: str | None
    problem: str
    fields: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])


async def odd_inside(connection: AnyConnection, number: int, token: str, problem: str) -> OddWaiting:
    """Read the rows of a message, as bytes."""
    fields: dict[bytes, bytes] = {b"msg_id": str(number).encode()}
    for table in _TABLES:
        rows = await fetch(connection, RAW[table.name], id=number)
        for index, row in enumerate(rows):
            where = table.name if len(rows) == 1 else f"{table.name}[{index}]"
            for column, value in zip(table.columns, row, strict=True):
                if value is not None and column.name != "msg_id":
                    fields[f"{where}.{column.name}".encode()] = _bytes(value)
    return OddWaiting(number, token, problem, fields)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
