"""A span for what a producer sends; the messages carry its context."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from opentelemetry.trace import SpanKind

from history.message import Message
from triggers.service.tracing.context import attributes_about, attributes_of, carrying, tracer


@contextmanager
def sending(destination: str, messages: Sequence[Message]) -> Generator[Sequence[Message]]:
    """Span a sending; give the messages that are to be sent in place of these."""
    attributes = attributes_of("send", "send", destination, len(messages))
    if len(messages) == 1:
        attributes |= attributes_about(messages[0])
    with tracer.start_as_current_span(f"send {destination}", kind=SpanKind.PRODUCER, attributes=attributes):
        yield [carrying(message) for message in messages]
