"""What a dead letter says: the message as it was, why it is dead, and for which trigger it was.

=====================  =============================================================================
doubtless              ``dead-letter-reason``, ``doubtless_...``; from JMS ``dead_letter_...``
RabbitMQ               ``x-first-death-...``, ``x-last-death-...`` of a dead-letter exchange
Spring for Kafka       ``kafka_dlt-...``; Kafka Connect ``__connect.errors...``
ActiveMQ Classic       ``dlqDeliveryFailureCause``, ``originalExpiration``, ``dlqOriginalDestination``
Artemis                ``_AMQ_ORIG_...``
=====================  =============================================================================

The message loses these properties, so that it is equal to the message that was sent. Its identity stays. A
record of Kafka without an identity of its own gets back that of its first place, if the letter names it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from history.message import Message, PropertyValue
from triggers.providers.kafka.codec import name_of_record

#: The properties that hold the reason; the first one that is there counts.
_REASONS = (
    "doubtless_exception_message",
    "dead-letter-reason",
    "dead_letter_reason",
    "kafka_dlt-exception-message",
    "__connect.errors.exception.message",
    "dlqDeliveryFailureCause",
    "x-last-death-reason",
    "x-first-death-reason",
)

#: The properties that hold the class of the error, its traceback, and the trigger.
_CLASSES = (
    "doubtless_exception_class",
    "kafka_dlt-exception-fqcn",
    "__connect.errors.exception.class.name",
)
_TRACES = ("kafka_dlt-exception-stacktrace", "__connect.errors.exception.stacktrace")
_TRIGGERS = ("doubtless_trigger", "dead_letter_subscription")

#: The properties that hold the destination.
_PLACES = (
    "doubtless_destination",
    "kafka_dlt-original-topic",
    "__connect.errors.topic",
    "_AMQ_ORIG_ADDRESS",
    "dlqOriginalDestination",
    "x-first-death-exchange",
)

#: The queue of RabbitMQ that the letter was in first.
_QUEUE = "x-first-death-queue"

#: How the names of the properties begin that a letter has beside those of its message.
_OF_LETTERS = (
    *("dead-letter-reason", "dead_letter_", "doubtless_event", "doubtless_trigger", "doubtless_destination"),
    *("doubtless_delivery_count", "doubtless_time", "doubtless_cause", "doubtless_exception_"),
    *("doubtless_expiration", "x-first-death-", "x-last-death-", "kafka_dlt-", "__connect.errors."),
    *("dlqDeliveryFailureCause", "dlqOriginalDestination", "originalExpiration", "_AMQ_ORIG_"),
)


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: its message, and what it says; None for what it does not say.

    ``places`` are the destinations that it may come from.
    """

    message: Message
    reason: str | None
    error_class: str | None
    trace: str | None
    trigger: str | None
    places: Sequence[str]


def read_letter(message: Message) -> Letter:
    """Read a dead letter."""
    said = message.properties
    destination, queue = _first(said, _PLACES), _first(said, (_QUEUE,))
    trigger = _first(said, _TRIGGERS)
    if trigger is None and destination and queue is not None and queue.startswith(f"{destination}:"):
        trigger = queue.removeprefix(f"{destination}:")  # the queue of a subscription
    places = [destination] if destination else []
    if queue is not None:
        places.append(f"queue:{queue}")
    return Letter(
        _as_it_was(message),
        _first(said, _REASONS),
        _first(said, _CLASSES),
        _first(said, _TRACES),
        trigger,
        places,
    )


def _first(said: Mapping[str, PropertyValue], names: Sequence[str]) -> str | None:
    return next((str(said[name]) for name in names if said.get(name) is not None), None)


def _as_it_was(message: Message) -> Message:
    own = {name: value for name, value in message.properties.items() if not name.startswith(_OF_LETTERS)}
    update: dict[str, object] = {}
    if len(own) < len(message.properties):
        update["properties"] = own
    is_unnamed = "uuid" not in own and message.uuid == message.message_id
    if is_unnamed and (name := _name_in_kafka(message)) is not None:
        update |= {"uuid": name, "message_id": name}
    return message.model_copy(update=update) if update else message


def _name_in_kafka(message: Message) -> str | None:
    """Return the identity of the record that a letter copies; None if it had its own, or it is not known."""
    if not (message.message_id or "").startswith(f"ID:{message.destination}:"):
        return None
    said, sent = message.properties, message.timestamp
    timestamp = None if sent is None else round(sent.timestamp() * 1000)
    for names, read in ((_SPRING, _binary), (_CONNECT, _decimal)):
        topic, partition, offset = (said.get(word) for word in names)
        position = read(partition, 4), read(offset, 8)
        if topic is not None and position[0] is not None and position[1] is not None:
            first = _binary(said.get("kafka_dlt-original-timestamp"), 8)
            return name_of_record(str(topic), position[0], position[1], timestamp if first is None else first)
    return None


_SPRING = ("kafka_dlt-original-topic", "kafka_dlt-original-partition", "kafka_dlt-original-offset")
_CONNECT = ("__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset")


def _binary(value: PropertyValue, size: int) -> int | None:
    """Return a whole number of so many bytes, which our codec shows as text, or in hex."""
    if not isinstance(value, str):
        return None
    encoded = value.encode("utf-8", "surrogatepass")
    if len(encoded) != size:
        try:
            encoded = bytes.fromhex(value)
        except ValueError:
            return None
    return int.from_bytes(encoded, signed=True) if len(encoded) == size else None


def _decimal(value: PropertyValue, size: int) -> int | None:  # noqa: ARG001  (as the other)
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() else None
