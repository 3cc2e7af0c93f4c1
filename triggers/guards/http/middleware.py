"""The ASGI middleware for the ``Idempotency-Key`` header."""

import asyncio
import json
import logging
import math
from collections.abc import Callable, Collection, Generator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any, Unpack, cast

from history.beside.kept import needed_beside
from history.beside.results import KeptResult, Results
from history.bridge import settled
from history.errors import ConfigurationError, HistoryUnavailableError, UnavailableError
from history.identity import REMEDY, IdentityError, canonical
from history.message import Message
from history.shell import to_its_end
from history.store import HistoryStore
from history.store.parking import parked_id
from history.support.encryption import DecryptionError
from history.support.rendering import exception_info, told_of
from triggers.detection.table import Status
from triggers.guards.guard import Guard, protect, running
from triggers.guards.http.answer import HttpAnswer, problem, replay
from triggers.guards.http.options import Authorize, Caller, check_limits, check_options
from triggers.guards.http.quota import Quota
from triggers.guards.http.request import (
    App,
    MalformedKeyError,
    Receive,
    Request,
    Scope,
    Send,
    default_caller,
    read_body,
    replayed_body,
)
from triggers.guards.http.shadow import attempted, let_through, say
from triggers.service.checking import pointing
from triggers.service.failures import TransientError
from triggers.service.options import GuardOptions, HostOptions, check_names
from triggers.service.outcome import Outcome

_log = logging.getLogger(__name__)

#: How long a client should wait while another request with its key runs, in seconds.
RETRY_AFTER = 1

#: The entry of a request's scope with the names of the guards around it.
_GUARDED = "doubtless.guarded"

#: Why a request without a known caller is refused.
UNKNOWN_CALLER = "nothing in it identifies the caller, so its key could be another caller's"

#: The pauses between the looks of a request that waits for another request, in seconds: first and longest.
FIRST_LOOK, LAST_LOOK = 0.02, 0.5


class ReleasedError(TransientError):
    """The application's answer asks for another try: the key is free again."""


