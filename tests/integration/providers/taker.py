"""A consumer that takes messages and is killed with them: ``taker URL DEST [COUNT]``."""

import os
import signal
import sys

from history.bridge import drive
from triggers.providers.contract.common import take
from triggers.providers.opening import open_provider


def main(url: str, destination: str, count: str = "1") -> None:
    """Take so many messages, and die without an acknowledgement."""
    receiver = drive(open_provider(url).open_receiver(destination, subscription="s", name="victim"))
    drive(take(receiver, int(count)))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
