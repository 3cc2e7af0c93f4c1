"""A PostgreSQL that keeps its connections and says nothing: stopped, or behind a proxy that hangs.

TCP does not notice one, for the kernel acknowledges what nobody reads. A statement may also take long on a
server that is well: it waits for a lock, or has much to do. So a reply that is late makes one thread ask over
a connection of its own. A server that answers there is waited for; one that does not is given up.
"""

import os
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from typing import Any, TypeVar

from history.circuit import PROBE_TIMEOUT, PROBING

T = TypeVar("T")

#: What a driver's generator does: it says what it waits for, is told what is ready, and returns an answer.
Waiting = Generator[Any, Any, T]

#: The name of a thread that asks.
THREAD_NAME = "doubtless-silence"


class Patience:
    """How long the replies of a server are waited for; shared by the connections of an engine.

    ``seconds`` is how long nobody asks; 0 is for ever. ``answers`` asks the server, and blocks meanwhile.
    """

    def __init__(self, seconds: float, answers: Callable[[], bool]) -> None:
        self.seconds = seconds
        self._answers = answers
        # With the process that asks: a forked child has no thread that would ever answer.
        self._asked: tuple[int, Future[bool]] | None = None

    def ask(self) -> "Future[bool]":
        """Return whether the server answers, to be known later; all who ask at one time share a thread."""
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
        except Exception:  # noqa: BLE001  (whatever a driver raises: it is no answer)
            answer.set_result(False)


class Reply:
    """The wait for one reply: whether it is over, asked whenever nothing has come for a moment."""

    def __init__(self, patience: Patience, began: float) -> None:
        self._patience = patience
        self._probing = PROBING.get()
        self._seconds = PROBE_TIMEOUT if self._probing else patience.seconds
        self._began = self._since = began
        self._asked: Future[bool] | None = None

    @property
    def waited(self) -> float:
        """For how long, in seconds."""
        return time.monotonic() - self._began

    def is_given_up(self) -> bool:
        """Whether the server has been silent for too long, and does not answer others either."""
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
    """Return what connects, blocking and for asyncio: connections whose waits end with a server's silence.

    Raises:
        ImportError: there is no psycopg.
    """
    import psycopg  # noqa: PLC0415  (a driver loads when it is asked for)
    from psycopg.pq import TransactionStatus  # noqa: PLC0415  (as above)

    class NoReplyError(psycopg.OperationalError):
        """The server said nothing any more."""

        #: What :func:`is_no_reply` looks for.
        no_reply = True

    def limited(link: Any, waiting: Waiting[T]) -> Waiting[T]:
        began, reply = time.monotonic(), None
        try:
            state = next(waiting)
            while True:
                ready = yield state
                # Whoever waits for notices has asked nothing.
                if not ready and link.transaction_status == TransactionStatus.ACTIVE:
                    reply = reply or Reply(patience, began)  # most answers do not make anybody wonder
                    if reply.is_given_up():
                        link.finish()
                        raise NoReplyError(f"no reply for {reply.waited:.0f} s, and none to others")
                state = waiting.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer

    class Blocking(psycopg.Connection[Any]):
        def wait(self, gen: Waiting[T], *words: Any, **named: Any) -> T:
            return super().wait(limited(self.pgconn, gen), *words, **named)

    class Asyncio(psycopg.AsyncConnection[Any]):
        async def wait(self, gen: Waiting[T], *words: Any, **named: Any) -> T:
            return await super().wait(limited(self.pgconn, gen), *words, **named)

    return Blocking.connect, Asyncio.connect


def is_no_reply(error: BaseException | None) -> bool:
    """Tell whether a driver's error says that the server was given up."""
    return getattr(error, "no_reply", False) is True
