"""The edge to pika: a connection with its own thread, and channels on which coroutines can ask.

The thread keeps the heartbeats going whatever the callers do. It does what they ask, in order, and answers
with a future. pika's errors are translated here, once.
"""

import logging
import re
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from history.errors import ConfigurationError, NotPermittedError
from history.shell import Shell, fail, fulfil
from history.support.tls import stays_wrong
from triggers.providers.brokers.connection import CONNECT_PATIENCE, BrokerConnection, Call, quietly
from triggers.providers.brokers.url import BrokerUrl
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.rabbitmq.frames import Services, driver

_log = logging.getLogger(__name__)


class RabbitConnection(BrokerConnection):
    """One connection to RabbitMQ."""

    what = "RabbitMQ"

    def __init__(self, url: BrokerUrl, shell: Shell) -> None:
        super().__init__(url, shell)
        self.server: dict[str, Any] = {}
        self._tls = None if url.tls is None else url.tls.context()
        self._native: Any = None
        self._loop: Any = None
        self._services: Any = None
        #: The reason why RabbitMQ reads nothing from publishers, such as "low on disk"; empty if it reads.
        self.blocked = ""

    def call_later(self, seconds: float, work: Callable[[], object]) -> None:
        """Run something after a while; drop it if the connection is gone then."""
        self.tell(lambda: self._loop.call_later(seconds, lambda: quietly(work)))

    async def channel(self, lost: Callable[[Exception], None]) -> "Channel":
        """Open a channel; ``lost`` is called on the connection's thread when it ends unasked."""
        channel = Channel(self, lost)
        await self.ask("opening a channel", lambda future: channel.open(self._native, future))
        return channel

    def _hang_up(self, future: "Future[Any]") -> None:
        if not self.ready.done():
            self._services.stop_connecting()
            fulfil(future, None)
            return
        self._native.add_on_close_callback(partial(_closed, future))
        self._native.close()

    def _call(self, work: Callable[[], object]) -> None:
        self._loop.add_callback_threadsafe(work)

    def _serve(self, host: str, port: int) -> None:
        loop = self._loop = driver.adapters.select_connection.IOLoop()
        self._services = Services(loop)

        def opened(native: Any) -> None:
            self.server = native.server_properties or {}
            native.add_on_connection_blocked_callback(self._on_blocked)
            native.add_on_connection_unblocked_callback(self._on_unblocked)
            fulfil(self.ready, None)

        def failed(_: Any, error: Exception) -> None:
            self.note(connecting(error, host))
            loop.stop()

        def closed(_: Any, error: Exception) -> None:
            self.note(error)
            self._over = True
            loop.stop()

        parameters = _parameters(self._url, self._tls, host, port)
        self._native = driver.SelectConnection(
            parameters, opened, failed, closed, custom_ioloop=self._services
        )
        try:
            loop.start()
        finally:
            with self._lock:  # no caller may ask any more
                self._over = self._over or self.ready.done()
                loop.close()

    def check_takes_messages(self) -> None:
        """Refuse to send while RabbitMQ does not read: each try would pile up, and arrive as often.

        Raises:
            ProviderUnavailableError: an alarm is on.
        """
        if self.blocked:
            who = f"RabbitMQ, which takes no messages because it is {self.blocked},"
            raise ProviderUnavailableError(who, "sending")

    def _on_blocked(self, _: Any, frame: Any) -> None:
        self.blocked = str(frame.method.reason) or "short of something"
        _log.warning("RabbitMQ takes no messages for now, because it is %s", self.blocked)

    def _on_unblocked(self, _: Any, __: Any) -> None:
        self.blocked = ""
        _log.info("RabbitMQ takes messages again")

    def _translated(self, error: Exception, doing: str) -> Exception:
        code = getattr(error, "reply_code", None)
        if isinstance(error, driver.exceptions.ChannelClosedByBroker) and code in _NEVER:
            text = cast("str", cast("Any", error).reply_text)
            if "message size" in text:
                return ConfigurationError("message", f"RabbitMQ refuses {doing}: {text}", "send less")
            wrong = NotPermittedError if code == _FORBIDDEN else ConfigurationError
            return wrong("destination", f"RabbitMQ refuses {doing}: {text}", _NEVER[code])
        if isinstance(error, driver.exceptions.ShortStringTooLong):
            return ConfigurationError("message", f"it cannot be sent: {error!r}", "use a shorter name")
        return ProviderUnavailableError("RabbitMQ", doing)


