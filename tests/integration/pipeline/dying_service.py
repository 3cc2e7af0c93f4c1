"""A trigger whose service kills its process: ``dying_service URL LEASE_SECONDS``.

It handles the message of :func:`helpers.rows.order` and never returns; a lease of 0 is none.
"""

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from tests.integration.helpers.rows import NAME, order
from triggers.declaration.decorator import trigger


def main(url: str, seconds: float) -> None:
    @trigger(
        "orders",
        name=NAME,
        history=url,
        lease=timedelta(seconds=seconds) if seconds else None,
        local_parking_file=Path(os.devnull),
    )
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    die.handle(order(delivery_count=1))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
