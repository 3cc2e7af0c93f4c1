"""The edge to Qpid Proton: a connection with its own thread, and the link on which coroutines can ask.

Each link has its own session, because RabbitMQ ends a whole session if one link cannot be attached.
"""

import os
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, cast
from uuid import uuid4

from history.errors import ConfigurationError, NotPermittedError
from history.shell import Shell, fail, fulfil
from triggers.providers.amqp.driver import driver
from triggers.providers.brokers.connection import PATIENCE, BrokerConnection, quietly
from triggers.providers.brokers.url import BrokerUrl, TlsFiles
from triggers.providers.provider import ProviderUnavailableError

#: After so many seconds without an answer a link is attached in another session; then after twice as long.
_UNHEARD = 1.0


class AmqpError(Exception):
    """The peer's reason for ending a connection, session or link, or for refusing a message."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(f"{name}: {description}")
        self.name = name


#: The account lacks a permission.
_FORBIDDEN = "amqp:unauthorized-access"

#: The message has more bytes than the broker takes.
_TOO_LARGE = "amqp:link:message-size-exceeded"

#: Conditions after which a retry does not help, and the remedy.
_NEVER = {
    "amqp:not-found": "declare it, or start its consumer first",
    _FORBIDDEN: "give the account the permission",
    "amqp:not-allowed": "give the account the permission",
    "amqp:resource-locked": "choose another name, or end the other consumer",
    "amqp:precondition-failed": "make both sides agree",
    "amqp:invalid-field": "name a destination that this broker knows",
    _TOO_LARGE: "send less, or raise the broker's limit",
    "amqp:not-implemented": "use what this broker has",
}


class AmqpConnection(BrokerConnection):
    """One connection to a broker of AMQP 1.0."""

    what = "the AMQP broker"

    def __init__(self, url: BrokerUrl, shell: Shell) -> None:
        super().__init__(url, shell)
        self.server: dict[str, Any] = {}
        self.links: set[Link] = set()
        self.native: Any = None
        self._domain = _ssl_domain(url)
        self._container: Any = None
        self._injector: Any = None
        self._closing: Future[Any] | None = None

    @property
    def is_rabbitmq(self) -> bool:
        """Whether the broker is RabbitMQ, which can declare things over AMQP."""
        return str(self.server.get("product", "")) == "RabbitMQ"

    def call_later(self, seconds: float, work: Callable[[], object]) -> None:
        """Run something after a while; drop it if the connection is gone then."""
        self.tell(lambda: self.schedule(seconds, work))

    async def link(self, link: "Link") -> None:
        """Attach a link.

        Raises:
            ConfigurationError: the broker has no such address, or forbids it.
        """
        await self.ask(f"attaching to {link.address}", link.attach)

    def _hang_up(self, future: "Future[Any]") -> None:
        self._closing = future
        if self.ready.done():
            self.native.close()
        elif (transport := self.native.transport) is not None:  # the broker may not answer
            transport.close_tail()
            transport.close_head()
        else:
            self._container.stop()

    def schedule(self, seconds: float, work: Callable[[], object]) -> None:
        """Run something after a while; called on the connection's thread."""
        self._container.schedule(seconds, _Timer(work))

    def _serve(self, host: str, port: int) -> None:
        url = self._url
        injector = self._injector = driver.reactor.EventInjector()
        self._container = driver.reactor.Container(_Events(self, url.tls, host, port, injector))
        self._container.container_id = f"doubtless-{uuid4().hex[:12]}"
        self.native = self._container.connect(
            f"{'amqp' if url.tls is None else 'amqps'}://{_bracketed(host)}:{port}",
            user=url.user,
            password=url.password,
            allowed_mechs="EXTERNAL" if url.external else "ANONYMOUS" if url.user is None else "PLAIN",
            reconnect=False,
            heartbeat=url.heartbeat,
            ssl_domain=self._domain,
            sni=host,
            # RabbitMQ's name for it; without a path, the broker's default.
            virtual_host=f"vhost:{url.path}" if url.path else None,
        )
        try:
            self._container.run()
        finally:
            with self._lock:  # no caller may ask any more
                self._over = self._over or self.ready.done()
            for end in injector.pipe:
                os.close(end)
            for link in list(self.links):
                link.end(self._error or ProviderUnavailableError(self.what, "receiving"))
            if self._closing is not None:
                fulfil(self._closing, None)

    def _call(self, work: Callable[[], object]) -> None:
        self._injector.trigger(driver.reactor.ApplicationEvent("doubtless_work", subject=work))

    def _translated(self, error: Exception, doing: str) -> Exception:
        if isinstance(error, AmqpError) and error.name in _NEVER:
            wrong = NotPermittedError if error.name == _FORBIDDEN else ConfigurationError
            field = "message" if error.name == _TOO_LARGE else "destination"
            return wrong(field, f"{self.what} refuses {doing}: {error}", _NEVER[error.name])
        return ProviderUnavailableError(self.what, doing)


