"""Retrieval failure events as log records."""

import logging

from triggers.events import RetrievalFailureEvent

_log = logging.getLogger("triggers.retrieval_failures")


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
    known = [text for text in (event.exception_class, event.exception_message) if text is not None]
    return f" ({': '.join(known)})" if known else ""
