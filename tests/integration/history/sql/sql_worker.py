"""Clients of a SQL history, in this process and in one of their own.

``sql_worker URL UUID HOW`` says ``ready``, waits for a line, claims, says
``claimed``, and waits for another line. ``HOW`` is ``committed``, or ``open`` to leave the claim in a
transaction that nobody commits.
"""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from history.bridge import drive, settled
from history.sql import SqlHistory
from history.sql.database.engine import BEGIN, AnyConnection, execute, open_engine

#: The trigger that workers claim for.
TRIGGER = "book-order"


@contextmanager
def opened(url: str) -> Generator[SqlHistory]:
    """Open a history, and close it at the end of the block."""
    store = SqlHistory.from_url(url)
    try:
        yield store
    finally:
        drive(store.close())


class Worker:
    """The child process; killed at the end of the block."""

    def __init__(self, url: str, uuid: str, how: str = "committed") -> None:
        words = [sys.executable, "-m", "tests.integration.history.sql.sql_worker", url, uuid, how]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_for(self, word: str) -> None:
        """Read until the process says ``word``."""
        assert self._process.stdout is not None
        told = self._process.stdout.readline().strip()
        assert told == word, f"the worker said {told!r}, not {word!r}"

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


async def _claim(url: str, uuid: str, how: str) -> None:
    store = SqlHistory.from_url(url)
    _tell_and_wait("ready")
    if how == "committed":
        await store.claim(TRIGGER, [uuid], "worker")
        _tell_and_wait("claimed")
        return
    await store.check()
    connection: AnyConnection = await settled(open_engine(url, asyncio=False).connect())
    await execute(connection, BEGIN)
    await store.joined(connection).claim(TRIGGER, [uuid], "worker")
    _tell_and_wait("claimed")


def _tell_and_wait(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    drive(_claim(*sys.argv[1:]))
