"""The log of the commands: one line a record on standard error, with the project's fixed keys."""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from history.support.rendering import printable, text_of

#: The fixed keys of a record, in the order in which they are shown.
KEYS = ("trigger", "uuid", "fence", "status")

#: The logger that reports once when a new trigger starts to receive from a place with others; its level is
#: INFO.
_SUBSCRIPTIONS = "triggers.providers.sqljms.destinations"


class LineFormatter(logging.Formatter):
    """One line: time, level, text, and the fixed keys as ``[key=value ...]``. A traceback follows it.

    The brackets show where a command at the end of the text ends.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the base class's name)
        """Return the line."""
        pairs = ((key, getattr(record, key, None)) for key in KEYS)
        fields = " ".join(f"{key}={value}" for key, value in pairs if value is not None)
        return printable(super().formatMessage(record) + (f" [{fields}]" if fields else ""))

    def formatException(self, ei: Any) -> str:  # noqa: N802  (as above)
        """Format a traceback, indented: text in it must not look like a line of the log."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).splitlines())


class LogFormat(StrEnum):
    """The form of records: for people, or one JSON object a line for log collectors."""

    TEXT = "text"
    JSON = "json"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (ISO 8601, UTC), level, logger, message, and other known facts.

    These are the process, the consumer in it, the fixed keys, and ``error`` with class, text and traceback of
    the exception. All of it is ASCII: a character that cannot be printed is an escape.
    """

    def __init__(self, consumer: str | None = None) -> None:
        super().__init__()
        self._consumer = consumer

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message_of(record),
            "process": record.process,
        }
        if self._consumer is not None:
            fields["consumer"] = self._consumer
        for key in KEYS:
            if (value := getattr(record, key, None)) is not None:
                fields[key] = value
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields["error"] = {
                "class": type(error).__qualname__,
                "text": text_of(error),
                "trace": self.formatException(record.exc_info),
            }
        return json.dumps(fields, default=_text)


def _message_of(record: logging.LogRecord) -> str:
    """Return the text of a record; a record with arguments that do not fit is not lost."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  (any error of an unknown argument)
        return _text(record.msg)


def _text(value: object) -> str:
    """Return a value as text; if it has no text, the name of its class."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  (as above)
        return f"<{type(value).__qualname__}>"


def log_to_stderr() -> None:
    """Set logging up for a command: warnings only, unless the user asks for more."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def log_as_consumer(name: str | None, wanted: LogFormat, *, verdicts: bool) -> str:
    """Write the records of a consumer in this form, and return its name, made here if none was given.

    With ``verdicts``, verdicts that need no action are also written, such as duplicates.
    """
    from triggers.consumer.options import default_consumer_name  # noqa: PLC0415  (--help needs none)
    from triggers.service.outcome import VERDICT_LOGGER  # noqa: PLC0415  (as above)

    consumer = name or default_consumer_name()
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, LineFormatter | JsonFormatter):
            as_json = wanted == LogFormat.JSON
            handler.setFormatter(JsonFormatter(consumer) if as_json else LineFormatter())
    logging.getLogger(_SUBSCRIPTIONS).setLevel(logging.INFO)
    if verdicts:
        logging.getLogger(VERDICT_LOGGER).setLevel(logging.INFO)
    return consumer


def log_more() -> None:
    """Also log successes."""
    logging.getLogger().setLevel(logging.INFO)
