"""A parent forks two clones. Both look like process 1 of their own namespace, and each gets one message.

    python -m tests.integration.processes.clones HISTORY_URL FOLDER

The clones handle copies of one message together. Each run of the service writes a file to FOLDER. It then
waits until the other clone also runs the message, or knows that it must not. Prints the outcome of each copy.
"""

import os
import sys
from pathlib import Path

from tests.fixtures.waiting import eventually
from triggers import Message, trigger


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])

    @trigger("orders", name="book", history=url, lease=None)
    def book(_: Message) -> None:
        (folder / f"effect {clone}").touch()
        eventually(lambda: len(list(folder.iterdir())) > 1)

    os.getpid = lambda: 1
    for clone in ("a", "b"):
        if os.fork() == 0:
            outcome = book.handle(Message(body="{}", uuid="u1"))
            (folder / f"end {clone}").touch()
            os.write(1, f"{outcome.status} {outcome.executed}\n".encode())
            os._exit(0)
    for _ in range(2):
        os.wait()


if __name__ == "__main__":
    main()
