"""Spans for what a trigger does with messages, and for their answers to the provider.

The span of a message, or of several that are handled together, is current while their service runs, so that
what the service traces is below it. It has a link to the span in which each message was sent, and says at its
end what became of them.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span

from history.message import Message
from history.support.redaction import Redaction
from history.support.rendering import class_of, text_of, trace_of
from triggers.service.outcome import Outcome
from triggers.service.tracing.context import attributes_about, attributes_of, linked, tracer


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of one trigger; ``redact`` takes values out of what they say of errors."""

    trigger: str
    destination: str
    redact: Redaction | None = None

    @contextmanager
    def processing(self, messages: Sequence[Message]) -> Generator[None]:
        """Span the handling of messages."""
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
        """Say in the current span what became of the messages."""
        span = get_current_span()
        if not span.is_recording():
            return
        if len(outcomes) == 1:
            span.set_attributes(_about(outcomes[0], fences[0]))
        else:
            for kind, count in Counter(outcome.kind for outcome in outcomes).items():
                span.set_attribute(f"doubtless.outcomes.{kind.replace(' ', '_')}", count)
        for error in [outcome.error for outcome in outcomes if outcome.error is not None]:
            self._fail(span, error)

    def _fail(self, span: Span, error: BaseException) -> None:
        _record(span, error, self.redact)
        span.set_attribute("error.type", class_of(error).removeprefix("builtins."))
        span.set_status(Status(StatusCode.ERROR, text_of(error, self.redact)))

    def answering(self, receiver: "Answers") -> "Answering":
        """Return a receiver whose answers have spans of their own."""
        return Answering(receiver, self)


def _record(span: Span, error: BaseException, redact: Redaction | None) -> None:
    """Add an exception to a span; where it does not let itself be told, what is known of it all the same."""
    known = {"exception.type": class_of(error), "exception.message": text_of(error, redact)}
    if redact is not None:  # OpenTelemetry would tell all of it
        span.add_event("exception", {**known, "exception.stacktrace": trace_of(error, redact=redact) or ""})
        return
    try:
        span.record_exception(error)
    except Exception:  # noqa: BLE001  (an exception is user code, too; the message must still be answered)
        span.add_event("exception", known)


def _about(outcome: Outcome, fence: int | None) -> dict[str, Any]:
    """Return what one message's span says at its end."""
    found: dict[str, Any] = {
        "doubtless.status": outcome.kind if outcome.status is None else outcome.status.name,
        "doubtless.row": outcome.row,
        "doubtless.fence": fence,
        "doubtless.executed": outcome.executed,
        "doubtless.attempts": outcome.attempts,
        "doubtless.parked": outcome.parked,
        "doubtless.rejected": outcome.rejected,
    }
    return {name: value for name, value in found.items() if value is not None}


class Answers(Protocol):
    """What a receiver does with deliveries in the end."""

    async def acknowledge(self, received: Sequence[Any]) -> None:
        """Say that these are done."""
        ...

    async def recover(self, received: Sequence[Any], delay: timedelta) -> None:
        """Give these back, not to come again before the delay is over."""
        ...


@dataclass(frozen=True, slots=True)
class Answering:
    """A receiver as far as the pipeline answers it, with a span for each answer."""

    receiver: Answers
    spans: Spans

    async def acknowledge(self, received: Sequence[Any]) -> None:
        """Acknowledge these."""
        with self._span("ack", len(received)):
            await self.receiver.acknowledge(received)

    async def recover(self, received: Sequence[Any], delay: timedelta) -> None:
        """Give these back."""
        with self._span("recover", len(received)):
            await self.receiver.recover(received, delay)

    def _span(self, operation: str, count: int) -> Any:
        destination = self.spans.destination
        attributes = attributes_of(operation, "settle", destination, count)
        attributes["doubtless.trigger"] = self.spans.trigger
        return tracer.start_as_current_span(
            f"{operation} {destination}", kind=SpanKind.CLIENT, attributes=attributes
        )
