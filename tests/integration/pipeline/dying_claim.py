"""Stores the fingerprint of a body, and dies before the claim: ``dying_claim URL BODY``."""

import os
import signal
import sys

from history import Message, open_history
from triggers import trigger


def main(url: str, body: str) -> None:
    store = open_history(url)

    def die(*_args: object, **_terms: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    type(store).claim = die  # type: ignore[assignment, method-assign]

    @trigger("orders", name="book", history=store, fingerprint="body")
    def book() -> None: ...

    book.handle(Message(body=body, uuid="u-1", delivery_count=1))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
