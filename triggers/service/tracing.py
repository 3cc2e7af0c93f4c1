"""OpenTelemetry spans: ``tracing=True`` of a trigger or a producer. Only then is the library imported.

There are spans for the messages that a trigger handles, for their answers to the provider, and for the
messages of a producer. The properties ``traceparent`` and ``tracestate`` connect them. Names follow
OpenTelemetry's conventions for messaging (semantic conventions 1.3x, "development"), and our own names begin
with ``doubtless.``.

The span of a message, or of several messages that are handled together, is current while their service runs.
So the service's own spans are its children. It has a link to the span in which each message was sent, and at
its end it gets the results of the messages.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from history.errors import MissingExtraError
from history.message import Message
from history.support.redaction import Redaction
from history.support.rendering import class_of, text_of, trace_of
from triggers.service.outcome import Outcome

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span
except ImportError as error:
    raise MissingExtraError("tracing=", extra="otel", package="opentelemetry-api") from error

#: The attribute ``messaging.system``: the conventions have names only for some of our providers.
SYSTEM = "doubtless"

tracer = trace.get_tracer("doubtless")


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of one trigger; ``redact`` removes values from the texts of errors."""

    trigger: str
    destination: str
    redact: Redaction | None = None

    @contextmanager
    def processing(self, messages: Sequence[Message]) -> Generator[None]:
        """Open a span while messages are handled."""
        attributes = attributes_of("process", "process", self.destination, len(messages))
        attributes["doubtless.trigger"] = self.trigger
        if len(messages) == 1:
            attributes |= attributes_about(messages[0])
            attributes["messaging.message.delivery_count"] = messages[0].delivery_count
        links = [link for message in messages if (link := linked(message)) is not None]
        shows = self.redact is None
        with tracer.start_as_current_span(
            f"process {self.destination}",
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
            record_exception=shows,
            set_status_on_exception=shows,
        ) as span:
            try:
                yield
            except Exception as error:
                if not shows:
                    self._fail(span, error)
                raise

    def tell(self, outcomes: Sequence[Outcome], fences: Sequence[int | None]) -> None:
        """Add the results of the messages to the current span."""
        span = get_current_span()
        if not span.is_recording():
            return
        if len(outcomes) == 1:
            span.set_attributes(_about(outcomes[0], fences[0]))
        else:
            for outcome_kind, count in Counter(outcome.kind for outcome in outcomes).items():
                span.set_attribute(f"doubtless.outcomes.{outcome_kind.replace(' ', '_')}", count)
        for error in [outcome.error for outcome in outcomes if outcome.error is not None]:
            self._fail(span, error)

    def _fail(self, span: Span, error: BaseException) -> None:
        _record(span, error, self.redact)
        span.set_attribute("error.type", class_of(error).removeprefix("builtins."))
        span.set_status(Status(StatusCode.ERROR, text_of(error, self.redact)))

    def answering(self, receiver: "Answers") -> "TracedAnswering":
        """Return a receiver that opens a span for each answer."""
        return TracedAnswering(receiver, self)


def _record(span: Span, error: BaseException, redact: Redaction | None) -> None:
    """Add an exception to a span; if the exception cannot be rendered, add what is known of it."""
    attributes = {"exception.type": class_of(error), "exception.message": text_of(error, redact)}
    if redact is not None:  # OpenTelemetry would record all of it
        span.add_event(
            "exception", {**attributes, "exception.stacktrace": trace_of(error, redact=redact) or ""}
        )
        return
    try:
        span.record_exception(error)
    except Exception:  # noqa: BLE001  (an exception is also user code; the message must still be answered)
        span.add_event("exception", attributes)


def _about(outcome: Outcome, fence: int | None) -> dict[str, Any]:
    """Return the attributes for the end of one message's span."""
    attributes: dict[str, Any] = {
        "doubtless.status": outcome.kind if outcome.status is None else outcome.status.name,
        "doubtless.row": outcome.row,
        "doubtless.fence": fence,
        "doubtless.executed": outcome.executed,
        "doubtless.attempts": outcome.attempts,
        "doubtless.parked": outcome.parked,
        "doubtless.rejected": outcome.rejected,
    }
    return {name: value for name, value in attributes.items() if value is not None}


class Answers(Protocol):
    """The answers of a receiver to its provider."""

    async def acknowledge(self, received: Sequence[Any]) -> None:
        """Acknowledge these."""
        ...

    async def recover(self, received: Sequence[Any], delay: timedelta) -> None:
        """Recover these; they must not come again before the delay is over."""
        ...


@dataclass(frozen=True, slots=True)
class TracedAnswering:
    """The part of a receiver that answers, with a span for each answer."""

    receiver: Answers
    spans: Spans

    async def acknowledge(self, received: Sequence[Any]) -> None:
        """Acknowledge these."""
        with self._span("ack", len(received)):
            await self.receiver.acknowledge(received)

    async def recover(self, received: Sequence[Any], delay: timedelta) -> None:
        """Recover these."""
        with self._span("recover", len(received)):
            await self.receiver.recover(received, delay)

    def _span(self, operation: str, count: int) -> Any:
        destination = self.spans.destination
        attributes = attributes_of(operation, "settle", destination, count)
        attributes["doubtless.trigger"] = self.spans.trigger
        return tracer.start_as_current_span(
            f"{operation} {destination}", kind=SpanKind.CLIENT, attributes=attributes
        )


def linked(message: Message) -> trace.Link | None:
    """Return a link to the span in which a message was sent; None if the message names no span."""
    carried = {name: value for name, value in message.properties.items() if isinstance(value, str)}
    # From an empty context: a propagator that finds nothing would otherwise return the current span.
    span = get_current_span(propagate.extract(carried, Context())).get_span_context()
    return trace.Link(span) if span.is_valid else None


def carrying(message: Message) -> Message:
    """Return a message that carries the current span."""
    carried: dict[str, str] = {}
    propagate.inject(carried)
    if not carried:
        return message
    return message.model_copy(update={"properties": {**message.properties, **carried}})


def attributes_of(operation: str, operation_type: str, destination: str, count: int) -> dict[str, Any]:
    """Return the attributes of each span by the conventions; with a count if there are several messages."""
    attributes: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation_type,
        "messaging.destination.name": destination,
    }
    if count != 1:
        attributes["messaging.batch.message_count"] = count
    return attributes


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
    with tracer.start_as_current_span(f"send {destination}", kind=SpanKind.PRODUCER, attributes=attributes):
        yield [carrying(message) for message in messages]
