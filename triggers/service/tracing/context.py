"""Spans for sending, the context of a span inside a message, and the one import of OpenTelemetry."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from history.errors import MissingExtraError
from history.message import Message

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
except ImportError as error:
    raise MissingExtraError("tracing=", extra="otel", package="opentelemetry-api") from error

#: The attribute ``messaging.system``: the conventions have names only for some of our providers.
SYSTEM = "doubtless"

tracer = trace.get_tracer("doubtless")


def linked(message: Message) -> trace.Link | None:
    """Return a link to the span in which a message was sent; None if the message names no span."""
    carried = {name: value for name, value in message.properties.items() if isinstance(value, str)}
    # From an empty context: a propagator that finds nothing would otherwise return the current span.
    found = trace.get_current_span(propagate.extract(carried, Context())).get_span_context()
    return trace.Link(found) if found.is_valid else None


def carrying(message: Message) -> Message:
    """Return a message that carries the current span."""
    carried: dict[str, str] = {}
    propagate.inject(carried)
    if not carried:
        return message
    return message.model_copy(update={"properties": {**message.properties, **carried}})


def attributes_of(operation: str, kind: str, destination: str, count: int) -> dict[str, Any]:
    """Return the attributes of each span by the conventions; with a count if there are several messages."""
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
    """Return the attributes of a span of one message by the conventions."""
    named = {
        "messaging.message.id": message.uuid,
        "messaging.message.conversation_id": message.correlation_id,
    }
    return {name: value for name, value in named.items() if value is not None}


@contextmanager
def sending(destination: str, messages: Sequence[Message]) -> Generator[Sequence[Message]]:
    """Open a span for a sending; yield the messages to send, which carry it."""
    attributes = attributes_of("send", "send", destination, len(messages))
    if len(messages) == 1:
        attributes |= attributes_about(messages[0])
    with tracer.start_as_current_span(
        f"send {destination}", kind=trace.SpanKind.PRODUCER, attributes=attributes
    ):
        yield [carrying(message) for message in messages]
