"""The server of the dashboard: it closes a connection whose next request takes too long to arrive."""

import asyncio
from typing import Any

from history.errors import MissingExtraError

try:
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as missing:
    raise MissingExtraError("the dashboard", extra="dashboard", package=missing.name or "") from missing

#: How long the head of a request may take to arrive, in seconds.
LONGEST_HEAD = 30.0

#: How long running requests may take after a signal, in seconds.
GRACE = 10


def server_of(app: Any) -> uvicorn.Server:
    """Return the server of an application, before it listens."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=TimedProtocol,
            log_config=None,
            access_log=False,
            proxy_headers=False,  # the client is the peer of the connection: a header about it is not trusted
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
    )


class TimedProtocol(H11Protocol):
    """One connection. Uvicorn by itself waits forever for a first request, and for the rest of its head."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; wait for the others, if its head is not complete."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._end_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the wait."""
        super().connection_lost(exc)
        self._end_wait()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(LONGEST_HEAD, self.transport.close)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