class IdempotencyKey:
    """Runs a request once for each ``Idempotency-Key``, and gives a second request the first answer.

    Args:
        app: the ASGI application.
        history: a URL or a store; it also keeps the answers.
        name: the namespace in the history, equal in all processes of the service.
        scope: tells callers apart, for example by the id of a user: a key belongs to its caller. If it is
            missing or returns None, the guard uses the user that an authentication above the guard has found,
            the client's certificate, and the headers that commonly carry credentials, such as Authorization
            and X-API-Key. Without Authorization, it also uses the cookies. If none of these identifies the
            caller, a request with a key is refused. A coroutine function may also tell them apart.
        authorize: called with the request before a copy gets the first answer. If it returns False or raises,
            the copy is refused. It may be a coroutine function.
        methods: the methods of the requests to guard.
        required: refuse a request without a key.
        wait: how long a request waits for a running request with its key; None answers 409 immediately.
        request_limit: the most bytes of a request's body; a longer one with a key is refused.
        answer_limit: the most bytes of an answer that is kept; a longer answer is passed on, and not kept.
        keys_per_hour: the most new keys of one caller in an hour, in this process; then requests with a key
            are answered with 429 until the hour is over. None sets no limit.
        options: as in :func:`triggers.guards.protect`; an answer is kept for ``history_time_to_live``.

    Raises:
        ConfigurationError: naming the option and the remedy.

    Guarantee: in doubt; fenced, if the application's targets check ``running().fence``.
    """

    def __init__(  # noqa: PLR0913  (its options are its parameters)
        self,
        app: App,
        *,
        history: str | HistoryStore,
        name: str = "http",
        scope: Caller | None = None,
        authorize: Authorize | None = None,
        methods: Collection[str] = ("POST", "PATCH"),
        required: bool = False,
        wait: timedelta | None = None,
        request_limit: int = 1_000_000,
        answer_limit: int = 1_000_000,
        keys_per_hour: int | None = None,
        **options: Unpack[HostOptions],
    ) -> None:
        with pointing():
            check_options(history, scope, authorize, methods)
            check_limits(required, wait, request_limit, answer_limit, keys_per_hour)
        check_names("IdempotencyKey", options, HostOptions.__annotations__)
        self._app = app
        # An answer that asks for another try releases the key, although the application was called.
        self._in_shadow = options.get("shadow", False)
        guard_options = cast("GuardOptions", {**options, "transacted": True, "transient": (ReleasedError,)})
        if self._in_shadow:
            guard_options = cast("GuardOptions", {**options, "on_retry_failure": "suspend"})
        self.guard: Guard = protect(name, history=history, **guard_options)
        self._caller, self._authorize = scope, authorize
        self._methods = frozenset(method.upper() for method in methods)
        self._required = required
        self._wait = 0.0 if wait is None else wait.total_seconds()
        self._request_limit, self._answer_limit = request_limit, answer_limit
        self._quota = Quota(keys_per_hour)
        self._said: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI says."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, partial(self._until_shutdown, send))
            return
        is_guarded = self.guard.name in scope.get(_GUARDED, ())  # by the same guard, further outside
        if scope["type"] != "http" or is_guarded or scope["method"].upper() not in self._methods:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            key = request.key
        except MalformedKeyError:
            if self._in_shadow:
                say(self.guard, "400, its key is malformed")
                await self._app(scope, receive, send)
                return
            detail = 'send Idempotency-Key: "a uuid", once, with 1 to 255 characters of ASCII'
            await problem(send, 400, "malformed-key", detail)
            return
        if key is not None:
            await self._guarded(request, key, receive, send)
        elif self._required and self._in_shadow:
            say(self.guard, "400, it has no key")
            await self._app(scope, receive, send)
        elif self._required:
            await problem(send, 400, "missing-key", "this request needs an Idempotency-Key header")
        else:
            await self._app(scope, receive, send)

    async def _until_shutdown(self, send: Send, event: MutableMapping[str, Any]) -> None:
        """Pass on an event of the application's life; close the connections before its end is reported."""
        if event["type"].startswith("lifespan.shutdown."):
            try:
                await self.guard.aclose()
            except Exception as error:  # noqa: BLE001  (any error of a store: the server must learn of the end)
                text = told_of(error, self.guard.settings.redaction)
                _log.warning("%s: its connections cannot be closed: %s", self.guard.name, text)
        await send(event)

    async def _guarded(self, request: Request, key: str, receive: Receive, send: Send) -> None:
        if self._in_shadow:
            caller = await attempted(self.guard, lambda: self._caller_of(request))
            if caller is None:
                say(self.guard, f"403, {UNKNOWN_CALLER}")
            await let_through(
                self.guard,
                request,
                receive,
                send,
                app=self._app,
                limit=self._request_limit,
                judged=lambda body: _Work(self, request, request.uuid(str(caller), key), body),
            )
            return
        caller = await self._caller_of(request)
        if caller is None:
            self.say_once(f"a request is refused: {UNKNOWN_CALLER}; give scope=")
            await problem(send, 403, "unknown-caller", UNKNOWN_CALLER)
            return
        if seconds := math.ceil(self._quota.wait(caller)):
            detail = "this caller has used too many new keys; send it again later with the same key"
            await problem(send, 429, "too-many-keys", detail, retry_after=seconds)
            return
        with ExitStack() as reserved:
            reserved.enter_context(self._quota.running(caller))
            try:
                body = await read_body(receive, self._request_limit)
            except ConnectionResetError:
                return
            if body is None:
                await problem(
                    send, 413, "body-too-large", f"with a key a body has {self._request_limit} bytes at most"
                )
                return
            count = partial(self._quota.count, caller)
            work = _Work(self, request, request.uuid(caller, key), body, count, reserved.pop_all())
        # In a separate task: a server that ends a request when its client goes away does not end the run.
        await to_its_end(work.serve(receive, send))

    async def _caller_of(self, request: Request) -> str | None:
        """Return who sends a request; None if that is unknown.

        Raises:
            ConfigurationError: ``scope`` returned a value that identifies nobody, such as an object.
            Exception: any exception of ``scope``.
        """
        named = None if self._caller is None else await settled(self._caller(request))
        try:
            return canonical(named) or default_caller(request)
        except IdentityError as error:
            raise ConfigurationError("scope", error.problem, REMEDY) from error

    async def allows(self, request: Request) -> bool:
        """Whether the caller of a copy may have the first answer."""
        if self._authorize is None:
            return True
        try:
            return bool(await settled(self._authorize(request)))
        except Exception as error:  # noqa: BLE001  (a user's function may raise anything)
            _log.warning(
                "%s: authorize= failed: %s", self.guard.name, told_of(error, self.guard.settings.redaction)
            )
            return False

    def say_once(self, what: str) -> None:
        """Log something about this service, the first time."""
        if what not in self._said:
            self._said.add(what)
            _log.warning("%s: %s", self.guard.name, what, extra={"trigger": self.guard.name})

    def results(self) -> Results:
        """Return the object that keeps the answers.

        Raises:
            ConfigurationError: the store keeps no answers.
        """
        return needed_beside(self.guard.store_for_asyncio(), "history", "results").results

    async def call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application."""
        await self._app(scope, receive, send)

    @property
    def wait(self) -> float:
        """How many seconds a request waits for another request."""
        return self._wait

    @property
    def answer_limit(self) -> int:
        """The most bytes of an answer that is kept."""
        return self._answer_limit


@contextmanager
def _marked(scope: Scope, guard: str) -> Generator[None]:
    """Name a guard in the scope of the request that it runs, and hide extensions that bypass the answer.

    Afterwards the scope is as before: a middleware outside of the guard may use it again for another try.
    """
    extensions: dict[str, Any] = scope.get("extensions") or {}
    ours = {
        _GUARDED: (*scope.get(_GUARDED, ()), guard),
        # An answer that is a file's name could not be kept.
        "extensions": {
            name: value for name, value in extensions.items() if not name.startswith("http.response.")
        },
    }
    before = {name: scope[name] for name in ours if name in scope}
    scope.update(ours)
    try:
        yield
    finally:
        for name in ours:
            scope.pop(name, None)
        scope.update(before)


@dataclass(slots=True)
class _Work:
    """One request with a key."""

    middleware: IdempotencyKey
    request: Request
    uuid: str
    body: bytes
    count: Callable[[], None] = lambda: None
    reserved: ExitStack = field(default_factory=ExitStack)

    @property
    def _message(self) -> Message:
        return Message(uuid=self.uuid, body=self.request.shown(self.body))

    async def serve(self, receive: Receive, send: Send) -> None:
        """Run it or not, and answer."""
        with self.reserved:
            await self._serve(receive, send)

    async def _serve(self, receive: Receive, send: Send) -> None:
        answer = HttpAnswer(send, self.middleware.answer_limit)
        body = replayed_body(self.body, receive, answer.concerns_client)
        failure: list[Exception] = []
        away: list[UnavailableError] = []

        async def run() -> None:
            try:
                await self._keep(None)
            except UnavailableError as error:
                away.append(error)
                raise ReleasedError("the history went away before it began") from error
            try:
                await self.middleware.call(self.request.scope, body, answer.take)
            except Exception as error:  # noqa: BLE001  (raised again once the key is free, or kept)
                failure.append(error)
            if not answer.is_final:
                raise ReleasedError(f"the application answered {answer.status}")
            await self._keep_answer(answer)

        try:
            if await self.is_for_another_body():
                await self._refuse_body(send)
                return
            with _marked(self.request.scope, self.middleware.guard.name):
                outcome = await self._handle(run)
        except UnavailableError:
            await self._away(send)
            return
        if away:
            await self._away(send)
        elif outcome.executed:
            await answer.give()  # it is true, whether or not it could be kept
            if failure:
                raise failure[0]
        else:
            await self._answer(outcome, send)

    async def judge(self, run: Callable[[], Any]) -> Outcome:
        """Run it in shadow."""
        return await self.middleware.guard.ahandle_message(self._message, run)

    async def note_body(self) -> None:
        """Keep only the fingerprint."""
        await self._keep(None)

    async def _handle(self, run: Callable[[], Any]) -> Outcome:
        """Run it unless it is known; while another run is alive, look again until the wait is over."""
        until, pause = monotonic() + self.middleware.wait, FIRST_LOOK
        while True:
            outcome = await self.middleware.guard.ahandle_message(self._message, run)
            if outcome.executed or outcome.parked:
                self.count()
            if outcome.executed or outcome.acknowledge or outcome.suspend or monotonic() >= until:
                return outcome
            await asyncio.sleep(min(pause, max(until - monotonic(), 0)))
            pause = min(2 * pause, LAST_LOOK)

    async def _answer(self, outcome: Outcome, send: Send) -> None:
        """Answer a request that did not run."""
        try:
            if await self.is_for_another_body():  # it came while another request with its key began
                await self._refuse_body(send)
                return
            kept = await self._first_answer() if outcome.status is Status.DUPLICATE else None
        except UnavailableError:
            await self._away(send)
            return
        if kept is not None and not await self.middleware.allows(self.request):
            await problem(send, 403, "not-allowed", "the first answer is not for this caller any more")
        elif kept is not None:
            await replay(send, kept)
        elif outcome.status is Status.DUPLICATE:
            detail = "this request was done before; its answer was not kept. Look what became of it"
            await problem(send, 409, "answer-not-kept", detail, uuid=self.uuid)
        elif outcome.suspend:
            await self._away(send)
        elif not outcome.acknowledge:
            seconds = max(RETRY_AFTER, math.ceil(min(outcome.recover_after, 5)))
            await problem(send, 409, "in-progress", "this request runs at this moment", retry_after=seconds)
        else:
            await self._in_doubt(outcome, send)

    async def _in_doubt(self, outcome: Outcome, send: Send) -> None:
        detail = "nobody can know whether this was done: a person decides. Do not send it with another key"
        parked = parked_id(self.middleware.guard.name, self._message) if outcome.parked else None
        await problem(send, 409, "in-doubt", detail, uuid=self.uuid, parked_id=parked)

    async def _refuse_body(self, send: Send) -> None:
        await problem(send, 422, "another-body", "this key was used for another body; take a new key for it")

    async def _away(self, send: Send) -> None:
        detail = "what was done before cannot be looked up now; send it again with the same key"
        await problem(send, 503, "history-away", detail, retry_after=RETRY_AFTER)

    async def _keep_answer(self, answer: HttpAnswer) -> None:
        """Keep the answer before the entry is completed, so that every completed entry has its answer.

        A failure here is logged, and must not free the key: the request has been carried out.
        """
        kept = answer.kept()
        if kept is None:
            limit = self.middleware.answer_limit
            self.middleware.say_once(f"answers that break off, or of more than {limit} bytes, are not kept")
        try:
            await self._keep(kept)
        except Exception as error:  # noqa: BLE001  (a store of somebody else's may raise anything)
            name, redact = self.middleware.guard.name, self.middleware.guard.settings.redaction
            info = exception_info(error, redact=redact)
            _log.warning("%s: an answer is not kept", name, exc_info=info, extra={"trigger": name})

    async def _keep(self, answer: dict[str, Any] | None) -> None:
        """Keep the fingerprint and, if it exists, the answer."""
        record = {"fingerprint": self.request.fingerprint(self.body), "answer": answer}
        guard, fence = self.middleware.guard, running().fence or 0
        data = json.dumps(record).encode()
        await self.middleware.results().put(
            guard.name, self.uuid, KeptResult(fence, data), self._time_to_live
        )

    @property
    def _time_to_live(self) -> timedelta:
        return self.middleware.guard.settings.history_time_to_live

    async def _record(self) -> tuple[int, dict[str, Any]] | None:
        try:
            kept = await self.middleware.results().get(self.middleware.guard.name, self.uuid)
        except DecryptionError as error:  # with the right key it may be read
            self.middleware.say_once(f"a kept answer cannot be read: {error}")
            raise HistoryUnavailableError("reading a kept answer") from error
        return None if kept is None else (kept.fence, json.loads(kept.data))

    async def is_for_another_body(self) -> bool:
        """Whether its key was used for another body."""
        record = await self._record()
        return record is not None and record[1]["fingerprint"] != self.request.fingerprint(self.body)

    async def _first_answer(self) -> dict[str, Any] | None:
        """Return the answer of the run that completed the entry, and of no other run."""
        record = await self._record()
        store = self.middleware.guard.store_for_asyncio()
        if record is None or store is None:
            return None
        (entry,) = await store.lookup(self.middleware.guard.name, [self.uuid])
        fence, document = record
        answer: dict[str, Any] | None = document["answer"]
        return answer if entry is not None and entry.is_of(fence) else None
