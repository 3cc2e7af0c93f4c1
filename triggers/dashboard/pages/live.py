"""Parts of pages that update themselves: server-sent events with the new HTML."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from triggers.dashboard.access.gate import AccessGate
from triggers.dashboard.access.sessions import Session
from triggers.dashboard.operations import Operations
from triggers.dashboard.pages.overview import fragment
from triggers.dashboard.visit import Visit

#: How often to look for changes, in seconds.
INTERVAL = 1.0

#: How many browsers may watch concurrently.
WATCHERS = 200

#: Makes a reverse proxy pass on each event immediately: nginx gathers answers otherwise.
UNBUFFERED = {"X-Accel-Buffering": "no"}


class Live:
    """Streams the overview; ``ended`` returns whether the server stops."""

    def __init__(self, gate: AccessGate, operations: Operations, ended: Callable[[], bool]) -> None:
        self._gate, self._operations, self._ended = gate, operations, ended
        self._watchers = 0

    async def serve(self, request: Request) -> Response:
        """Serve a browser that watches."""
        session = self._gate.session(request)
        if session is None:
            return PlainTextResponse("sign in first\n", 401)
        if self._watchers >= WATCHERS:
            return PlainTextResponse("too many are watching\n", 503)
        visit = Visit(request=request, operations=self._operations, session=session, gate=self._gate, form={})
        return StreamingResponse(self.events(visit), media_type="text/event-stream", headers=UNBUFFERED)

    async def events(self, visit: Visit) -> AsyncIterator[str]:
        """Yield an event after each change; the last event says that the session has ended."""
        self._watchers += 1
        last = ""
        try:
            while not self._ended():
                if not self._lasts(visit.session):
                    yield "event: end\ndata: \n\n"
                    return
                text = await run_in_threadpool(fragment, visit)
                # A comment shows whether the browser is still there.
                yield f"data: {json.dumps(text)}\n\n" if text != last else ": still here\n\n"
                last = text
                await asyncio.sleep(INTERVAL)
        finally:
            self._watchers -= 1

    def _lasts(self, session: Session) -> bool:
        # A session ends under a page that nobody looks at.
        return self._gate.lasting(self._gate.sessions.find(session.key, touch=False)) is not None
