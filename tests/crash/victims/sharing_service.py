"""A process that books orders, and writes down which partitions Kafka gives it and takes from it."""

import logging
import os
import sys
from datetime import timedelta
from pathlib import Path

from tests.crash.victims.booking_service import main
from tests.fixtures.ledger import Ledger

#: The logger that reports which partitions come and go.
SPEAKER = "triggers.providers.kafka.connection"


def shares_of(folder: Path) -> Ledger:
    """Return the file with the log lines of each process: its id and the text."""
    return Ledger(folder / "shares")


class Noting(logging.Handler):
    """Write each log line down immediately: the process may be killed in the next moment."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        self._ledger.note(str(os.getpid()), record.getMessage())


if __name__ == "__main__":
    speaker = logging.getLogger(SPEAKER)
    speaker.setLevel(logging.INFO)
    speaker.addHandler(Noting(shares_of(Path(sys.argv[1]))))
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], timedelta(seconds=float(sys.argv[4])))
