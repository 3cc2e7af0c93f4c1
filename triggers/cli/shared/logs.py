"""What the commands log: one line a record on standard error, with the project's fixed keys."""

import logging
import sys
from typing import Any

from triggers.cli.shared.output import printable

#: What a record may know besides its text, in the order in which it is shown.
KEYS = ("trigger", "uuid", "fence", "status")


class LineFormatter(logging.Formatter):
    """One line: time, level, text, and the fixed keys as ``key=value``. A traceback follows it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the base class's name)
        """Return the line."""
        known = ((key, getattr(record, key, None)) for key in KEYS)
        fields = [f"{key}={value}" for key, value in known if value is not None]
        return printable(" ".join([super().formatMessage(record), *fields]))

    def formatException(self, ei: Any) -> str:  # noqa: N802  (as above)
        """Format a traceback; what it quotes may not act on the terminal."""
        return "\n".join(map(printable, super().formatException(ei).splitlines()))


def log_to_stderr() -> None:
    """Set logging up as a command wants it: warnings, until somebody asks for more."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def log_more() -> None:
    """Log what goes well, too."""
    logging.getLogger().setLevel(logging.INFO)
