"""The context of a span on its way in a message, and the one import of OpenTelemetry."""

from collections.abc import Mapping
from typing import Any

from history.errors import MissingExtraError
from history.message import Message

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
except ImportError as error:
    raise MissingExtraError("tracing=", extra="otel", package="opentelemetry-api") from error

#: What the attribute ``messaging.system`` says: the conventions know a name for a part of our providers only.
SYSTEM = "doubtless"

tracer = trace.get_tracer("doubtless")


def linked(message: Message) -> trace.Link | None:
    """Return a link to the span in which a message was sent; None where it says nothing of one."""
    carried = {name: value for name, value in message.properties.items() if isinstance(value, str)}
    # From nothing: a propagator that finds nothing would leave the span that is current here.
    found = trace.get_current_span(propagate.extract(carried, Context())).get_span_context()
    return trace.Link(found) if found.is_valid else None


def carrying(message: Message) -> Message:
    """Return a message that tells of the span which is current."""
    carried: dict[str, str] = {}
    propagate.inject(carried)
    if not carried:
        return message
    return message.model_copy(update={"properties": {**message.properties, **carried}})


def attributes_of(operation: str, kind: str, destination: str, count: int) -> dict[str, Any]:
    """Return what the conventions want of each span; a count of messages where there are several."""
    found: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": destination,
    }
    if count != 1:
        found["messaging.batch.message_count"] = count
    return found


def attributes_about(message: Message) -> Mapping[str, Any]:
    """Return what the conventions want of a span of one message."""
    named = {
        "messaging.message.id": message.uuid,
        "messaging.message.conversation_id": message.correlation_id,
    }
    return {name: value for name, value in named.items() if value is not None}
