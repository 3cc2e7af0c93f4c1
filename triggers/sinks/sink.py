"""The protocol of a sink, and code that the sinks share."""

import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol

from history.bridge import drive
from history.circuit import CircuitOpenError
from history.errors import HistoryUnavailableError, UnavailableError
from history.support.loops import has_loop
from history.support.rendering import reason_of
from triggers.events import RetrievalFailureEvent

_log = logging.getLogger("triggers.retrieval_failures")


class Sink(Protocol):
    """A place for retrieval failure events. It is a handler, and safe between threads.

    The pipeline logs its exceptions, and they change nothing for the message, which is parked anyway.
    """

    def __call__(self, event: RetrievalFailureEvent) -> Awaitable[None] | None:
        """Put one event there; when this returns (or was awaited), it is there.

        Raises:
            SinkUnavailableError: the place does not answer.
            ConfigurationError: it will not take the event.
        """
        ...

    def close(self) -> None:
        """Close what the sink opened itself; a second time is harmless."""
        ...


class SinkUnavailableError(UnavailableError):
    """A sink's server did not answer; it is unknown whether it has the event."""


def unavailable(what: str, error: HistoryUnavailableError) -> SinkUnavailableError:
    """Return the error of a sink that uses a history's connection; raise it ``from None``.

    A driver's error may show the values of its statement, and so the body of the message.
    """
    return SinkUnavailableError(what, f"{error.doing} ({_reason(error)})")


def _reason(error: HistoryUnavailableError) -> str:
    if isinstance(error, CircuitOpenError):
        return f"it has not answered since {error.since:%H:%M:%S} UTC"
    return reason_of(error.__cause__)


def settle_here(work: Coroutine[Any, Any, None]) -> Awaitable[None] | None:
    """Run work over a blocking driver to its end; if an event loop runs, return it to be awaited."""
    return work if has_loop() else drive(work)


class LogSink:
    """Logs each event at level ERROR to ``triggers.retrieval_failures``. The body is never logged."""

    def __call__(self, event: RetrievalFailureEvent) -> None:
        """Log one event."""
        _log.error(
            "%s gave up message %s: %s%s",
            event.trigger_name,
            event.uuid,
            event.cause,
            _error_of(event),
            extra={"trigger": event.trigger_name, "uuid": event.uuid, "status": "given up"},
        )

    def close(self) -> None:
        """Do nothing: the log does not belong to the sink."""


def _error_of(event: RetrievalFailureEvent) -> str:
    """Return the error in brackets; an empty text if there was none, or an earlier delivery had it."""
    parts = [text for text in (event.exception_class, event.exception_message) if text is not None]
    return f" ({': '.join(parts)})" if parts else ""
