"""An application's answer: held back until it is kept, or passed on if it is not to be kept."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import MutableMapping, Sequence
from typing import Any

from triggers.guards.http.request import Send

#: Headers that are repeated with a kept answer. None of them sets a cookie or a credential.
KEPT_HEADERS = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-location",
        "content-type",
        "etag",
        "last-modified",
        "link",
        "location",
        "vary",
    }
)

#: Statuses below 500 after which the same request may succeed later, such as after a sign-in. 307 and 308
#: send it elsewhere: nothing was done here. 303, 404 and 409 are decisions of the application, and are kept.
TRY_AGAIN = frozenset({307, 308, 401, 403, 407, 408, 421, 425, 429})

_NO_BODY = frozenset({204, 304})

Headers = Sequence[tuple[bytes, bytes]]


class HttpAnswer:
    """Receives what an application sends.

    An answer with a short length is held back until it is kept. Any other answer streams to the client. Its
    last event is held back until the answer is kept, if it is not longer than the limit; events of
    ``text/event-stream`` never wait.
    """

    def __init__(self, send: Send, limit: int) -> None:
        self._send = send
        self._limit = limit
        self._start: MutableMapping[str, Any] = {}
        self._body = bytearray()
        self._fits = True
        self._late: MutableMapping[str, Any] | None = None
        self.is_streamed = False
        self.is_whole = False
        #: Set if the client may affect the run again: its answer streams, or is complete.
        self.concerns_client = asyncio.Event()

    @property
    def status(self) -> int:
        """The status; 500 if the application has sent none."""
        return int(self._start.get("status", 500))

    @property
    def is_final(self) -> bool:
        """Whether it is final: the announced status counts, even if the rest did not follow."""
        return self.status < 500 and self.status not in TRY_AGAIN  # noqa: PLR2004

    async def take(self, event: MutableMapping[str, Any]) -> None:
        """Receive one event of the application; this is its ``send``."""
        if event["type"] == "http.response.start":
            # A copy: the middlewares around the guard change the event that they get.
            self._start = {**event, "headers": list(event.get("headers", ()))}
            self.is_streamed = not self._is_short()
            if self.is_streamed:
                await self._send(event)
        elif event["type"] == "http.response.body":
            self._record(event.get("body", b""))
            self.is_whole = not event.get("more_body", False)
            if self.is_streamed:
                await self._pass_on(event)
        if self.is_streamed or self.is_whole:
            self.concerns_client.set()

    def _record(self, part: bytes) -> None:
        self._fits = self._fits and len(self._body) + len(part) <= self._limit
        if self._fits:
            self._body += part  # in place: a stream may have very many parts
        else:
            self._body.clear()

    async def _pass_on(self, event: MutableMapping[str, Any]) -> None:
        """Send an event; while the answer may still be kept, send the one before it."""
        if self._late is not None:
            await self._send(self._late)
            self._late = None
        if self._fits and (self.is_whole or not self._is_live()):
            self._late = event
        else:
            await self._send(event)

    def _is_short(self) -> bool:
        length = self._header(b"content-length")
        return self.status in _NO_BODY or (length.isdigit() and int(length) <= self._limit)

    def _is_live(self) -> bool:
        return self._header(b"content-type").startswith(b"text/event-stream")

    def _header(self, name: bytes) -> bytes:
        named = {bytes(name).lower(): bytes(value) for name, value in self._start.get("headers", ())}
        return named.get(name, b"")

    async def give(self) -> None:
        """Send the events that were held back."""
        if self._late is not None:
            await self._send(self._late)
        elif not self.is_streamed and self.is_whole:
            await self._send(self._start)
            await self._send({"type": "http.response.body", "body": bytes(self._body), "more_body": False})

    def kept(self) -> dict[str, Any] | None:
        """Return the kept form of it, as JSON values; None if nothing is kept."""
        if not self._fits or not self.is_whole:
            return None
        headers = [
            [bytes(name).decode("latin-1"), bytes(value).decode("latin-1")]
            for name, value in self._start.get("headers", ())
            if bytes(name).decode("latin-1").lower() in KEPT_HEADERS
        ]
        return {"status": self.status, "headers": headers, "body": b64encode(bytes(self._body)).decode()}


async def replay(send: Send, kept: dict[str, Any]) -> None:
    """Repeat the first answer."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept["headers"]]
    await respond(
        send, kept["status"], b64decode(kept["body"]), [*headers, (b"idempotent-replayed", b"true")]
    )


async def problem(send: Send, status: int, problem_type: str, detail: str, **more: Any) -> None:
    """Answer with a problem document (RFC 9457); ``retry_after`` is a header as well."""
    document = {
        "type": f"urn:doubtless:{problem_type}",
        "title": problem_type.replace("-", " "),
        "status": status,
    }
    body = json.dumps({**document, "detail": detail, **more}).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store")]
    if "retry_after" in more:
        headers.append((b"retry-after", str(more["retry_after"]).encode()))
    await respond(send, status, body, headers)


async def respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Answer with these bytes."""
    length = [] if status in _NO_BODY else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
