"""The address at which a process answers monitoring: ``/metrics``, ``/livez`` and ``/readyz``."""

import json
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast
from urllib.parse import urlsplit

from history.errors import ConfigurationError
from triggers.metrics.exposition import render
from triggers.metrics.watched import Watchable

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

#: How long a client may take to send its request, in seconds.
REQUEST_TIMEOUT = 10.0

_REMEDY = "write host:port, such as '127.0.0.1:9464'"


class Address(NamedTuple):
    """Where to listen; port 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address_of(text: object) -> Address:
    """Split ``host:port``.

    Raises:
        ConfigurationError: it is not valid; the error names the option ``metrics``.
    """
    if not isinstance(text, str):
        raise ConfigurationError("metrics", f"{text!r:.60} is not text", _REMEDY)
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError("metrics", f"{text!r:.60} is not an address ({error})", _REMEDY) from None
    if not host or port is None or parts.netloc != text or "@" in text:
        raise ConfigurationError("metrics", f"{text!r:.60} is not a host and a port", _REMEDY)
    return Address(host, port)


class Endpoint:
    """Answers in separate threads while it is entered, whatever else the process does.

    ``collector`` makes the metrics, and ``watched`` says whether the process is alive and ready.

    Raises:
        ConfigurationError: it is impossible to listen at the address.
    """

    def __init__(self, address: Address, watched: Watchable, collector: "Collector") -> None:
        self._address = address
        self._watched = watched
        self._collector = collector
        self._server: _MetricsServer | None = None

    @property
    def address(self) -> Address:
        """Where it listens: once it is entered, the port is a real one."""
        if self._server is None:
            return self._address
        return Address(self._address.host, self._server.server_address[1])

    def __enter__(self) -> Self:
        try:
            self._server = _MetricsServer(self._address, self._watched, self._collector)
        except OSError as error:
            raise ConfigurationError(
                "metrics",
                f"{self._address} cannot be listened at ({error.strerror or error})",
                "choose another port, or end what listens there; each process needs its own port",
            ) from error
        threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="doubtless-metrics",
            daemon=True,
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _MetricsServer(ThreadingHTTPServer):
    daemon_threads = True
    #: Without it nobody could listen for a minute at a port that a killed process has left.
    allow_reuse_address = True

    def __init__(self, address: Address, watched: Watchable, collector: "Collector") -> None:
        self.watched = watched
        self.collector = collector
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the client has gone, and the process is not affected."""


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_TIMEOUT
    server_version = "doubtless"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one of the three paths."""
        server = cast("_MetricsServer", self.server)
        watched = server.watched
        match self.path.partition("?")[0]:
            case "/metrics":
                body, content_type = render(server.collector, self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, body, content_type)
            case "/livez":
                hung = watched.hung_for
                said = (
                    "alive" if hung is None else f"hung: the consumer's loop has stood still for {hung:.0f} s"
                )
                self._answer_text(hung is None, said)
            case "/readyz":
                self._answer_json(watched.ready, watched.readiness())
            case _:
                self._answer(
                    HTTPStatus.NOT_FOUND,
                    b"ask for /metrics, /livez or /readyz\n",
                    "text/plain; charset=utf-8",
                )

    do_HEAD = do_GET  # noqa: N815  (the base class's name)

    def _answer_text(self, well: bool, text: str) -> None:  # noqa: FBT001
        self._answer(_status(well), f"{text}\n".encode(), "text/plain; charset=utf-8")

    def _answer_json(self, well: bool, value: Any) -> None:  # noqa: FBT001
        self._answer(_status(well), json.dumps(value).encode() + b"\n", "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):
                self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (as above)
        """Log nothing: probes come every few seconds."""


def _status(well: bool) -> HTTPStatus:  # noqa: FBT001
    return HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