class Link:
    """A link of a connection, in its own session; its methods are called on the connection's thread."""

    def __init__(self, connection: AmqpConnection, address: str, lost: Callable[[Exception], None]) -> None:
        self.connection = connection
        self.address = address
        self.closed = False
        self._lost = lost
        self._asked: set[Future[Any]] = set()
        self._attaching: Future[Any] | None = None
        self._detaching: Future[Any] | None = None
        self.session: Any = None
        self.proton: Any = None

    def attach(self, future: "Future[Any]") -> None:
        """Attach it."""
        self._attaching = future
        self.connection.links.add(self)
        self._begin(_UNHEARD)

    def _begin(self, patience: float) -> None:
        """Begin a session with the link; if nobody answers within ``patience`` seconds, begin another one.

        proton gives a session the channel of a session that has just ended. RabbitMQ may still be clearing
        that channel, although it has confirmed the end, and then ignores what comes on it (seen with 4.0).
        """
        self.session = self.connection.native.session()
        self.session.open()
        self.proton = self.make(self.session, f"doubtless-{uuid4().hex}")
        self.proton.open()
        self.connection.schedule(patience, partial(self._begin_again, self.session, patience * 2))

    def _begin_again(self, session: Any, patience: float) -> None:
        attaching = self._attaching
        if attaching is None or attaching.done() or self.closed or patience > PATIENCE:
            return
        session.close()
        self._begin(patience)

    def make(self, session: Any, name: str) -> Any:
        """Return proton's link."""
        raise NotImplementedError

    def owns(self, link: Any) -> bool:
        """Whether an event of proton's link is for this one."""
        return bool(self.proton == link)

    def opened(self) -> None:
        """Note that the peer has attached; a peer that refuses also attaches first, and then detaches."""
        terminus = self.proton.remote_source if self.proton.is_receiver else self.proton.remote_target
        if self._attaching is not None and terminus.address is not None:
            fulfil(self._attaching, None)

    def detached(self, error: Exception) -> None:
        """Note that the peer has detached; the session also ends."""
        self.session.close()
        if self._detaching is None:
            self.proton.close()
            self.end(error)

    def end(self, error: Exception) -> None:
        """Note that the session, or the connection, has ended."""
        if self.closed:
            return
        self.closed = True
        self.connection.links.discard(self)
        if self._detaching is not None:
            fulfil(self._detaching, None)
        for future in [*self._asked, *([self._attaching] if self._attaching is not None else [])]:
            fail(future, error)
        if self._detaching is None:
            self._lost(error)

    def delivered(self, delivery: Any) -> None:
        """Note a change of a delivery."""

    def flowed(self) -> None:
        """Note a change of the credit."""

    async def ask(self, doing: str, work: Callable[["Future[Any]"], None]) -> Any:
        """Run something on the connection's thread; its future fails with the link."""

        def watched(future: "Future[Any]") -> None:
            if self.closed:
                raise ProviderUnavailableError(self.connection.what, doing)
            self._asked.add(future)
            future.add_done_callback(self._asked.discard)
            work(future)

        return await self.connection.ask(doing, watched)

    def tell(self, work: Callable[[], object]) -> None:
        """Run something on the connection's thread, unless the link is closed then."""
        self.connection.tell(lambda: None if self.closed else work())

    async def close(self) -> None:
        """Detach, end the session, and wait until the peer has done the same."""
        if not self.closed and not self.connection.over:
            await self.connection.ask("detaching", self._detach)

    def close_soon(self) -> None:
        """Detach and end the session, without waiting: the peer then takes back all unsettled deliveries."""
        if not self.closed and not self.connection.over:
            self.connection.tell(lambda: self._detach(Future()))

    def _detach(self, future: "Future[Any]") -> None:
        if self.closed:
            fulfil(future, None)
            return
        self._detaching = future
        self.proton.close()


