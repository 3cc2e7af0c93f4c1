"""One request of a signed-in user: its parameters, its form, and the user's rights."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from history.beside.security import SecurityEvent, SecurityOutcome, SecurityRecord
from history.errors import ConfigurationError, DoubtlessError, UnavailableError
from triggers.dashboard.access.gate import COOKIE, AccessGate, has_csrf, is_by_itself, is_ours
from triggers.dashboard.access.records import denial_of, record_of
from triggers.dashboard.access.roles import Role
from triggers.dashboard.access.sessions import Session
from triggers.dashboard.filters import ParkedFilter
from triggers.dashboard.groups import cause_of
from triggers.dashboard.operations import Operations
from triggers.dashboard.pulse import Pulse, problem_of
from triggers.dashboard.rendering import moment, render, url
from triggers.operations.journals import UnknownNameError, refuse_unknown_trigger
from triggers.security.commands import recorded_by
from triggers.security.recorder import Recorder

#: The largest form that is read, in bytes, and the most fields of a form.
LARGEST_FORM, MOST_FIELDS = 262_144, 2_000

#: How the addresses for programs begin.
API = "/api/"

#: How long a form may take to arrive, in seconds.
LONGEST_WAIT = 30.0


class WrongFormError(Exception):
    """A form is invalid, too large, too slow, or broke off; ``status`` is the status of HTTP for that."""

    def __init__(self, problem: str, status: int = 400) -> None:
        super().__init__(problem)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request, and its user."""

    request: Request
    operations: Operations
    session: Session
    gate: AccessGate
    form: Mapping[str, Sequence[str]]

    def asked(self, name: str) -> str | None:
        """Return a parameter of the address."""
        return self.request.query_params.get(name)

    def trigger(self, parameter: str = "trigger") -> str | None:
        """Return the trigger that a parameter of the address names.

        Raises:
            UnknownNameError: the trigger is unknown.
        """
        name, operations = self.asked(parameter) or None, self.operations
        reading = None if name is None else operations.pulse.look()
        if name in operations.triggers or name is None:
            return name
        if reading is None or name not in reading.triggers:
            refuse_unknown_trigger(
                operations.store_of(name),
                name,
                triggers=operations.triggers.values(),
                journals=operations.journals,
                setting=parameter,
            )
        return name

    @property
    def filters(self) -> ParkedFilter:
        """The filters of parked messages in the form, or else in the address.

        Raises:
            ConfigurationError: one of them is invalid.
        """
        return ParkedFilter.read(self.given if self.form else self.asked, sees_texts=self.sees_bodies)

    def given(self, name: str) -> str | None:
        """Return a field of the form."""
        return next(iter(self.form.get(name, ())), None)

    def record_of(
        self, event: SecurityEvent, outcome: SecurityOutcome = SecurityOutcome.ALLOWED, **facts: Any
    ) -> SecurityRecord:
        """Return the record of an action of this user."""
        return record_of(event, outcome, self.request, self.session, **facts)

    def record(self, event: SecurityEvent, **facts: Any) -> None:
        """Add an action of this user to the security log."""
        self.operations.recorder.note(self.record_of(event, **facts))

    def refused(self, why: str, event: SecurityEvent = SecurityEvent.ACCESS, **facts: Any) -> None:
        """Add to the security log that this user was refused something."""
        self.operations.recorder.count(self.record_of(event, SecurityOutcome.DENIED, why=why, **facts))

    def recorded(self, records: Sequence[SecurityRecord]) -> AbstractContextManager[None]:
        """Add the actions inside to the security log before they happen, and if they fail."""
        return recorded_by(self.operations.recorder, records)

    @property
    def page(self) -> int:
        """The number of the page of a list, from 1."""
        return self.number("page")

    def number(self, name: str) -> int:
        """Return a parameter of the address that is a number from 1; 1 if it is invalid."""
        asked = self.asked(name) or "1"
        return max(1, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 1  # noqa: PLR2004

    @property
    def sees_bodies(self) -> bool:
        """Whether this user may see the content of messages."""
        return self.session.role >= self.gate.access.bodies

    def shown(self, text: str | None) -> str | None:
        """Return a text of an error, a resolver or a person to users who may see bodies: it may quote one.

        Others see the row of the decision table, if the text names a row.
        """
        if text is None or self.sees_bodies:
            return text
        row = cause_of(text).row
        in_row = "" if row is None else f" (row {row})"
        return f"only shown to the role {self.gate.access.bodies.word}{in_row}"

    def may(self, word: str) -> bool:
        """Whether this user has a role, or one above it."""
        return self.session.role >= Role[word.upper()]

    def html(self, template: str, **values: Any) -> str:
        """Return the HTML of a template for this user."""
        return render(template, visit=self, session=self.session, operations=self.operations, **values)

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Answer with a page."""
        return HTMLResponse(self.html(template, **values), status)

    @property
    def by_program(self) -> bool:
        """Whether a program asks: it gets JSON, and no page."""
        return self.request.url.path.startswith(API)

    def data(self, values: Mapping[str, Any]) -> Response:
        """Answer a program."""
        return Response(json.dumps(values, default=datetime.isoformat), media_type="application/json")

    def problem(self, status: int, title: str, text: str, *, passes: bool = False) -> Response:
        """Answer that something is impossible, and why; a page whose problem ``passes`` looks again."""
        if self.by_program:
            return JSONResponse({"title": title, "text": text}, status)
        again = passes and self.request.method == "GET"
        return self.show("problem.html", status, title=title, text=text, again=again)

    def go(self, path: str, **parameters: str | int | None) -> Response:
        """Send the browser, or the program, to another page."""
        target = f"{API}{path.removeprefix('/')}" if self.by_program else path
        return RedirectResponse(url(target, **parameters), 303)


Page = Callable[[Visit], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(page: Page, *, gate: AccessGate, operations: Operations, role: Role) -> Endpoint:
    """Return Starlette's endpoint for a page; without the role, or with a foreign form, nothing is done.

    Below :data:`API` it is for programs: their token is in each request, so no form is foreign.
    """

    async def serve(request: Request) -> Response:
        by_program, seconds = request.url.path.startswith(API), gate.wait(request)
        session = gate.program(request) if by_program else gate.session(request)
        if session is None and by_program:
            return ask_for_token(request, operations.recorder, seconds)
        if session is None:
            if request.method != "GET" and not is_by_itself(request):
                operations.recorder.count(denial_of(request, "nobody is signed in", page=request.url.path))
            return sign_in_first(request)
        make = partial(Visit, request=request, operations=operations, session=session, gate=gate)
        refusal = make(form={})
        form: Mapping[str, Sequence[str]] = {}
        if request.method == "POST":
            try:
                form = await read_form(request)
            except WrongFormError as error:
                return refusal.problem(error.status, "Not understood", str(error))
            csrf = next(iter(form.get("csrf", ())), None)
            if not by_program and not (is_ours(request) and has_csrf(session, csrf)):
                why = (
                    "the form came from another site" if not is_ours(request) else "the form is of no session"
                )
                refusal.refused(why, page=request.url.path)
                text = "The form was not one of this session: open the page again, and send it once more."
                return refusal.problem(403, "Not done", text)
        if session.role < role:
            refusal.refused(f"this needs the role {role.word}", page=request.url.path)
            text = f"This needs the role {role.word}, and you are {session.role.word}: ask an administrator."
            return refusal.problem(403, "Not allowed", text)
        response = await run_in_threadpool(_answer, page, make(form=form))
        if request.cookies.get(COOKIE) != session.key and gate.sessions.find(session.key, touch=False):
            gate.remember(response, session)
        return response

    return serve


def _answer(page: Page, visit: Visit) -> Response:
    try:
        return page(visit)
    except UnavailableError as error:
        return visit.problem(
            503, "The history does not answer", outage(visit.operations.pulse, error), passes=True
        )
    except UnknownNameError as error:
        return visit.problem(404, "There is no such name", str(error))
    except ConfigurationError as error:
        if error.setting in {"history", "parking"}:  # nothing that a request gives is named like these
            return visit.problem(503, "The history cannot be opened", str(error), passes=True)
        return visit.problem(400, "Not done", str(error))
    except DoubtlessError as error:
        return visit.problem(409, "Not done", str(error))


def outage(pulse: Pulse, error: DoubtlessError) -> str:
    """Say which history does not answer, since when, and what to do; ``error`` is of a call just now."""
    pulse.look()
    away = [f"{one.address} has not answered since {moment(one.away_since)}." for one in pulse.away]
    return " ".join(
        [f"The history failed: {problem_of(error).rstrip('.')}.", *away, "Try again in a moment."]
    )


def ask_for_token(request: Request, recorder: Recorder, seconds: float) -> Response:
    """Refuse a program without a valid token; after wrong tokens it must wait some seconds."""
    page = request.url.path
    if seconds > 0:
        recorder.count(denial_of(request, "throttled: too many wrong tokens", page=page))
        text = f"too many wrong tokens: try again in {math.ceil(seconds)} s\n"
        return PlainTextResponse(text, 429, {"Retry-After": str(math.ceil(seconds))})
    recorder.count(denial_of(request, "there is neither a session nor such a token", page=page))
    text = "send the header Authorization: Bearer TOKEN, with one of the dashboard's tokens\n"
    return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})


def sign_in_first(request: Request) -> Response:
    """Send a user without a session to the sign-in; forms and a page's own requests are refused."""
    if request.method != "GET" or is_by_itself(request):
        return PlainTextResponse("sign in first\n", 401)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(url("/sign-in", next=None if wanted == "/" else wanted), 303)


async def read_form(request: Request) -> Mapping[str, Sequence[str]]:
    """Read a form.

    Raises:
        WrongFormError: it is invalid, too large, too slow, or its sender went away.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise WrongFormError("A form was expected.")
    try:
        async with asyncio.timeout(LONGEST_WAIT):
            body = await _read_body(request)
    except TimeoutError as error:
        raise WrongFormError(f"The form took longer than {LONGEST_WAIT:g} seconds.", 408) from error
    except ClientDisconnect as error:  # nobody is there to read the answer
        raise WrongFormError("The form broke off.") from error
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise WrongFormError("The form cannot be read.") from error


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            raise WrongFormError(f"The form has more than {LARGEST_FORM:,} bytes.", 413)
    return bytes(body)
