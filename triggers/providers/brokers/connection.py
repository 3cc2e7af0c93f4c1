"""A connection with its own thread: the part that both AMQP wires share.

The driver's event loop runs on the thread, so heartbeats continue whatever the callers do. The thread does
what the callers ask, in order, and answers with a future.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from history.errors import ConfigurationError, DoubtlessError
from history.shell import Shell, fail
from history.support.forks import forkable_lock
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.provider import ProviderUnavailableError

_log = logging.getLogger(__name__)

#: How long connecting to one host may take, and how long the broker may take to answer, in seconds.
CONNECT_PATIENCE, PATIENCE = 10.0, 30.0

C = TypeVar("C", bound="BrokerConnection")

#: Runs on the connection's thread; it gives the future its result, now or later.
Call = Callable[["Future[Any]"], None]


class BrokerConnection:
    """One connection, to the first of the hosts that answers, from its beginning to its end.

    A driver's subclass defines how to connect (:meth:`_serve`) and to close (:meth:`_hang_up`), how to reach
    the thread (:meth:`_call`), and what an error of the driver means (:meth:`_translated`).
    """

    #: The broker's name in errors.
    what = "the broker"

    def __init__(self, url: BrokerUrl, shell: Shell) -> None:
        self.process = os.getpid()
        self.ready: Future[None] = Future()
        self._url = url
        self._shell = shell
        self._lock = forkable_lock()
        self._asked: set[Future[Any]] = set()
        self._over = False
        #: Set when nobody wants it any more, maybe before it has opened.
        self._unwanted = False
        self._error: Exception | None = None

    def start(self) -> None:
        """Begin to connect."""
        threading.Thread(target=self._run, name=f"doubtless-{self.what}", daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether the connection is gone, or belongs to the parent of this process."""
        return self._over or self.process != os.getpid()

    async def opened(self) -> None:
        """Wait until the connection is open.

        Raises:
            ProviderUnavailableError: none of the hosts answers.
            ConfigurationError: a host refuses the login or the virtual host, or its certificate is not good.
        """
        try:
            await self._shell.result(self.ready, CONNECT_PATIENCE * (1 + len(self._url.hosts)))
        except TimeoutError as error:
            raise ProviderUnavailableError(self.what, f"connecting to {self._url.where}") from error

    async def ask(self, doing: str, work: Call) -> Any:
        """Run something on the connection's thread, and wait for its result.

        Raises:
            ProviderUnavailableError: the connection is gone, or the broker takes too long.
            ConfigurationError: the broker refuses it.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self.over:
                raise ProviderUnavailableError(self.what, doing) from self._error
            self._asked.add(future)
            self._call(lambda: _guarded(work, future))
        future.add_done_callback(self._asked.discard)
        try:
            return await self._shell.result(future, PATIENCE)
        except TimeoutError as error:
            raise ProviderUnavailableError(self.what, doing) from error
        except DoubtlessError:
            raise
        except Exception as error:
            raise self._translated(error, doing) from error

    def tell(self, work: Callable[[], object]) -> None:
        """Run something on the connection's thread, and do not wait.

        Raises:
            ProviderUnavailableError: the connection is gone.
        """
        with self._lock:
            if self.over:
                raise ProviderUnavailableError(self.what, "answering") from self._error
            self._call(lambda: quietly(work))

    async def close(self) -> None:
        """End the connection; whoever waits for it to open gets a ProviderUnavailableError."""

        def close(future: "Future[Any]") -> None:
            self.forget(future)
            self._hang_up(future)

        self._unwanted = True
        if not self.over:
            try:
                await self.ask("closing the connection", close)
            except ProviderUnavailableError as error:
                _log.debug("%s", error)

    def forget(self, future: "Future[Any]") -> None:
        """Let a future be fulfilled by the end of the connection, instead of failing with it."""
        self._asked.discard(future)

    def note(self, error: Exception) -> None:
        """Note why the connection is gone; a wrong setting takes precedence."""
        if not isinstance(self._error, ConfigurationError):
            self._error = error

    def _run(self) -> None:
        try:
            for host, port in self._url.hosts:
                self._serve(host, port)
                if self.ready.done() or self._unwanted:
                    break
        except Exception as error:  # noqa: BLE001  (the waiting callers must not wait for ever)
            _log.exception("connection to %s failed unexpectedly; the next call connects again", self.what)
            self.note(error)
        finally:
            self._end()

    def _end(self) -> None:
        """Tell all waiting callers that nothing comes any more."""
        with self._lock:
            self._over = True
            asked: Sequence[Future[Any]] = list(self._asked)
        error = self._error or ProviderUnavailableError(self.what, "connecting")
        fail(self.ready, error)
        for future in asked:
            fail(future, error)

    def _serve(self, host: str, port: int) -> None:
        """Connect to a host and run the driver until the connection ends; once open, set :attr:`ready`."""
        raise NotImplementedError

    def _call(self, work: Callable[[], object]) -> None:
        """Run something on the thread, which is running; called under the lock."""
        raise NotImplementedError

    def _hang_up(self, future: "Future[Any]") -> None:
        """Begin to close the connection, and fulfil the future at its end; called on the thread.

        The connection may not have opened yet. Then the broker may never answer.
        """
        raise NotImplementedError

    def _translated(self, error: Exception, doing: str) -> Exception:
        """Return our error for an error of the driver."""
        raise NotImplementedError


def _guarded(work: Call, future: "Future[Any]") -> None:
    try:
        work(future)
    except Exception as error:  # noqa: BLE001  (it would end the thread, and the caller must get it)
        fail(future, error)


def quietly(work: Callable[[], object]) -> None:
    """Do something on the thread; nobody waits for its failure."""
    try:
        work()
    except Exception as error:  # noqa: BLE001  (as above; an unsettled message is delivered again)
        _log.warning("could not acknowledge or return a message (%r): the broker delivers it again", error)


class LivingConnection(Generic[C]):
    """The connection of a provider: made at its first use, and again after a loss. Safe between threads."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._lock = forkable_lock()
        self._connection: C | None = None

    async def opened(self) -> C:
        """Return the connection, when it is open; raises as :meth:`BrokerConnection.opened`."""
        with self._lock:
            connection = self._connection
            if connection is None or connection.over:
                connection = self._make()
                connection.start()  # without a thread, it would never open and never be over
                self._connection = connection
        await connection.opened()
        return connection

    async def close(self) -> None:
        """Close the connection, if there is one."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
