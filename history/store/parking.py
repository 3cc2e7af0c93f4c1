"""In Doubt, rejected and unreadable messages, whole and with their evidence, kept until somebody decides."""

import base64
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)

from history.json_text import canonical_json
from history.message import UNDEFINED_COUNT, Message, body_as_json
from history.store.texts import EncodableText as EncodableText  # noqa: PLC0414  (so checkers see it exported)
from history.support.rendering import encodable as encodable  # noqa: PLC0414  (as above)

#: Beginnings of the names of properties that providers set, and change from delivery to delivery.
_PROVIDERS_OWN = (
    "JMSX",
    "JMS_",
    "x-death",
    "x-first-death-",
    "x-last-death-",
    "x-delivery-count",
    "x-acquired-count",
    "x-opt-",
)


def _read_message(value: object) -> object:
    return Message.from_json(value) if isinstance(value, str) else value


def _write_message(message: Message) -> str:
    return message.to_json().decode()


#: A label has only so many characters of a text.
LABEL_TEXT = 500

#: A message that is stored as one text inside other JSON.
MessageText = Annotated[Message, BeforeValidator(_read_message), PlainSerializer(_write_message)]


class ParkedKind(StrEnum):
    """Why a message was parked."""

    IN_DOUBT = "in doubt"
    REJECTED = "rejected"
    UNREADABLE = "unreadable"


class Evidence(BaseModel):
    """The known facts about an earlier run of a message, by which a resolver or a person can judge."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    delivery_count: int = UNDEFINED_COUNT
    owner: str | None = None
    started_at: AwareDatetime | None = None
    fence: int | None = None


class Parked(BaseModel):
    """One parked message.

    ``message`` is None in two cases. For an unreadable delivery, ``raw`` has its bytes, field by field. For
    an encrypted message without its key here, ``raw`` has the ciphertext, and ``error_message`` says so.
    ``reason`` is in the words of the decision table. ``error_trace`` is the traceback of the user code that
    failed, without our own frames at its beginning; a long one is cut in the middle. ``error_place`` is where
    in the user's code the error was raised: ``file:line in function``. ``copies`` counts how often it was
    parked: copies that a publisher sent twice, and redeliveries, share one record.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    id: str
    trigger_name: str
    kind: ParkedKind
    reason: EncodableText
    uuid: EncodableText | None = None
    destination: EncodableText | None = None
    message: MessageText | None = None
    raw: dict[str, str] | None = None
    evidence: Evidence = Evidence()
    error_class: EncodableText | None = None
    error_message: EncodableText | None = None
    error_trace: EncodableText | None = None
    error_place: EncodableText | None = None
    parked_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    copies: int = 1


class ParkedLabel(BaseModel):
    """The facts about a parked message without the message: a search reads thousands of labels quickly.

    ``reason`` and ``error_message`` are cut after :data:`LABEL_TEXT` characters.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    id: str
    trigger_name: str
    kind: ParkedKind
    reason: str
    uuid: str | None = None
    destination: str | None = None
    evidence: Evidence = Evidence()
    error_class: str | None = None
    error_message: str | None = None
    error_place: str | None = None
    parked_at: AwareDatetime
    copies: int = 1

    @classmethod
    def of(cls, parked: Parked) -> Self:
        """Return the label of a message."""
        facts = {name: getattr(parked, name) for name in cls.model_fields}
        message = parked.error_message
        facts["reason"] = parked.reason[:LABEL_TEXT]
        facts["error_message"] = None if message is None else message[:LABEL_TEXT]
        return cls(**facts)


def each_once(labels: Iterable[ParkedLabel]) -> Sequence[ParkedLabel]:
    """Return each label once; if a walk found it twice, the later one."""
    return list({(label.trigger_name, label.id): label for label in labels}.values())


def oldest_first(labels: Iterable[ParkedLabel]) -> Sequence[ParkedLabel]:
    """Return each label once, in the order in which the messages were parked."""
    return sorted(each_once(labels), key=lambda label: (label.parked_at, label.id))


class LabelPage(NamedTuple):
    """Some labels, in no particular order. ``cursor`` continues the walk and is None at its end."""

    labels: Sequence[ParkedLabel]
    cursor: str | None


def parked_id(trigger: str, message: Message, *, delivery: str = "") -> str:
    """Return the id under which a message is parked: the same for each copy of the same message.

    Messages that differ in uuid, body or properties get different ids, so that no message replaces a
    different message with the same uuid. The facts that a provider adds to a delivery do not count: headers,
    and properties with names like those of providers. The JMSMessageID does not count beside a uuid,
    because a publisher that sends a document twice gives each its own. ``delivery`` separates equal messages.
    """
    form, body = body_as_json(message.body)
    if form == "json":
        body = canonical_json(message.body if (received := message.received) is None else received).decode()
    own = {name: value for name, value in message.properties.items() if not name.startswith(_PROVIDERS_OWN)}
    identifying = [trigger, message.uuid, delivery, form, body, own]
    # ASCII, because a JSON text may hold lone surrogates; sorted, because JSON objects have no order.
    return blake2b(json.dumps(identifying, sort_keys=True).encode("ascii"), digest_size=12).hexdigest()


def raw_fields(fields: dict[bytes, bytes]) -> dict[str, str]:
    """Make undecodable fields printable without losing a byte: as UTF-8 if it is valid, else as base64."""
    return {_printable(name): _printable(value) for name, value in fields.items()}


def _printable(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode("ascii")


def read_parked(document: str | bytes, *, trigger: str, parked_id: str, copies: int = 1) -> Parked:
    """Read the record that a store has for an id; if that fails, return an unreadable message that says so.

    So if a disk, a tool or a newer version has spoilt one record, it does not hide the others, and it is not
    lost: it is listed with them, ``raw`` has its text, and it can be discarded.
    """
    try:
        parked = Parked.model_validate_json(document)
        if (parked.trigger_name, parked.id) == (trigger, parked_id):
            return parked.model_copy(update={"copies": copies})
        problem = f"it is of the trigger {parked.trigger_name} and the id {parked.id}"
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = ": ".join([*map(str, first["loc"]), first["msg"]])
    whole = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
    return Parked(
        id=parked_id,
        trigger_name=trigger,
        kind=ParkedKind.UNREADABLE,
        reason=f"its record in the parking lot cannot be read: {problem}",
        raw=raw_fields({b"record": whole}),
        parked_at=datetime.fromtimestamp(0, UTC),
        copies=copies,
    )
