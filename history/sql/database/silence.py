"""A PostgreSQL that keeps its connections but is silent: stopped, or behind a proxy that hangs.

TCP does not notice this, because the kernel acknowledges bytes that nobody reads. A statement may also take
long on a healthy server: it waits for a lock, or has much to do. So if a reply is late, one thread probes the
server over another connection. If it answers, the wait goes on; if not, the server is given up.
"""

import os
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

from history.circuit import PROBE_TIMEOUT, PROBING

T = TypeVar("T")

#: The generator of a driver: it yields what it waits for, receives what is ready, and returns an answer.
Waiting = Generator[Any, Any, T]

#: The name of a thread that probes.
THREAD_NAME = "doubtless-silence"


class Patience:
    """How long to wait for the replies of a server; shared by the connections of an engine.

    After ``seconds`` without a reply a probe starts; 0 is never. ``answers`` probes and blocks.
    """

    def __init__(self, seconds: float, answers: Callable[[], bool]) -> None:
        self.seconds = seconds
        self._answers = answers
        # With the process that probes: in a forked child, the thread that would answer is missing.
        self._asked: tuple[int, Future[bool]] | None = None

    def ask(self) -> "Future[bool]":
        """Return a future of whether the server answers; all who ask at the same time share a thread."""
        asked = self._asked
        if asked is not None and asked[0] == os.getpid() and not asked[1].done():
            return asked[1]
        answer: Future[bool] = Future()
        self._asked = (os.getpid(), answer)
        threading.Thread(target=self._ask, args=(answer,), name=THREAD_NAME, daemon=True).start()
        return answer

    def _ask(self, answer: "Future[bool]") -> None:
        PROBING.set(True)
        try:
            answer.set_result(self._answers())
        except Exception:  # noqa: BLE001  (whatever a driver raises, the server did not answer)
            answer.set_result(False)


class Reply:
    """The wait for one reply: it is checked whenever nothing has come for a moment."""

    def __init__(self, patience: Patience, began: float) -> None:
        self._patience = patience
        self._probing = PROBING.get()
        self._seconds = PROBE_TIMEOUT if self._probing else patience.seconds
        self._began = self._since = began
        self._asked: Future[bool] | None = None

    @property
    def waited(self) -> float:
        """How long it has waited, in seconds."""
        return time.monotonic() - self._began

    def is_given_up(self) -> bool:
        """Whether the server has been silent for too long, and does not answer probes either."""
        if not self._seconds or time.monotonic() - self._since < self._seconds:
            return False
        if self._probing:
            return True
        if self._asked is None:
            self._asked = self._patience.ask()
        if not self._asked.done():
            return False
        if not self._asked.result():
            return True
        self._asked, self._since = None, time.monotonic()
        return False


def connectors(patience: Patience) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """Return the blocking and the asyncio function to connect; their connections give up a silent server.

    Raises:
        ImportError: psycopg is missing.
    """
    import psycopg  # noqa: PLC0415  (a driver loads only when needed)
    from psycopg.pq import TransactionStatus  # noqa: PLC0415  (as above)

    class NoReplyError(psycopg.OperationalError):
        """The server has become silent."""

        #: The mark that :func:`is_no_reply` looks for.
        no_reply = True

    def limited(link: Any, waiting: Waiting[T]) -> Waiting[T]:
        began, reply = time.monotonic(), None
        try:
            state = next(waiting)
            while True:
                ready = yield state
                # A wait for notices has not sent anything.
                if not ready and link.transaction_status == TransactionStatus.ACTIVE:
                    reply = reply or Reply(patience, began)  # most answers come in time
                    if reply.is_given_up():
                        link.finish()
                        raise NoReplyError(f"no reply for {reply.waited:.0f} s, and none to others")
                state = waiting.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer

    class Blocking(psycopg.Connection[Any]):
        def wait(self, gen: Waiting[T], *arguments: Any, **named: Any) -> T:
            return super().wait(limited(self.pgconn, gen), *arguments, **named)

    class Asyncio(psycopg.AsyncConnection[Any]):
        async def wait(self, gen: Waiting[T], *arguments: Any, **named: Any) -> T:
            return await super().wait(limited(self.pgconn, gen), *arguments, **named)

    return Blocking.connect, Asyncio.connect


def is_no_reply(error: BaseException | None) -> bool:
    """Return whether a driver's error means that the server was given up."""
    return getattr(error, "no_reply", False) is True
