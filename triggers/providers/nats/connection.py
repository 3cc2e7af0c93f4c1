"""The edge to nats-py: a connection with its own thread, on which coroutines can be run.

The thread answers the server's pings whatever the callers do. We switch off the reconnects of nats-py: a
lost connection is over, and the next call makes another one, as with every broker. nats-py's errors are
translated here, once.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar, cast

from history.errors import ConfigurationError, DoubtlessError, MissingExtraError, NotPermittedError
from history.shell import Shell, fail, fulfil
from history.support.forks import at_fork, keep
from history.support.tls import stays_wrong
from triggers.providers.brokers.connection import CONNECT_PATIENCE, BrokerConnection
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.nats.replies import ForbiddenError, NatsReplies, NobodyError
from triggers.providers.nats.settings import NatsSettings
from triggers.providers.provider import ProviderUnavailableError

try:
    import nats
except ImportError as error:
    raise MissingExtraError("the NATS provider", extra="nats", package="nats-py") from error

#: As Any: nats-py has types for only a part.
driver = cast("Any", nats)

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long nats-py waits before it tries again a host that did not answer, in seconds.
_PAUSE = 0.1

#: How long JetStream may take to answer, in seconds.
ANSWER = 10.0

#: The first server version that keeps messages until they are due.
_SCHEDULING = (2, 12)

#: How long the client may take to end after it could not connect, in seconds.
_ENDING = 1.0

#: The server's texts for a refused login, and for a missing permission.
_LOGIN, _PERMISSION = "authorization violation", "permissions violation"

#: Codes of JetStream's errors that a retry does not cure: the wrong field, and the remedy.
_NEVER = {
    10026: ("destination", "raise max_consumers of the stream"),
    10037: ("destination", "correct max_deliver or ack_wait of the consumer"),
    10039: ("provider", "switch JetStream on for this account"),
    10047: ("provider", "give the server's JetStream more storage"),
    10054: ("message", "send less, or raise max_msg_size of the stream"),
    10074: ("replicas", "give as many replicas as the cluster has servers, at most"),
    10076: ("provider", "start the server with JetStream (-js)"),
    10188: ("delivery_time", "set allow_msg_schedules of the stream, or send the message when it is due"),
    10099: ("destination", "a work queue has one consumer for a subject: name it by durable"),
    10100: ("destination", "a work queue has one consumer for a subject: name it by durable"),
}


class NatsConnection(BrokerConnection):
    """One connection to a NATS server; :attr:`native` and :attr:`replies` are used on its thread only."""

    what = "NATS"

    def __init__(self, url: BrokerUrl, settings: NatsSettings, shell: Shell) -> None:
        super().__init__(url, shell)
        self._settings = settings
        self._tls = None if url.tls is None else url.tls.context()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._forbidden: list[str] = []
        self._reason: Exception | None = None
        #: Called on the thread with the error when the connection ends.
        self.lost: set[Callable[[Exception], None]] = set()
        self.native: Any = None
        self.replies: NatsReplies = cast("NatsReplies", None)
        #: The subjects that are known to have a stream.
        self.streamed: set[str] = set()

    def start(self) -> None:
        """Begin to connect."""
        at_fork(self, _belongs_to_the_parent)
        super().start()

    @property
    def schedules(self) -> bool:
        """Whether the server can keep a message until it is due."""
        version = self.native.connected_server_version
        return (version.major, version.minor) >= _SCHEDULING

    async def do(self, doing: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the connection's thread, and wait for its result; raises as :meth:`ask`."""

        def begin(future: "Future[Any]") -> None:
            self._spawn(self._checked(work)).add_done_callback(lambda task: _settle(task, future))

        return cast("T", await self.ask(doing, begin))

    def do_soon(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run a coroutine on the connection's thread, and do not wait; raises as :meth:`tell`."""
        self.tell(lambda: self._spawn(_quietly(work)))

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = cast("asyncio.AbstractEventLoop", self._loop).create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _checked(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine; if the server forbids it, it reports that without naming the request."""
        before = len(self._forbidden)
        try:
            return await work()
        except TimeoutError as error:
            if len(self._forbidden) > before:
                raise ForbiddenError(self._forbidden[-1]) from error
            raise

    def _hang_up(self, future: "Future[Any]") -> None:
        self._spawn(self.native.close()).add_done_callback(lambda _: fulfil(future, None))

    def _call(self, work: Callable[[], object]) -> None:
        cast("asyncio.AbstractEventLoop", self._loop).call_soon_threadsafe(work)

    def _serve(self, host: str, port: int) -> None:
        loop = self._loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._live(host, port))
        finally:
            with self._lock:  # no caller may ask any more
                self._over = self._over or self.ready.done()
            error = self._error or ProviderUnavailableError(self.what, "being connected")
            for tell in list(self.lost):
                tell(error)
            _finish(loop)

    async def _live(self, host: str, port: int) -> None:
        """Connect, and wait until the connection has ended."""
        self._ended = asyncio.Event()
        self.native = driver.NATS()
        try:
            await self._connect(host, port)
        except Exception as error:  # noqa: BLE001  (every error is passed on)
            self.note(self._connecting(error, host))
            with suppress(Exception):  # after a failed handshake it may hang
                await asyncio.wait_for(self.native.close(), _ENDING)
            return
        fulfil(self.ready, None)
        await self._ended.wait()

    async def _connect(self, host: str, port: int) -> None:
        url = self._url
        native = self.native
        shown = f"[{host}]" if ":" in host else host
        account: dict[str, Any] = {}
        if url.user is not None:
            if url.password is None:
                account = {"token": self._secretly(url.user)}
            else:
                account = {"user": self._secretly(url.user), "password": self._secretly(url.password)}
        if self._settings.creds is not None:
            account["user_credentials"] = self._settings.creds
        if self._tls is not None:
            account |= {"tls": self._tls, "tls_hostname": host}
        await native.connect(
            f"nats://{shown}:{port}",
            name="doubtless",
            allow_reconnect=False,
            connect_timeout=CONNECT_PATIENCE,
            max_reconnect_attempts=1,  # else it tries one host for ever
            reconnect_time_wait=_PAUSE,
            ping_interval=url.heartbeat,
            max_outstanding_pings=2,
            error_cb=self._on_error,
            closed_cb=self._on_closed,
            **account,
        )
        self._check_secure()
        self.replies = NatsReplies(native)
        await self.replies.open()

    def _secretly(self, secret: str) -> Callable[[], str]:
        """Return a function that gives nats-py a secret to send, after a check of TLS if it is required."""

        def tell() -> str:
            self._check_secure()
            return secret

        return tell

    def _check_secure(self) -> None:
        """Refuse a server without TLS: nats-py would continue without it."""
        if self._tls is not None and not self.native._server_info.get("tls_required"):  # noqa: SLF001
            raise ConfigurationError(
                "provider", "the NATS server does not ask for TLS", "switch TLS on there, or use nats://"
            )

    async def _on_error(self, error: Exception) -> None:
        text = str(error).removeprefix("nats: ")
        self._reason = error
        if _PERMISSION not in text.lower():
            _log.debug("NATS: %r", error)
            return
        self._forbidden.append(text)
        if not (self.ready.done() and self.replies.fail_forbidden(text)):
            _log.warning("NATS: %s", text)

    async def _on_closed(self) -> None:
        error = self.native.last_error
        if error is not None:
            self.note(self._connecting(error, self._url.where))
        self._over = True
        if self._ended is not None:
            self._ended.set()

    def _connecting(self, error: BaseException, host: str) -> Exception:
        """Translate an error of connecting, or the error that ended a connection."""
        if isinstance(error, DoubtlessError):
            return error
        if isinstance(error, driver.errors.NoServersError) and self._reason is not None:
            error = self._reason
        if isinstance(error, ssl.SSLError) and stays_wrong(error):
            problem = f"TLS with {host} failed: {getattr(error, 'verify_message', '') or error.reason}"
            return ConfigurationError("provider", problem, "correct the certificate, or name its cafile")
        if isinstance(error, driver.errors.AuthorizationError) or _LOGIN in str(error).lower():
            return ConfigurationError(
                "provider", f"{host} refuses the login", "correct user and password in its URL, or creds"
            )
        if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
            return ConfigurationError("creds", f"{error}", "name a file of credentials")
        if isinstance(error, ImportError):
            return ConfigurationError("creds", f"{error}", 'install them: pip install "nats-py[nkeys]"')
        lost = ProviderUnavailableError("NATS", f"being connected to {host}")
        lost.__cause__ = error
        return lost

    def _translated(self, error: Exception, doing: str) -> Exception:
        if isinstance(error, driver.errors.MaxPayloadError):
            limit = self.native.max_payload
            return ConfigurationError(
                "message",
                f"it has more than {limit} bytes with its headers",
                "send less, or raise max_payload",
            )
        if isinstance(error, ForbiddenError):
            problem = f"NATS forbids {doing}: {error}"
            return NotPermittedError("provider", problem, "give the account the permission")
        if isinstance(error, NobodyError | driver.errors.NoRespondersError):
            return ProviderUnavailableError("JetStream, which may be switched off in the NATS server,", doing)
        if isinstance(error, driver.js.errors.APIError):
            refused = cast("Any", error)
            return refusal(refused.err_code, refused.description, doing)
        return ProviderUnavailableError("NATS", doing)

    def abandon(self) -> None:
        """In a forked child: neither use nor end what belongs to the parent."""
        keep(self._loop, self.native, self._tasks)


def refusal(code: int | None, description: str | None, doing: str) -> Exception:
    """Return our error for an error that JetStream answered."""
    if code in _NEVER:
        field, remedy = _NEVER[code]
        return ConfigurationError(field, f"NATS refuses {doing}: {description}", remedy)
    return ProviderUnavailableError("NATS", f"{doing} ({description})")


def _settle(task: "asyncio.Task[Any]", future: "Future[Any]") -> None:
    if task.cancelled():
        fail(future, ProviderUnavailableError("NATS", "answering"))
    elif (error := task.exception()) is not None:
        fail(future, error)
    else:
        fulfil(future, task.result())


async def _quietly(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    try:
        await work()
    except Exception as error:  # noqa: BLE001  (nobody waits; an unsettled message is delivered again)
        _log.warning("could not answer a message (%r): NATS delivers it again", error)


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the tasks that still run, and close the loop."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()


def _belongs_to_the_parent(connection: NatsConnection) -> None:
    connection.abandon()