def error_of(condition: Any) -> AmqpError:
    """Return the peer's error."""
    if condition is None:
        return AmqpError("closed", "without a reason")
    return AmqpError(str(condition.name), str(condition.description or ""))


class _Timer:
    """Runs something when its time has come."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def on_timer_task(self, _: Any) -> None:
        quietly(self._work)


class _Events:
    """Passes the events of a container to the objects that they concern."""

    def __init__(
        self, connection: AmqpConnection, tls: TlsFiles | None, host: str, port: int, injector: Any
    ) -> None:
        self._connection = connection
        self._tls = tls
        self._host = host
        self._port = port
        self._injector = injector

    def on_reactor_init(self, event: Any) -> None:
        event.reactor.selectable(self._injector)

    def on_doubtless_work(self, event: Any) -> None:
        event.subject()

    def on_connection_remote_open(self, event: Any) -> None:
        properties = cast("dict[Any, Any]", event.connection.remote_properties or {})
        self._connection.server = {str(name): value for name, value in properties.items()}
        fulfil(self._connection.ready, None)

    def on_link_remote_open(self, event: Any) -> None:
        self._of(event.link, lambda link: link.opened())

    def on_link_flow(self, event: Any) -> None:
        self._of(event.link, lambda link: link.flowed())

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        self._of(event.link, lambda link: link.delivered(delivery))

    def on_link_remote_close(self, event: Any) -> None:
        error = error_of(event.link.remote_condition)
        self._of(event.link, lambda link: link.detached(error))

    on_link_remote_detach = on_link_remote_close

    def on_session_remote_close(self, event: Any) -> None:
        error = error_of(event.session.remote_condition)
        for link in list(self._connection.links):
            if link.session == event.session:
                link.end(error)
        event.session.close()

    def on_connection_remote_close(self, event: Any) -> None:
        condition = event.connection.remote_condition
        if condition is not None:
            self._connection.note(self._ending(error_of(condition)))
        event.connection.close()

    def on_transport_error(self, event: Any) -> None:
        self._connection.note(self._ending(error_of(event.transport.condition)))

    def on_transport_closed(self, event: Any) -> None:
        # Do not close the injector instead: timers that are not due yet would keep it running.
        event.reactor.stop()

    def _ending(self, error: AmqpError) -> Exception:
        """Translate the error that ended a connection."""
        text, host = str(error).lower(), self._host
        if "ssl" in text and self._tls is not None:
            # proton does not say what is wrong with a certificate, nor whether the server just went away.
            problem = self._tls.problem_with(host, self._port) or (str(error) if "alert" in text else "")
            remedy = "correct the certificate, or name its cafile"
            if problem:
                return ConfigurationError("provider", f"TLS with {host} failed: {problem}", remedy)
        if "vhost" in text:
            return ConfigurationError(
                "provider", f"{host} refuses the virtual host", "correct the path of its URL"
            )
        if "unauthorized-access" in text:
            remedy = "correct user and password in its URL"
            return ConfigurationError("provider", f"{host} refuses the login", remedy)
        unavailable = ProviderUnavailableError(self._connection.what, f"being connected to {host}")
        unavailable.__cause__ = error
        return unavailable

    def _of(self, link: Any, tell: Callable[[Link], None]) -> None:
        for own in list(self._connection.links):
            if own.owns(link):
                tell(own)
                return


def _ssl_domain(url: BrokerUrl) -> Any:
    """Return proton's settings for TLS, which verify certificate and name; None without TLS."""
    if url.tls is None:
        return None
    url.tls.context()  # names the bad file better than proton does
    domain = driver.SSLDomain(driver.SSLDomain.MODE_CLIENT)
    if url.tls.certfile is not None:
        domain.set_credentials(url.tls.certfile, url.tls.keyfile or url.tls.certfile, None)
    paths = ssl.get_default_verify_paths()
    domain.set_trusted_ca_db(url.tls.cafile or paths.cafile or paths.capath)
    domain.set_peer_authentication(driver.SSLDomain.VERIFY_PEER_NAME)
    return domain


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
