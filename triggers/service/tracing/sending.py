"""A span for the messages that a producer sends; the messages carry its context."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from opentelemetry.trace import SpanKind

from history.message import Message
from triggers.service.tracing.context import attributes_about, attributes_of, carrying, tracer


@contextmanager
def sending(destination: str, messages: Sequence[Message]) -> Generator[Sequence[Message]]:
    """Open a span for a sending; yield the messages to send, which carry it."""
    attributes = attributes_of("send", "send", destination, len(messages))
    if len(messages) == 1:
        attributes |= attributes_about(messages[0])
    with tracer.start_as_current_span(f"send {destination}", kind=SpanKind.PRODUCER, attributes=attributes):
        yield [carrying(message) for message in messages]