class Channel:
    """A channel of a connection. Its callbacks come on the connection's thread."""

    def __init__(self, connection: RabbitConnection, lost: Callable[[Exception], None]) -> None:
        self.connection = connection
        self.closed = False
        self._lost = lost
        self._asked: set[Future[Any]] = set()
        self._opening: Future[Any] | None = None
        self.pika: Any = None

    def open(self, native: Any, future: "Future[Any]") -> None:
        """Open it, on the connection's thread."""

        def opened(channel: Any) -> None:
            channel.add_on_close_callback(self._closed)
            fulfil(future, channel)

        self.pika = native.channel(on_open_callback=opened)

    def _closed(self, _: Any, error: Exception) -> None:
        self.closed = True
        for future in list(self._asked):
            fail(future, error)
        if not isinstance(error, driver.exceptions.ChannelClosedByClient):
            self._lost(error)

    async def ask(self, doing: str, method: str, **arguments: Any) -> Any:
        """Call a method of pika's channel and return the broker's answer; raises as Connection.ask."""

        def work(future: "Future[Any]") -> None:
            getattr(self.pika, method)(**arguments, callback=partial(fulfil, future))

        return await self.run(doing, work)

    async def run(self, doing: str, work: Call) -> Any:
        """Run something on the connection's thread; its future fails with the channel; raises as above."""

        def watched(future: "Future[Any]") -> None:
            self._asked.add(future)
            future.add_done_callback(self._asked.discard)
            work(future)

        return await self.connection.ask(doing, watched)

    def tell(self, work: Callable[[Any], object]) -> None:
        """Call methods of pika's channel that the broker does not answer; raises as the connection does."""
        self.connection.tell(lambda: None if self.closed else work(self.pika))

    def close_soon(self) -> None:
        """Close it, if it is open, and do not wait: RabbitMQ then requeues its unacknowledged messages."""
        if not self.connection.over:
            self.tell(lambda pika: pika.close() if pika.is_open else None)

    async def close(self) -> None:
        """Close it, if it is open."""

        def close(future: "Future[Any]") -> None:
            if not self.pika.is_open:
                fulfil(future, None)
                return
            self.pika.add_on_close_callback(partial(_closed, future))
            self.pika.close()

        if not self.closed and not self.connection.over:
            await self.connection.ask("closing a channel", close)


def _closed(future: "Future[Any]", _closed: Any, _error: Any) -> None:
    fulfil(future, None)


def is_nack(method: Any) -> bool:
    """Whether a confirm says that the broker did not take the message."""
    return isinstance(method, driver.spec.Basic.Nack)


def _parameters(url: BrokerUrl, tls: ssl.SSLContext | None, host: str, port: int) -> Any:
    if url.external:
        credentials = driver.credentials.ExternalCredentials()
    else:
        credentials = driver.PlainCredentials(
            url.user or "guest", url.password or "guest", erase_on_connect=False
        )
    return driver.ConnectionParameters(
        host=host,
        port=port,
        virtual_host=url.path or "/",
        credentials=credentials,
        heartbeat=url.heartbeat,
        ssl_options=None if tls is None else driver.SSLOptions(tls, host),
        socket_timeout=CONNECT_PATIENCE,
        stack_timeout=CONNECT_PATIENCE,
        client_properties={"product": "doubtless"},
    )


#: Errors of the broker, or of pika's mechanisms, and their meaning. If the line ends during a login, pika
#: calls that a "probable" refusal. It may equally be a broker that goes away: a real refusal says so.
_REFUSALS = (
    (re.compile(r"ACCESS_REFUSED|(?<!Probable)AuthenticationError"), "login", "user and password in"),
    (re.compile("NOT_ALLOWED"), "virtual host", "the path of"),
)


def connecting(error: BaseException, host: str) -> Exception:
    """Translate what went wrong while connecting to a host."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError) and stays_wrong(cause):
            problem = f"TLS with {host} failed: {getattr(cause, 'verify_message', '') or cause.reason}"
            return ConfigurationError("provider", problem, "correct the certificate, or name its cafile")
    text = " ".join(repr(cause) for cause in causes)
    for refusal, what, remedy in _REFUSALS:
        if refusal.search(text):
            return ConfigurationError("provider", f"{host} refuses the {what}", f"correct {remedy} its URL")
    unavailable = ProviderUnavailableError("RabbitMQ", f"connecting to {host}")
    unavailable.__cause__ = causes[-1]
    return unavailable


def _causes(error: BaseException | None) -> Any:
    """Yield an error and all its causes; pika puts them into ``args`` and ``exceptions``."""
    seen: set[int] = set()
    todo: list[Any] = [error]
    while todo:
        cause = todo.pop(0)
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        inner = getattr(cause, "exceptions", ())
        todo += [*cause.args, cause.__cause__, getattr(cause, "exception", None), *cast("Any", inner)]


#: The reply code of a closed channel if the account lacks a permission.
_FORBIDDEN = 403

#: Reply codes of a closed channel after which a retry does not help, and the remedy.
_NEVER = {
    _FORBIDDEN: "give the account the permission",
    404: "declare it, or start its consumer first",
    405: "choose another name, or end the other consumer",
    406: "make both sides agree",
    530: "correct the URL",
}
