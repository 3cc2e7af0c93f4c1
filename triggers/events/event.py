"""The retrieval failure event: that a message was given up, why, and the message itself.

Source: the webMethods event jmsReceiveErrorEvent and its causes; CloudEvents 1.0 for the form on the wire.
"""

import json
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, ClassVar, Self
from urllib.parse import quote

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from history.message import HEADER_FIELDS, Message
from history.store.parking import EncodableText, MessageText
from triggers.detection.causes import Cause

#: The CloudEvents type of a retrieval failure event.
EVENT_TYPE = "doubtless.retrieval_failure.v1"


#: The real JMS headers; counts of the provider (JMSX...) are properties in JMS, and so is the uuid.
_HEADERS = frozenset(name for name in HEADER_FIELDS if name != "uuid" and not name.startswith("JMSX"))


class RetrievalFailureEvent(BaseModel):
    """A message was given up: it is parked whole, and is acknowledged or will be in a moment.

    ``time`` is in UTC. ``message`` is None only if the delivery was unreadable. ``destination_index`` is the
    position of the destination in the trigger's list, from 0.
    """

    __module__ = "triggers"

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    trigger_name: str
    destination: str
    destination_index: int = 0
    delivery_count: int
    time: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    exception_class: EncodableText | None = None
    exception_message: EncodableText | None = None
    cause: Cause
    message: MessageText | None = None

    @field_validator("time")
    @classmethod
    def _in_utc(cls, time: datetime) -> datetime:
        # Python allows offsets with seconds, which JSON would cut off.
        return time.astimezone(UTC)

    @classmethod
    def of_unreadable(cls, trigger: str, destination: str, problem: str, *, index: int = 0) -> Self:
        """Return the event that reports a delivery that is not a message."""
        return cls(
            trigger_name=trigger,
            destination=destination,
            destination_index=index,
            delivery_count=-1,
            exception_message=problem,
            cause=Cause.UNREADABLE,
        )

    @property
    def uuid(self) -> str | None:
        """The identity of the message, if it has one."""
        return None if self.message is None else self.message.uuid

    @property
    def id(self) -> str:
        """The same for the same event each time, so that a handler can recognise a repeated event.

        A message that is given up twice, because a worker died in between, raises two events.
        """
        return blake2b(self.model_dump_json().encode(), digest_size=16).hexdigest()

    def copied(self) -> Self:
        """Return this event with its own copy of the message: itself, if nobody could change the message."""
        message = None if self.message is None else self.message.copied()
        return self if message is self.message else self.model_copy(update={"message": message})

    def to_cloudevent(self) -> dict[str, Any]:
        """Return the event as a CloudEvents 1.0 object, ready for JSON."""
        return {
            "specversion": "1.0",
            "id": self.id,
            "source": f"/doubtless/triggers/{quote(self.trigger_name, safe='')}",
            "type": EVENT_TYPE,
            "time": self.time.isoformat(),
            "datacontenttype": "application/json",
            "data": self.model_dump(mode="json"),
        }

    def to_cloudevent_json(self) -> str:
        """Return the event as a CloudEvents 1.0 JSON document, in ASCII."""
        return json.dumps(self.to_cloudevent())

    def to_jms_receive_error(self) -> dict[str, Any]:
        """Return the seven fields of webMethods' ``pub.event:jmsReceiveErrorEvent``, under its names.

        ``time`` is ``yyyy/MM/dd HH:mm:ss.SS``, in UTC; the last number is milliseconds, with two digits or
        three. ``data`` holds ``JMSMessage`` with ``header``, ``properties`` and ``body``; a body is under
        ``bytes``, ``string`` or, a JSON value, ``data``. For an unreadable delivery it is empty.
        """
        return {
            "triggerName": self.trigger_name,
            "triggerDestinationIndex": self.destination_index,
            "deliveryCount": self.delivery_count,
            "time": _reference_time(self.time),
            "exceptionClass": self.exception_class,
            "exceptionMessage": self.exception_message,
            "data": {} if self.message is None else {"JMSMessage": _jms_message(self.message)},
        }


def _reference_time(time: datetime) -> str:
    return f"{time:%Y/%m/%d %H:%M:%S}.{time.microsecond // 1000:02d}"


def _jms_message(message: Message) -> dict[str, Any]:
    named = message.headers()
    headers = {name: value for name, value in named.items() if name in _HEADERS}
    body = message.encoded().decode("utf-8") if message.loses_digits else message.body
    body_kind = "bytes" if isinstance(body, bytes) else "string" if isinstance(body, str) else "data"
    return {
        "header": headers,
        "properties": {name: value for name, value in named.items() if name not in headers},
        "body": {body_kind: body},
    }
