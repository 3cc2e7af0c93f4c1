"""The message: JMS headers, properties, body, and the identity that shows which messages are duplicates.

Sources: JMS 1.1 chapter 3 for the headers and their types. The webMethods trigger for the identity: the
property ``uuid`` if the sender set it, else the header JMSMessageID.
"""

import base64
import copy
import json
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema, to_json

from history.errors import ConfigurationError
from history.identity import LONGEST, IdentityError, canonical
from history.identity import UNDEFINED_COUNT as UNDEFINED_COUNT  # noqa: PLC0414  (so checkers see it exported)
from history.identity import Uuid as Uuid  # noqa: PLC0414  (as above)
from history.json_text import (
    JsonText,
    NotJsonError,
    canonical_json,
    has_too_many_digits,
    read_json,
    refuse_unreadable,
)

#: The types that a JMS property may have.
PropertyValue = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class _Told:
    """One text in place of pydantic's error for each type of a union."""

    text: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.custom_error_schema(handler(source), "not_a_value", custom_error_message=self.text)


_Body = Annotated[
    bytes | str | JsonValue,
    _Told("must be bytes or JSON, with text as keys: convert others by str() or model_dump(mode='json')"),
]
_Property = Annotated[PropertyValue, _Told("must be text, a number, a bool or None: convert others by str()")]

_EPOCH = datetime.fromtimestamp(0, UTC)

#: Where a message keeps the JSON that arrived, outside its fields, and the kind of such a body in a store.
_RECEIVED, _JSON_TEXT = "_received", "json-text"

#: The most characters of the names and texts of all properties together.
MOST_IN_PROPERTIES = 262_144

#: The digits of a 64-bit number and its sign; JMS has no longer numbers.
_MOST_DIGITS = 20

#: JMS header or provider-set property -> field of :class:`Message`.
HEADER_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "JMSMessageID": "message_id",
        "JMSXDeliveryCount": "delivery_count",
        "JMSRedelivered": "redelivered",
        "JMSDeliveryMode": "persistent",
        "JMSCorrelationID": "correlation_id",
        "JMSType": "type",
        "JMSDestination": "destination",
        "JMSReplyTo": "reply_to",
        "JMSPriority": "priority",
        "JMSTimestamp": "timestamp",
        "JMSExpiration": "expiration",
        "JMSDeliveryTime": "delivery_time",
        "JMSXGroupID": "group_id",
        "JMSXGroupSeq": "group_sequence",
        "uuid": "uuid",
    }
)

#: The header names, which cannot be names of properties.
_PURE_HEADERS = HEADER_FIELDS.keys() - {"uuid"}


