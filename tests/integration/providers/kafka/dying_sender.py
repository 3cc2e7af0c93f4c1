"""A process that is killed before it commits what it sent: ``dying_sender URL TOPIC BODY...``."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from history.bridge import drive
from triggers import Message, open_provider
from triggers.providers.kafka.transactions import TransactionalPublisher


def main(url: str, topic: str, bodies: Sequence[str]) -> None:
    """Send, and die when the broker has all messages. End with 1 if this process survives."""
    committing: Any = TransactionalPublisher
    committing._commit = _die  # noqa: SLF001  (the moment in between)
    drive(open_provider(url).send(topic, [Message(body=body) for body in bodies]))
    sys.exit(1)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
