"""The headers of every answer, and the allowed host names of requests."""

from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Only our own files are loaded, nothing in a page is run as a script, nobody may frame us.
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        *("script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"),
    ]
)

HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Secured:
    """Puts :data:`HEADERS` on every answer, and refuses requests for other host names than ours.

    A page elsewhere may make its own name resolve to this machine. Its requests have that name, and learn
    nothing; ``refused`` is called for them.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        *,
        https: bool = False,
        refused: Callable[[HTTPConnection], None],
    ) -> None:
        self._app, self._hosts, self._refused = app, frozenset(hosts), refused
        self._headers = HEADERS | ({"strict-transport-security": "max-age=31536000"} if https else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        if self._is_ours(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send_secured)
        else:
            self._refused(HTTPConnection(scope))
            refusal = PlainTextResponse("unknown host name: start with --allowed-host\n", status_code=400)
            await refusal(scope, receive, send_secured)

    def _is_ours(self, host: str) -> bool:
        try:
            return urlsplit(f"//{host}").hostname in self._hosts
        except ValueError:
            return False
