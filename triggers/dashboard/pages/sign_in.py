"""Signing in with a token, and out."""

import logging
import math

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from triggers.dashboard.access.gate import Gate, is_ours
from triggers.dashboard.access.throttle import Throttle
from triggers.dashboard.rendering import render
from triggers.dashboard.visit import Visit, WrongFormError, read_form

_log = logging.getLogger(__name__)


class SignIn:
    """The two pages that need no session."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._throttle = Throttle()

    async def show(self, request: Request) -> Response:
        """Ask for a token."""
        return self._asking(request.query_params.get("next"), ended="ended" in request.query_params)

    async def sign_in(self, request: Request) -> Response:
        """Begin a session where the token is one; whoever has given wrong ones waits first."""
        address = "" if request.client is None else request.client.host
        if (seconds := math.ceil(self._throttle.wait(address))) > 0:
            response = self._asking(None, f"Too many wrong tokens: try again in {seconds} s.", 429)
            response.headers["retry-after"] = str(seconds)
            return response
        try:
            form = await read_form(request)
        except WrongFormError as error:
            return PlainTextResponse(f"{error}\n", error.status)
        token, wanted = (next(iter(form.get(name, ())), "") for name in ("token", "next"))
        if not is_ours(request):  # which says nothing of who sits at this address
            return self._asking(wanted, "Sign in on this page.", 403)
        session = self._gate.sign_in(token.strip())
        if session is None:
            self._throttle.fail(address)
            _log.warning("nobody signs in from %s: there is no such token", address)
            return self._asking(wanted, "There is no such token.", 403)
        self._throttle.succeed(address)
        _log.info("%s signs in from %s as %s", session.user, address, session.role.word)
        if (before := self._gate.session(request)) is not None:
            self._gate.sessions.end(before)
        response = RedirectResponse(inside(wanted), 303)
        self._gate.remember(response, session)
        return response

    def _asking(
        self, wanted: str | None, problem: str | None = None, status: int = 200, *, ended: bool = False
    ) -> Response:
        facts = {"wanted": inside(wanted), "problem": problem, "ended": ended}
        by_proxy = self._gate.access.proxy is not None
        return HTMLResponse(render("sign_in.html", by_proxy=by_proxy, **facts), status)


def sign_out(visit: Visit) -> Response:
    """End the session."""
    visit.gate.sessions.end(visit.session)
    response = visit.go("/sign-in")
    visit.gate.forget(response)
    return response


def inside(wanted: str | None) -> str:
    """Return where to go on: only to a page of ours, whatever an address says."""
    path = wanted or "/"
    plain = path.isprintable() and path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if plain else "/"
