"""In Doubt, rejected and unreadable messages, whole and with their evidence, kept until somebody decides."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, ClassVar, Protocol

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)

from history.message import UNDEFINED_COUNT, Message, body_as_json
from history.support.rendering import encodable as encodable  # noqa: PLC0414  (so checkers see it exported)

#: How the names of properties begin that providers set, and change from delivery to delivery.
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


#: Text of anybody's, made encodable.
EncodableText = Annotated[str, AfterValidator(encodable)]

#: A message that is one text in the JSON of what holds it.
MessageText = Annotated[Message, BeforeValidator(_read_message), PlainSerializer(_write_message)]


class ParkedKind(StrEnum):
    """Why a message was kept aside."""

    IN_DOUBT = "in doubt"
    REJECTED = "rejected"
    UNREADABLE = "unreadable"


class Evidence(BaseModel):
    """What is known about an earlier run of a message, for a resolver or a person to judge by."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    delivery_count: int = UNDEFINED_COUNT
    owner: str | None = None
    started_at: AwareDatetime | None = None
    fence: int | None = None


class Parked(BaseModel):
    """One message kept aside.

    ``message`` is None only for an unreadable delivery, whose bytes stand in ``raw``, field by field.
    ``reason`` is in the words of the decision table. ``error_trace`` is the traceback of the user code that
    failed, without our own frames at its beginning, and cut in the middle where it is long.
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
    parked_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))


def parked_id(trigger: str, message: Message, *, delivery: str = "") -> str:
    """Return the id under which a message is parked: the same for each redelivery of the same message.

    Whoever differs in identity, body or properties has a place of its own, so that nobody's message takes the
    place of another one that came under its uuid. What a provider says of a delivery does not count: headers,
    and properties that begin as those of providers do. ``delivery`` tells messages apart that are equal.
    """
    kind, body = body_as_json(message.body)
    own = {name: value for name, value in message.properties.items() if not name.startswith(_PROVIDERS_OWN)}
    identifying = [trigger, message.uuid, message.message_id, delivery, kind, body, own]
    # ASCII, because a JSON text may hold lone surrogates; sorted, because JSON objects have no order.
    return blake2b(json.dumps(identifying, sort_keys=True).encode("ascii"), digest_size=12).hexdigest()


def raw_fields(fields: dict[bytes, bytes]) -> dict[str, str]:
    """Make undecodable fields printable without losing a byte: UTF-8 where it is, else base64."""
    return {_printable(name): _printable(value) for name, value in fields.items()}


def _printable(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode("ascii")


class Parking(Protocol):
    """Keeps parked messages. Parking the same id again replaces the copy, so a repeat is harmless."""

    async def park(self, parked: Sequence[Parked]) -> None:
        """Keep messages; when this returns they are stored as safely as the store stores anything."""
        ...

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return one parked message; a unique beginning of its id is enough."""
        ...

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages, oldest first, of one trigger or of all."""
        ...

    async def remove(self, parked: Parked) -> bool:
        """Take a message out, once it is decided; False when it was gone already."""
        ...

    async def count(self, *, trigger: str | None = None) -> int:
        """Count what is parked."""
        ...
