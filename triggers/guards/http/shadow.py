"""The HTTP guard in shadow: the application runs and answers every request, and the guard also judges it."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from history.support.rendering import text_of
from triggers.guards.guard import Guard, running
from triggers.guards.http.answer import TRY_AGAIN
from triggers.guards.http.request import App, Receive, Request, Send, read_ahead, with_events
from triggers.service.failures import TransientError

_log = logging.getLogger(__name__)


class Judged(Protocol):
    """The questions of a guard about one request with a key."""

    async def is_for_another_body(self) -> bool:
        """Whether its key was used for another body."""
        ...

    async def note_body(self) -> None:
        """Keep the fingerprint of its body, for later requests."""
        ...

    async def judge(self, run: Callable[[], Any]) -> Any:
        """Run it, and record the run."""
        ...


async def let_through(
    guard: Guard,
    request: Request,
    receive: Receive,
    send: Send,
    *,
    app: App,
    limit: int,
    judged: Callable[[bytes], Judged],
) -> None:
    """Have the application answer a request with a key, whatever the verdict on the key is.

    Nothing is held back, and no answer is kept. Failures of the guard are only logged.

    Raises:
        Exception: any exception of the application.
    """
    events, body = await read_ahead(receive, limit)
    call = _ShadowCall(app, request, with_events(events, receive), send)
    if body is None:
        say(guard, f"its body was not whole, or has more than {limit} bytes")
        await call()
        return
    work = judged(body)
    if await attempted(guard, work.is_for_another_body):
        say(guard, "422, this key was used for another body")

    async def run() -> None:
        if running().fence is not None:
            await attempted(guard, work.note_body)
        await call()
        if call.failure is not None or call.wants_another_try:
            raise TransientError(f"the application answered {call.status}")

    await attempted(guard, lambda: work.judge(run))
    if not call.begun:  # whatever the error before it was
        await call()
    if call.failure is not None:
        raise call.failure


def say(guard: Guard, what: str) -> None:
    """Log what the guard would have refused."""
    _log.warning("%s: in shadow a request runs; without: %s", guard.name, what, extra={"trigger": guard.name})


async def attempted(guard: Guard, ask: Callable[[], Awaitable[Any]]) -> Any:
    """Call a function of the guard; None if it fails."""
    try:
        return await ask()
    except Exception as error:  # noqa: BLE001  (any error: the request goes on)
        _log.warning(
            "%s: in shadow it goes on after %s", guard.name, text_of(error, guard.settings.redaction)
        )
        return None


class _ShadowCall:
    """One call of the application, which answers its client itself."""

    def __init__(self, app: App, request: Request, receive: Receive, send: Send) -> None:
        self._app, self._request, self._receive, self._send = app, request, receive, send
        self.begun = False
        self.status = 500
        self.failure: Exception | None = None

    @property
    def wants_another_try(self) -> bool:
        """Whether its answer asks for another try."""
        return self.status >= 500 or self.status in TRY_AGAIN  # noqa: PLR2004

    async def __call__(self) -> None:
        """Call it; keep the exception that it raises."""
        self.begun = True
        try:
            await self._app(self._request.scope, self._receive, self._noting)
        except Exception as error:  # noqa: BLE001  (raised again once the key is free)
            self.failure = error

    async def _noting(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.status = int(event.get("status", 500))
        await self._send(event)
