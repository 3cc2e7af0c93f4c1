"""Reads the values of identifiers and paths from a message, and knows the kinds of expressions."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import assert_never, cast

from pydantic import JsonValue

from history.json_text import read_json
from history.message import UNDEFINED_COUNT, Message
from triggers.selectors.parsing import nodes
from triggers.selectors.parsing.nodes import ValueKind

#: Reads a header; None is NULL.
Header = Callable[[Message], object]

_EPOCH = datetime.fromtimestamp(0, UTC)

#: The kinds for calculations and order.
NUMBERS = frozenset({nodes.ValueKind.NUMBER, nodes.ValueKind.ANY})

#: The kinds that may be true.
CONDITIONS = frozenset({nodes.ValueKind.CONDITION, nodes.ValueKind.ANY})


class Reading:
    """One message while conditions are evaluated: its body is read as JSON once, at the first need."""

    __slots__ = ("_body", "_read", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._read = False
        self._body: JsonValue = None

    @property
    def body(self) -> JsonValue:
        """The body as JSON, as the service reads it.

        Raises:
            NotJsonError: it is not JSON.
        """
        if not self._read:
            self._body, self._read = _read_json(self.message.body), True
        return self._body

    def at(self, keys: tuple[str | int, ...]) -> object:
        """Return the value at a place of the body; None if it is missing."""
        value: object = self.body
        for key in keys:
            value = _member(value, key)
        return value


def _member(value: object, key: str | int) -> object:
    if isinstance(key, str):
        return cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    items = cast("list[object]", value) if isinstance(value, list) else []
    return items[key] if key < len(items) else None


def _read_json(body: bytes | JsonValue) -> JsonValue:
    return read_json(body).value if isinstance(body, bytes | str) else body


def _milliseconds(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // timedelta(milliseconds=1)


def _delivery_count(message: Message) -> int | None:
    return None if message.delivery_count == UNDEFINED_COUNT else message.delivery_count


#: The headers that a selector may name, and JMS's own properties that :class:`Message` holds in fields.
SELECTOR_HEADERS: Mapping[str, tuple[ValueKind, Header]] = MappingProxyType(
    {
        "JMSDeliveryMode": (
            ValueKind.TEXT,
            lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
        ),
        "JMSPriority": (ValueKind.NUMBER, lambda message: message.priority),
        "JMSMessageID": (ValueKind.TEXT, lambda message: message.message_id),
        "JMSTimestamp": (ValueKind.NUMBER, lambda message: _milliseconds(message.timestamp)),
        "JMSCorrelationID": (ValueKind.TEXT, lambda message: message.correlation_id),
        "JMSType": (ValueKind.TEXT, lambda message: message.type),
        "JMSXDeliveryCount": (ValueKind.NUMBER, _delivery_count),
        "JMSXGroupID": (ValueKind.TEXT, lambda message: message.group_id),
        "JMSXGroupSeq": (ValueKind.NUMBER, lambda message: message.group_sequence),
    }
)

#: Further names for a filter: it is evaluated here, after receipt, when these are known.
FILTER_HEADERS: Mapping[str, tuple[ValueKind, Header]] = MappingProxyType(
    {
        **SELECTOR_HEADERS,
        "JMSDestination": (ValueKind.TEXT, lambda message: message.destination),
        "JMSReplyTo": (ValueKind.TEXT, lambda message: message.reply_to),
        "JMSRedelivered": (ValueKind.CONDITION, lambda message: message.redelivered),
        "JMSExpiration": (ValueKind.NUMBER, lambda message: _milliseconds(message.expiration)),
        "JMSDeliveryTime": (ValueKind.NUMBER, lambda message: _milliseconds(message.delivery_time)),
    }
)


def kind_of(node: nodes.Node) -> nodes.ValueKind:
    """Return the kind of an expression; for a property or a place in the body, only a message shows it."""
    match node:
        case (
            nodes.Constant(bool())
            | nodes.ComparedValues()
            | nodes.Between()
            | nodes.In()
            | nodes.Like()
            | nodes.IsNull()
            | nodes.Not()
            | nodes.And()
            | nodes.Or()
        ):
            return nodes.ValueKind.CONDITION
        case nodes.Constant(str()):
            return nodes.ValueKind.TEXT
        case nodes.Constant() | nodes.Signed() | nodes.ArithmeticChain():
            return nodes.ValueKind.NUMBER
        case nodes.Identifier(name):
            header = FILTER_HEADERS.get(name)
            return nodes.ValueKind.ANY if header is None else header[0]
        case nodes.Path():
            return nodes.ValueKind.ANY
        case _:
            assert_never(node)
