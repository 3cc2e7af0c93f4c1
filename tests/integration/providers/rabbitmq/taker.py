"""A consumer that takes one message and is killed with it: ``taker URL DEST``."""

import os
import signal
import sys
from datetime import timedelta

from history.bridge import drive
from triggers.providers.opening import open_provider


def main(url: str, destination: str) -> None:
    """Take one message, and die without an answer; end with 1 if there is none."""
    receiver = drive(open_provider(url).open_receiver(destination, subscription="s", name="victim"))
    if drive(receiver.receive(1, timedelta(seconds=10))):
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
