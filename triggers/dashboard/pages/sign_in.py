"""Signing in with a token, and out."""

import logging
import math

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from history.beside.security import SecurityEvent, SecurityOutcome
from triggers.dashboard.access.gate import AccessGate, is_ours
from triggers.dashboard.access.records import address_of, record_of
from triggers.dashboard.access.throttle import Throttle
from triggers.dashboard.rendering import render
from triggers.dashboard.visit import Visit, WrongFormError, read_form
from triggers.security.recorder import Recorder

_log = logging.getLogger(__name__)


class SignIn:
    """The two pages that need no session."""

    def __init__(self, gate: AccessGate, recorder: Recorder) -> None:
        self._gate, self._recorder = gate, recorder
        self._throttle = Throttle()

    async def show(self, request: Request) -> Response:
        """Ask for a token."""
        return self._asking(request.query_params.get("next"), ended="ended" in request.query_params)

    async def sign_in(self, request: Request) -> Response:
        """Begin a session if the token is known; after wrong tokens, an address waits first."""
        address = address_of(request) or ""
        if (seconds := math.ceil(self._throttle.wait(address))) > 0:
            self._refuse(request, "throttled: too many wrong tokens")
            response = self._asking(None, f"Too many wrong tokens: try again in {seconds} s.", 429)
            response.headers["retry-after"] = str(seconds)
            return response
        try:
            form = await read_form(request)
        except WrongFormError as error:
            return PlainTextResponse(f"{error}\n", error.status)
        token, wanted = (next(iter(form.get(name, ())), "") for name in ("token", "next"))
        if not is_ours(request):  # which says nothing about the people at this address
            self._refuse(request, "the form came from another site")
            return self._asking(wanted, "Sign in on this page.", 403)
        session = self._gate.sign_in(token.strip(), address)
        if session is None:
            self._throttle.fail(address)
            self._refuse(request, "the token is unknown")
            _log.warning("nobody signs in from %s: the token is unknown", address)
            return self._asking(wanted, "This token is unknown.", 403)
        self._throttle.succeed(address)
        _log.info("%s signs in from %s as %s", session.user, address, session.role.word)
        allowed = record_of(SecurityEvent.SIGN_IN, SecurityOutcome.ALLOWED, request, session, way="token")
        self._recorder.note(allowed)
        if (before := self._gate.session(request)) is not None:
            self._gate.sessions.end(before, "its browser has signed in again")
        response = RedirectResponse(inside(wanted), 303)
        self._gate.remember(response, session)
        return response

    def _refuse(self, request: Request, why: str) -> None:
        """Record that a user was not let in; the record contains none of the user's input."""
        self._recorder.count(record_of(SecurityEvent.SIGN_IN, SecurityOutcome.DENIED, request, why=why))

    def _asking(
        self, wanted: str | None, problem: str | None = None, status: int = 200, *, ended: bool = False
    ) -> Response:
        facts = {"wanted": inside(wanted), "problem": problem, "ended": ended}
        by_proxy = self._gate.access.proxy is not None
        return HTMLResponse(render("sign_in.html", by_proxy=by_proxy, **facts), status)


def sign_out(visit: Visit) -> Response:
    """End the session."""
    visit.record(SecurityEvent.SIGN_OUT)
    visit.gate.sessions.end(visit.session, "signed out")
    response = visit.go("/sign-in")
    visit.gate.forget(response)
    return response


def inside(wanted: str | None) -> str:
    """Return where to continue: only a page of ours, whatever an address contains."""
    path = wanted or "/"
    plain = path.isprintable() and path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if plain else "/"