class Properties(dict[str, PropertyValue]):
    """The properties of a message: a read-only dict; ``{**properties}`` is a copy that can be changed."""

    __slots__ = ()

    def _refuse(*_: Any, **__: Any) -> Any:
        raise TypeError("a message is immutable: change a copy of its properties, such as {**properties}")

    # This breaks the contract of dict on purpose. Code that only reads does not notice.
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Properties, (dict(self),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self


#: The properties of a message that has none.
_NO_PROPERTIES = Properties()


class Message(BaseModel):
    """A message as the publisher sent it. Immutable.

        Message(body={"customer": "Ann", "amount": 12}, uuid="order-17", properties={"region": "EU"})

    ``uuid`` is the identity of the message: the property ``uuid`` (set it with ``uuid=`` or in
    ``properties``), else ``message_id``, else None. If a trigger has ``uuid=``, its messages have the
    identity that it reads, and :attr:`sent_uuid` is the identity that the sender gave.

    ``body`` is bytes, text, or a JSON value. A JSON body is an ordinary dict or list, so each service,
    resolver, filter and handler gets a separate copy: a change affects no one else. ``properties`` cannot be
    changed. The identity and each other header have at most 16,384 characters, the names and texts of all
    properties 262,144.

    ``delivery_count`` is JMSXDeliveryCount: 1 for a first delivery, more for a redelivery, -1 for undefined.
    The message refuses 0, other negative numbers, and values that are not integers.

    ``timestamp``, ``expiration`` and ``delivery_time`` are aware datetimes. Without an expiration, the field
    is None. A message with a future delivery time (JMS 2.0) is not delivered before that time.

    Raises:
        pydantic.ValidationError: it names the wrong field and the remedy.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    body: _Body
    uuid: str | None = None
    message_id: str | None = None
    delivery_count: int = UNDEFINED_COUNT
    redelivered: bool = False
    persistent: bool = True
    correlation_id: str | None = None
    type: str | None = None
    destination: str | None = None
    reply_to: str | None = None
    priority: int = Field(default=4, ge=0, le=9)
    timestamp: AwareDatetime | None = None
    expiration: AwareDatetime | None = None
    delivery_time: AwareDatetime | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    properties: Mapping[str, _Property] = Field(default_factory=lambda: _NO_PROPERTIES)

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, data: Any) -> Any:
        """Make the property ``uuid`` and the field agree, then fall back to the JMSMessageID.

        An empty identity counts as absent if the message has another one.
        """
        if not isinstance(data, dict):
            return data
        fields = _with_text_as_id(cast("dict[str, Any]", data))
        properties = fields.get("properties")
        own: Mapping[str, Any] = cast("Any", properties) if isinstance(properties, Mapping) else {}
        if "" in (fields.get("uuid"), fields.get("message_id"), own.get("uuid")):
            fields, own = _without_empty(fields, own)
        own_field, message_id, in_properties = fields.get("uuid"), fields.get("message_id"), own.get("uuid")
        if own_field is None and in_properties is None:
            # If it cannot be an identity, the field refuses it.
            return {**fields, "uuid": message_id} if message_id and type(message_id) is str else fields
        sent = _identity(in_properties if own_field is None else own_field)
        if None not in (own_field, in_properties) and sent != _identity(in_properties):
            raise PydanticCustomError("uuid_twice", "uuid and properties['uuid'] differ; give one of them")
        return {**fields, "uuid": sent, "properties": {**own, "uuid": sent}}

    @field_validator("uuid", "message_id")
    @classmethod
    def _not_empty(cls, value: str | None) -> str | None:
        if value == "":
            raise PydanticCustomError(
                "empty_identity",
                "an empty identity would make every such message a duplicate; leave it out or fill it in",
            )
        return value

    # Not pydantic's max_length, because it also refuses half a character.
    @field_validator("uuid", "message_id", "correlation_id", "type", "destination", "reply_to", "group_id")
    @classmethod
    def _not_long(cls, value: str | None) -> str | None:
        if value is not None and len(value) > LONGEST:
            raise _size_error(too_long({}, (value,)))
        return value

    @field_validator("body")
    @classmethod
    def _can_be_read_again(cls, value: bytes | str | JsonValue) -> bytes | str | JsonValue:
        if isinstance(value, dict | list | int):
            try:
                refuse_unreadable(value)
            except NotJsonError as error:
                raise PydanticCustomError("unreadable", "it {problem}", {"problem": str(error)}) from error
        return value

    @field_validator("properties")
    @classmethod
    def _read_only(cls, value: Mapping[str, PropertyValue]) -> Properties:
        if not value:
            return _NO_PROPERTIES
        if (problem := too_long(value)) is not None:
            raise _size_error(problem)
        return Properties(value)

    @field_validator("delivery_count", mode="before")
    @classmethod
    def _is_a_count(cls, value: Any) -> int:
        if type(value) is int and (value >= 1 or value == UNDEFINED_COUNT):
            return value
        raise PydanticCustomError(
            "delivery_count",
            "a delivery count must be 1 or more, or -1 where the provider keeps none; not {value}",
            {"value": repr(value)},
        )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, which are not validated; a body may be a :class:`JsonText`."""
        if update is None:
            return super().model_copy(deep=deep)
        if "properties" in update:
            update = {**update, "properties": Properties(update["properties"])}
        twin = super().model_copy(update=update, deep=deep)
        if "body" in update:
            vars(twin).pop(_RECEIVED, None)
            keep_text(twin, update["body"])
        return twin

    def copied(self) -> Self:
        """Return this message with its own copy of the body; the message itself if the body is immutable."""
        if not isinstance(self.body, (dict, list)):
            return self
        twin = copy.copy(self)
        vars(twin)["body"] = copied_body(self.body)
        return twin

    @property
    def sent_uuid(self) -> str | None:
        """The identity that the sender gave, even if a trigger with ``uuid=`` uses another one."""
        sent = self.properties.get("uuid")
        return self.message_id if sent is None else str(sent)

    def known_by(self, identity: str | None) -> Self:
        """Return this message with another identity: only :attr:`uuid` differs, not what was sent."""
        twin = copy.copy(self)
        vars(twin)["uuid"] = identity
        return twin

    @property
    def received(self) -> bytes | None:
        """The JSON of the body as it arrived, to the last digit; None if the body did not arrive as JSON."""
        return cast("bytes | None", vars(self).get(_RECEIVED))

    @property
    def loses_digits(self) -> bool:
        """Whether ``body`` lost digits of the JSON that arrived, such as of a number that no float holds."""
        received = self.received
        return received is not None and canonical_json(received) != canonical_json(self.body)

    def encoded(self) -> bytes:
        """Return the body as bytes: as it arrived, else text in UTF-8 and a JSON value as compact JSON.

        Raises:
            UnicodeEncodeError: a text holds half a character.
        """
        return encoded_body(self.body) if (received := self.received) is None else received

    @classmethod
    def from_headers(cls, headers: Mapping[str, Any], body: bytes | str | JsonValue | JsonText) -> Self:
        """Make a message from JMS header names; every other name becomes a property.

        Numbers may be text, as they are on text protocols. JMSTimestamp, JMSExpiration and JMSDeliveryTime
        are milliseconds since 1970 (0 in the last two means none); JMSDeliveryMode is 1, 2, or the name of
        its constant. JSON that :func:`~history.json_text.read_json` has read is kept as it arrived.

        Raises:
            ConfigurationError: ``headers`` is not a mapping.
            pydantic.ValidationError: as in the constructor.
        """
        if not hasattr(headers, "items"):  # such as None, or a list of pairs
            problem = f"must be a mapping of names to values, not a {type(headers).__qualname__}"
            raise ConfigurationError("headers", problem, "give {} if there are none, or dict(pairs)")
        fields: dict[str, Any] = {}
        properties: dict[str, Any] = {}
        for name, value in headers.items():
            field = HEADER_FIELDS.get(name)
            if field is None:
                properties[name] = value
            elif value is not None:
                fields[field] = read_header(name, value)
        value = body.value if isinstance(body, JsonText) else body
        message = cls(body=value, properties=properties, **fields)
        keep_text(message, body)
        return message

    def headers(self) -> dict[str, PropertyValue]:
        """Return the JMS names and values that :meth:`from_headers` reads back, without absent ones."""
        # A property with a header's name would be read back as that header.
        properties = {name: value for name, value in self.properties.items() if name not in _PURE_HEADERS}
        for header, field in HEADER_FIELDS.items():
            value = getattr(self, field)
            if field == "uuid" or value is None or (field == "delivery_count" and value == UNDEFINED_COUNT):
                continue
            properties[header] = _write_header(header, value)
        return properties

    def to_json(self) -> bytes:
        """Encode the whole message, body included, as a JSON object."""
        body_kind, body = body_as_json(self.body)
        if (received := self.received) is not None:
            body_kind, body = _JSON_TEXT, received.decode("utf-8", "surrogatepass")
        written: dict[str, Any] = {"headers": self.headers(), "body-kind": body_kind, "body": body}
        if self.uuid != self.sent_uuid:
            written["identity"] = self.uuid
        # Not pydantic's to_json: it refuses lone surrogates, which a JSON text may contain.
        return json.dumps(written).encode("ascii")

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Decode what :meth:`to_json` wrote."""
        data = cast("dict[str, Any]", json.loads(text))
        body = data["body"]
        if data["body-kind"] == "bytes":
            body = base64.b64decode(body)
        elif data["body-kind"] == _JSON_TEXT:
            body = read_json(body)
        message = cls.from_headers(data["headers"], body)
        return message.known_by(data["identity"]) if "identity" in data else message

    def body_size(self) -> int:
        """Return the size of the body in bytes; of a JSON value that did not arrive, as compact JSON."""
        if isinstance(self.body, bytes):
            return len(self.body)
        if (received := self.received) is not None:
            return len(received)
        match self.body:
            case str():
                return len(self.body.encode("utf-8", "surrogatepass"))
            case _:
                return len(_compact(self.body))


def too_long(properties: Mapping[str, object], headers: Iterable[str | None] = ()) -> str | None:
    """Return which property or header is too long; None if none is.

    :class:`Message` calls this itself. A codec calls it if it makes messages without validation.
    """
    for text in headers:
        if text is not None and len(text) > LONGEST:
            return f"a header of {len(text)} characters ({LONGEST} at most)"
    size = 0
    for name, value in properties.items():
        if type(value) is int and has_too_many_digits(value):
            return f"a number with too many digits in {name!r}"
        size += len(name) + (len(value) if isinstance(value, str) else 0)
    if size <= MOST_IN_PROPERTIES:
        return None
    return f"properties of {size} characters together ({MOST_IN_PROPERTIES} at most)"


def _size_error(problem: str | None) -> PydanticCustomError:
    return PydanticCustomError("size", "{problem}; use the body", {"problem": problem})


def keep_text(message: Message, body: object) -> None:
    """Keep the JSON that arrived, next to the value that it means."""
    if isinstance(body, JsonText):
        # Not in a field: two messages are equal if their fields are equal.
        vars(message).update({"body": body.value, _RECEIVED: body.raw})


def copied_body(body: bytes | str | JsonValue) -> Any:
    """Return a separate copy of a body, or the body itself if it is immutable."""
    if not isinstance(body, (dict, list)):
        return body
    # Three times faster than deepcopy, and safe: it reads only what was written a moment ago.
    return pickle.loads(pickle.dumps(body, pickle.HIGHEST_PROTOCOL))  # noqa: S301


def encoded_body(body: bytes | str | JsonValue) -> bytes:
    """Return a body as bytes: text in UTF-8, a JSON value as its compact JSON in UTF-8.

    Raises:
        UnicodeEncodeError: a text holds half a character.
    """
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode("utf-8")
    try:
        return to_json(body)
    except ValueError:  # a lone surrogate, which JSON can escape and UTF-8 cannot hold
        return json.dumps(body, separators=(",", ":")).encode("ascii")


def _without_empty(
    fields: dict[str, Any], properties: Mapping[str, Any]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Leave out an empty uuid or message id, unless that leaves the message without any identity."""
    identities = fields.get("uuid"), fields.get("message_id"), properties.get("uuid")
    if all(identity in (None, "") for identity in identities):
        return fields, properties
    kept = {name: value for name, value in properties.items() if name != "uuid" or value != ""}
    optional = {"uuid", "message_id"}
    rest = {name: value for name, value in fields.items() if name not in optional or value != ""}
    return rest | ({"properties": kept} if "properties" in rest else {}), kept


def _with_text_as_id(fields: dict[str, Any]) -> dict[str, Any]:
    """Write a message id in the form of an identity, such as bytes as hexadecimal digits."""
    message_id = fields.get("message_id")
    if message_id is None or type(message_id) is str:
        return fields
    try:
        return {**fields, "message_id": canonical(message_id) or ""}
    except IdentityError:
        return fields  # the field refuses it


def _identity(sent: Any) -> str:
    try:
        # If the uuid is empty, the field refuses it, with an error that says more.
        return canonical(sent) or ""
    except IdentityError as error:
        raise PydanticCustomError("identity", "{problem}", {"problem": str(error)}) from error


def _compact(value: JsonValue) -> bytes:
    try:
        return to_json(value)
    except ValueError:  # a lone surrogate
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def body_as_json(body: bytes | str | JsonValue) -> tuple[str, JsonValue]:
    """Return the kind of a body (bytes, text or json), and a JSON value of it."""
    if isinstance(body, bytes):
        return "bytes", base64.b64encode(body).decode("ascii")
    return ("text" if isinstance(body, str) else "json"), body


def read_header(name: str, value: Any) -> Any:
    """Return the value of a JMS header as the type of its field, if its text or number has one."""
    match name:
        case "JMSXDeliveryCount" | "JMSPriority" | "JMSXGroupSeq":
            return int(value) if isinstance(value, str) and _is_integer(value) else value
        case "JMSTimestamp" | "JMSExpiration" | "JMSDeliveryTime":
            return _read_instant(name, value)
        case "JMSDeliveryMode":
            return _read_delivery_mode(value)
        case _:
            return value


def _is_integer(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _MOST_DIGITS


def _read_instant(name: str, value: Any) -> Any:
    if isinstance(value, str) and _is_integer(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if name != "JMSTimestamp" and value == 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        return value  # the field refuses it, and the error names the field


def _read_delivery_mode(value: Any) -> Any:
    return {"1": False, "2": True, "NON_PERSISTENT": False, "PERSISTENT": True}.get(str(value), value)


def _write_header(name: str, value: Any) -> PropertyValue:
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(milliseconds=1)
    if name == "JMSDeliveryMode":
        return 2 if value else 1
    return cast("PropertyValue", value)
