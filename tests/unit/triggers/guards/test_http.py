"""The HTTP guard on plain ASGI: which requests run, get a stored answer, or are refused."""

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from history import MemoryHistory
from history.support.redaction import CARD_NUMBERS, Redact
from triggers import ConfigurationError
from triggers.guards.http import IdempotencyKey, Request
from triggers.guards.http.options import Caller
from triggers.guards.http.quota import Quota
from triggers.guards.http.request import CREDENTIALS, default_caller

Sent = MutableMapping[str, Any]

CARD = "4111 1111 1111 1111"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = json.loads(self.body)
        assert document["status"] == self.status
        return document


class User(SimpleNamespace):
    """The user that an authentication puts into the scope."""


class Unnamed(User):
    @property
    def identity(self) -> str:
        raise NotImplementedError


class Shop:
    """An application that charges, and answers as its attributes say; ``app`` has a guard around it."""

    def __init__(self) -> None:
        self.charged: list[bytes] = []
        self.status = 201
        self.headers: list[tuple[bytes, bytes]] = [(b"content-type", b"text/plain")]
        self.announces_length = True
        self.error: BaseException | None = None
        self.late_error: Exception | None = None
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()
        self.go_on.set()
        self.store = MemoryHistory()
        self.app = self.guarded(lease=timedelta(hours=1))

    def guarded(self, scope: Caller | None = None, **options: Any) -> IdempotencyKey:
        """Return this application behind a guard over its history."""
        options.setdefault("history", self.store)
        return IdempotencyKey(self, scope=scope, **options)

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
        self.charged.append(event["body"])
        self.entered.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        body = b"charge %d" % len(self.charged)
        length = [(b"content-length", b"%d" % len(body))] if self.announces_length else []
        await send(
            {"type": "http.response.start", "status": self.status, "headers": [*self.headers, *length]}
        )
        await send({"type": "http.response.body", "body": body[:3], "more_body": True})
        await send({"type": "http.response.body", "body": body[3:]})
        if self.late_error is not None:
            raise self.late_error


async def ask(  # noqa: PLR0913  (the parts of a request)
    app: Any,
    key: str | None = "k1",
    *,
    body: bytes = b'{"amount": 5}',
    path: str = "/charges",
    query: bytes = b"",
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    raw_path: bytes | None = None,
    sent: list[Sent] | None = None,
    known: Mapping[str, Any] | None = None,
) -> Reply:
    """Send a request with the headers of one application; ``headers`` replace them."""
    given = {"content-type": "application/json", "x-api-key": "shop", **(headers or {})}
    if key is not None:
        given["Idempotency-Key"] = key
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
    }
    scope |= known or {}
    requests: list[Sent] = [
        {"type": "http.request", "body": body[:4], "more_body": True},
        {"type": "http.request", "body": body[4:]},
    ]
    if raw_path is not None:
        scope["raw_path"] = raw_path
    sent = [] if sent is None else sent

    async def receive() -> Sent:
        return requests.pop(0) if requests else {"type": "http.disconnect"}

    async def send(event: Sent) -> None:
        sent.append(event)

    await app(scope, receive, send)
    head = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], head, b"".join(event["body"] for event in sent[1:]))


@pytest.fixture
async def shop() -> Shop:
    return Shop()


class TestReplay:
    async def test_the_first_answer_is_given_again(self, shop: Shop) -> None:
        shop.headers += [(b"location", b"/charges/1"), (b"set-cookie", b"session=secret")]

        first, second = await ask(shop.app), await ask(shop.app)

        assert (first.status, first.body) == (second.status, second.body) == (201, b"charge 1")
        assert "idempotent-replayed" not in first.headers
        assert first.headers["set-cookie"] == "session=secret"
        assert second.headers == {
            "content-type": "text/plain",
            "location": "/charges/1",
            "idempotent-replayed": "true",
            "content-length": "8",
        }
        assert shop.charged == [b'{"amount": 5}']

    async def test_a_quoted_key_is_the_same_as_a_bare_one(self, shop: Shop) -> None:
        assert [(await ask(shop.app, key)).body for key in ('"k1"', "k1")] == [b"charge 1"] * 2

    @pytest.mark.parametrize("status", [204, 304, 400, 404, 422])
    async def test_an_answer_that_is_final_is_kept(self, shop: Shop, status: int) -> None:
        shop.status = status

        first, second = await ask(shop.app), await ask(shop.app)

        assert first.status == second.status == status
        assert len(shop.charged) == 1

    @pytest.mark.parametrize("status", [307, 308, 401, 403, 407, 408, 421, 425, 429, 500, 503])
    async def test_an_answer_that_asks_for_another_try_gets_one(self, shop: Shop, status: int) -> None:
        shop.status = status
        first = await ask(shop.app)
        shop.status = 201

        second = await ask(shop.app)

        assert (first.status, second.status, second.body) == (status, 201, b"charge 2")
        assert not await shop.store.parking.list()

    async def test_a_handler_that_raises_frees_the_key(self, shop: Shop) -> None:
        shop.error = ConnectionError("the bank is away")
        with pytest.raises(ConnectionError, match="bank"):
            await ask(shop.app)
        shop.error = None

        assert (await ask(shop.app)).status == 201
        assert (await ask(shop.app)).headers["idempotent-replayed"] == "true"

    async def test_what_fails_after_the_answer_does_not_run_again(self, shop: Shop) -> None:
        shop.late_error = RuntimeError("in the background")
        with pytest.raises(RuntimeError):
            await ask(shop.app)

        assert (await ask(shop.app)).body == b"charge 1"
        assert len(shop.charged) == 1

    async def test_after_its_time_to_live_a_key_is_new(self, shop: Shop) -> None:
        now = [datetime(2026, 1, 1, tzinfo=UTC)]
        store = MemoryHistory(clock=lambda: now[0])
        app = IdempotencyKey(shop, history=store, history_time_to_live=timedelta(hours=1))
        await ask(app)
        now[0] += timedelta(hours=2)

        assert (await ask(app, body=b"{}")).body == b"charge 2"

    async def test_a_key_that_is_forgotten_may_come_with_another_body(self, shop: Shop) -> None:
        await ask(shop.app)
        assert (await ask(shop.app, body=b"{}")).status == 422

        assert await shop.store.forget("http", uuid_of("k1"))

        assert (await ask(shop.app, body=b"{}")).body == b"charge 2"

    async def test_the_answer_of_another_run_is_never_shown(self, shop: Shop) -> None:
        await ask(shop.app)
        uuid = uuid_of("k1")
        kept = await shop.store.results.get("http", uuid)
        assert kept is not None
        await shop.store.forget("http", uuid)
        await shop.store.results.put("http", uuid, kept, timedelta(hours=1))
        (claim,) = await shop.store.claim("http", [uuid], "an operator")
        await shop.store.complete("http", uuid, claim.fence)

        reply = await ask(shop.app)

        assert (reply.status, reply.problem["type"]) == (409, "urn:doubtless:answer-not-kept")


def uuid_of(key: str) -> str:
    scope: dict[str, Any] = {"method": "POST", "path": "/charges", "query_string": b""}
    request = Request(scope | {"headers": [(b"x-api-key", b"shop")]})
    return request.uuid(str(default_caller(request)), key)


class TestAddresses:
    async def test_each_host_that_a_proxy_replaced_has_keys_of_its_own(self, shop: Shop) -> None:
        said = [{"x-forwarded-host": "a.shop.example"}, {"x-forwarded-host": "b.shop.example"}]
        said += [{"forwarded": f'for=10.0.0.1;Host="{name}.shop.example:443";proto=https'} for name in "cde"]

        bodies = [(await ask(shop.app, headers={"host": "inside", **sent})).body for sent in said * 2]

        assert bodies[:5] == bodies[5:]
        assert len(set(bodies)) == 5

    async def test_a_proxy_that_keeps_the_host_does_not_change_whose_keys_they_are(self, shop: Shop) -> None:
        said = [{}, {"x-forwarded-host": "a.shop.example"}, {"forwarded": "host=a.shop.example"}]

        bodies = {(await ask(shop.app, headers={"host": "a.shop.example", **sent})).body for sent in said}

        assert len(bodies) == 1

    async def test_each_host_has_keys_of_its_own(self, shop: Shop) -> None:
        for host in ("a.shop.example", "b.shop.example", "A.shop.example", "a.shop.example:8443"):
            await ask(shop.app, headers={"host": host})

        assert len(shop.charged) == 2

    async def test_paths_that_decode_alike_are_two_addresses(self, shop: Shop) -> None:
        for raw_path in (b"/files/a%2Fb", b"/files/a/b", b"/files/a/b?key=1"):
            await ask(shop.app, path="/files/a/b", raw_path=raw_path)

        assert len(shop.charged) == 2

    @pytest.mark.parametrize("kind", ["Application/JSON", "application/json; charset=utf-8"])
    async def test_a_media_type_has_no_case_and_its_parameters_change_nothing(
        self, shop: Shop, kind: str
    ) -> None:
        first = await ask(shop.app, body=b'{"a": 1, "b": 2}')
        second = await ask(shop.app, body=b'{"b": 2, "a": 1}', headers={"content-type": kind})

        assert (first.body, second.body) == (b"charge 1", b"charge 1")
        assert len(shop.charged) == 1


class TestStreams:
    async def test_an_answer_without_a_length_streams_and_is_kept(self, shop: Shop) -> None:
        shop.announces_length = False

        first, second = await ask(shop.app), await ask(shop.app)

        assert (first.body, second.body) == (b"charge 1", b"charge 1")
        assert (second.headers["idempotent-replayed"], len(shop.charged)) == ("true", 1)

    @pytest.mark.parametrize("announces_length", [True, False])
    async def test_what_an_outer_middleware_does_to_an_answer_is_not_kept(
        self, shop: Shop, *, announces_length: bool
    ) -> None:
        shop.announces_length = announces_length

        async def compressing(scope: Any, receive: Any, send: Any) -> None:
            async def changed(event: Sent) -> None:
                if event["type"] == "http.response.start":
                    event["headers"].append((b"content-encoding", b"gzip"))  # as Starlette's GZipMiddleware
                await send(event)

            await shop.app(scope, receive, changed)

        first, copy = await ask(compressing), await ask(compressing)
        direct = await ask(shop.app)

        assert first.headers["content-encoding"] == copy.headers["content-encoding"] == "gzip"
        assert direct.headers["idempotent-replayed"] == "true"
        assert "content-encoding" not in direct.headers

    @pytest.mark.parametrize("announces_length", [True, False])
    async def test_a_long_answer_goes_through_and_is_not_kept(
        self, shop: Shop, caplog: pytest.LogCaptureFixture, *, announces_length: bool
    ) -> None:
        shop.announces_length = announces_length
        app = shop.guarded(answer_limit=7)

        first, second = await ask(app), await ask(app)
        await ask(app, "k2")

        assert first.body == b"charge 1"
        assert (second.status, second.problem["type"]) == (409, "urn:doubtless:answer-not-kept")
        assert len(shop.charged) == 2
        assert sum("are not kept" in text for text in caplog.messages) == 1

    @pytest.mark.parametrize("redact", [None, CARD_NUMBERS])
    async def test_the_log_of_an_answer_that_is_not_kept_has_nothing_that_redact_finds(
        self,
        shop: Shop,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
        redact: Redact | None,
    ) -> None:
        async def fail(*_: Any) -> None:
            raise RuntimeError(f"cannot keep {CARD}")

        async def answer(*words: Any) -> None:
            monkeypatch.setattr(guarded.results(), "put", fail)
            await shop(*words)

        guarded = IdempotencyKey(answer, history=shop.store, redact=redact)

        await ask(guarded)

        assert "an answer is not kept" in caplog.text
        assert (CARD in caplog.text) is (redact is None)

    @pytest.mark.parametrize(
        ("kind", "before_the_end"), [(b"text/event-stream", [b"cha"]), (b"text/plain", [])]
    )
    async def test_only_server_sent_events_leave_before_the_next_part(
        self, shop: Shop, kind: bytes, before_the_end: list[bytes]
    ) -> None:
        sent: list[Sent] = []
        seen: list[list[bytes]] = []

        async def live(_scope: Any, _receive: Any, send: Any) -> None:
            headers = [(b"content-type", kind)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"cha", "more_body": True})
            seen.append([event["body"] for event in sent[1:]])
            await send({"type": "http.response.body", "body": b"rge"})

        answer = await ask(IdempotencyKey(live, history=shop.store), sent=sent)

        assert (seen, answer.body) == ([before_the_end], b"charge")
        assert (await ask(IdempotencyKey(live, history=shop.store))).body == b"charge"
        assert len(seen) == 1

    async def test_what_is_no_request_goes_through(self, shop: Shop) -> None:
        seen: list[str] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope["type"])

        app = IdempotencyKey(application, history=shop.store, required=True)
        for kind in ("lifespan", "websocket"):
            await app({"type": kind}, _never, _never)

        assert seen == ["lifespan", "websocket"]


async def _never(*_: Any) -> Any:
    raise AssertionError


class TestShutdown:
    """An application that ends when a server says so through ASGI's lifespan."""

    @pytest.fixture
    def seen(self) -> list[str]:
        return []

    async def ended(self, app: Any, seen: list[str]) -> None:
        async def send(event: Sent) -> None:
            seen.append(event["type"])

        await app({"type": "lifespan"}, _never, send)

    def guarded(self, folder: Path, guard: dict[str, Any], seen: list[str]) -> IdempotencyKey:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await receive()
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body"})
                return
            for event in ("startup", "shutdown"):
                seen.append(str(guard["app"].guard.store_for_asyncio() is guard["store"]))
                await send({"type": f"lifespan.{event}.complete"})

        guard["app"] = app = IdempotencyKey(application, history=f"sqlite:///{folder / 'keys.sqlite3'}")
        guard["store"] = app.guard.store_for_asyncio()
        return app

    async def test_its_connections_are_closed_before_the_end_is_reported(
        self, tmp_path: Path, seen: list[str]
    ) -> None:
        guard: dict[str, Any] = {}
        app = self.guarded(tmp_path, guard, seen)
        assert (await ask(app)).status == HTTPStatus.NO_CONTENT

        await self.ended(app, seen)

        assert seen == ["True", "lifespan.startup.complete", "True", "lifespan.shutdown.complete"]
        assert app.guard.store_for_asyncio() is not guard["store"]
        assert (await ask(app)).headers["idempotent-replayed"] == "true"  # it opens them again
        await app.guard.aclose()

    async def test_the_end_is_reported_even_if_they_cannot_be_closed(
        self, tmp_path: Path, seen: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def broken() -> None:
            raise ConnectionError

        app = self.guarded(tmp_path, {}, seen)
        monkeypatch.setattr(app.guard, "aclose", broken)

        await self.ended(app, seen)

        assert seen[-1] == "lifespan.shutdown.complete"


class TestRefusals:
    async def test_a_missing_key_is_refused_where_one_is_required(self, shop: Shop) -> None:
        app = shop.guarded(required=True)

        reply = await ask(app, None)

        assert (reply.status, reply.problem["type"]) == (400, "urn:doubtless:missing-key")
        assert not shop.charged
        assert (await ask(app, None, method="GET")).status == 201

    async def test_without_a_key_a_request_goes_through_where_none_is_required(self, shop: Shop) -> None:
        assert [(await ask(shop.app, None)).body for _ in range(2)] == [b"charge 1", b"charge 2"]

    @pytest.mark.parametrize("key", ["", "  ", '""', "a, b", '"a', "a b", '"a" "b"', "x" * 256, "é"])
    async def test_a_malformed_key_is_refused(self, shop: Shop, key: str) -> None:
        reply = await ask(shop.app, key)

        assert (reply.status, reply.problem["type"]) == (400, "urn:doubtless:malformed-key")
        assert not shop.charged

    async def test_a_key_with_another_body_is_refused(self, shop: Shop) -> None:
        await ask(shop.app, body=b'{"amount": 5, "to": "a"}')

        same = await ask(shop.app, body=b'{"to":"a","amount":5}')
        other = await ask(shop.app, body=b'{"amount": 50, "to": "a"}')

        assert (same.status, same.body) == (201, b"charge 1")
        assert (other.status, other.problem["type"]) == (422, "urn:doubtless:another-body")
        assert len(shop.charged) == 1

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (b'{"a": 0.1}', b'{"a": 0.10000000000000000001}'),
            (b'{"a": 1, "a": 2}', b'{"a": 2}'),
            (b"[1]", b"[2]"),
            (b"no json", b"no  json"),
        ],
    )
    async def test_bodies_that_differ_are_told_apart(self, shop: Shop, first: bytes, second: bytes) -> None:
        await ask(shop.app, body=first)

        assert (await ask(shop.app, body=second)).status == 422

    @pytest.mark.parametrize(
        "wrong",
        [
            *({"history": None}, {"scope": "user"}, {"methods": "POST"}, {"wait": 5}, {"retry": None}),
            *({"authorize": True}, {"authorize": lambda: True}, {"scope": lambda: "ann"}),
            *({"keys_per_hour": number} for number in (0, -1, 1.5, True, "9")),
            *({"methods": methods} for methods in ((), 5, [5], [""], b"POST")),
            *({"wait": -timedelta(seconds=1)}, {"required": "no"}, {"name": " "}),
            *({limit: size} for limit in ("request_limit", "answer_limit") for size in (-1, "9", 1.5, None)),
        ],
        ids="".join,
    )
    def test_what_it_cannot_do_is_refused(self, wrong: dict[str, Any]) -> None:
        options: dict[str, Any] = {"history": MemoryHistory(), **wrong}

        with pytest.raises(ConfigurationError) as refused:
            IdempotencyKey(_never, **options)

        assert refused.value.setting == next(iter(wrong))


class TestWhatAKeyIsBoundTo:
    @pytest.mark.parametrize(
        "other",
        [
            {"path": "/refunds"},
            {"query": b"dry=1"},
            {"method": "PATCH"},
            {"headers": {"authorization": "Bearer b"}},
            {"headers": {"cookie": "session=b"}},
            {"headers": {"X-API-Key": "b"}},
        ],
    )
    async def test_another_request_with_the_key_is_another_one(
        self, shop: Shop, other: dict[str, Any]
    ) -> None:
        assert (await ask(shop.app)).body == b"charge 1"
        assert (await ask(shop.app, **other)).body == b"charge 2"
        assert (await ask(shop.app)).body == b"charge 1"

    @pytest.mark.parametrize("name", CREDENTIALS)
    async def test_headers_that_authenticate_part_callers(self, shop: Shop, name: str) -> None:
        ann, bob, users = {name: "ann"}, {name: "bob"}, {name: "ann", "cookie": "session=b"}
        login = {name: "bob", "authorization": "Basic of-the-site"}

        replies = [await ask(shop.app, headers=sent) for sent in (ann, bob, users, login, ann, login)]

        charges = [b"charge 1", b"charge 2", b"charge 3", b"charge 4", b"charge 1", b"charge 4"]
        assert [reply.body for reply in replies] == charges

    def test_a_caller_without_them_is_who_it_was_before_they_counted(self) -> None:
        scope: dict[str, Any] = {"headers": [(b"authorization", b"Bearer a"), (b"cookie", b"session=b")]}

        assert default_caller(Request(scope)) == "e0e9ffe375a28fdd5a69441107ad183e"

    @pytest.mark.parametrize(
        "known",
        [
            {},
            {"user": None},
            {"user": User(is_authenticated=False, identity="ann")},
            {"user": User(is_authenticated=True)},
            {"user": {"name": ["ann"]}},
            {"user": User(id={"name": "ann"})},
            {"user": ""},
            {"extensions": {"tls": {"client_cert_name": None}}},
        ],
    )
    async def test_a_request_of_nobody_is_refused(
        self, shop: Shop, known: Mapping[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        replies = [await ask(shop.app, headers={"x-api-key": ""}, known=known) for _ in range(2)]

        assert [(reply.status, reply.problem["type"]) for reply in replies] == [
            (403, "urn:doubtless:unknown-caller")
        ] * 2
        assert not shop.charged
        assert len(caplog.records) == 1

    @pytest.mark.parametrize(
        "sent",
        [
            *(
                {"authorization": text}
                for text in ("Bearer", "Bearer null", "Bearer undefined", "Basic Og==")
            ),
            {"x-forwarded-user": "(null)"},
            {"x-api-key": "undefined"},
        ],
    )
    async def test_a_placeholder_identifies_nobody(self, shop: Shop, sent: Mapping[str, str]) -> None:
        none = {"x-api-key": "", **sent}
        replies = [await ask(shop.app, headers=said) for said in (none, {**none, "cookie": "a"})]

        assert [reply.status for reply in replies] == [403, 201]

    async def test_a_request_of_nobody_runs_where_scope_says_that_all_are_one(self, shop: Shop) -> None:
        app = shop.guarded(scope=lambda _: "anybody")

        replies = [await ask(app, headers={"x-api-key": ""}) for _ in range(2)]

        assert [reply.body for reply in replies] == [b"charge 1", b"charge 1"]

    @pytest.mark.parametrize(
        ("ann", "bob"),
        [
            pytest.param(
                {"user": User(is_authenticated=True, identity="ann", display_name="A")},
                {"user": User(is_authenticated=True, identity="bob", display_name="A")},
                id="identity",
            ),
            pytest.param(
                {"user": Unnamed(is_authenticated=True, display_name="ann")},
                {"user": Unnamed(is_authenticated=True, display_name="bob")},
                id="Starlette's own class",
            ),
            pytest.param(
                {"user": User(is_authenticated=True, pk=1)},
                {"user": User(is_authenticated=True, pk=2)},
                id="Django",
            ),
            pytest.param(
                {"user": Unnamed(is_authenticated=True, display_name="A", sub="ann")},
                {"user": Unnamed(is_authenticated=True, display_name="A", sub="bob")},
                id="two of one name",
            ),
            pytest.param({"user": User(id="ann")}, {"user": User(id="bob")}, id="Litestar"),
            pytest.param({"user": {"sub": "ann"}}, {"user": {"sub": "bob"}}, id="claims"),
            pytest.param({"user": "ann"}, {"user": "bob"}, id="text"),
            pytest.param(
                {"extensions": {"tls": {"client_cert_name": "CN=ann"}}},
                {"extensions": {"tls": {"client_cert_name": "CN=bob"}}},
                id="certificate",
            ),
        ],
    )
    async def test_who_an_authentication_has_found_is_another_caller(
        self, shop: Shop, ann: Mapping[str, Any], bob: Mapping[str, Any]
    ) -> None:
        nobody = {"x-api-key": ""}

        replies = [await ask(shop.app, headers=nobody, known=who) for who in (ann, bob, ann)]

        assert [reply.body for reply in replies] == [b"charge 1", b"charge 2", b"charge 1"]

    async def test_any_identity_says_whose_the_key_is_and_nothing_else(self, shop: Shop) -> None:
        user = UUID(int=7)
        identities: list[Any] = [0, 7, user, ["shop", 7], 0, "0", user]
        remaining = list(identities)
        app = shop.guarded(scope=lambda _: remaining.pop(0))

        replies = [await ask(app) for _ in identities]

        assert [reply.body[-1:] for reply in replies] == [b"1", b"2", b"3", b"4", b"1", b"1", b"3"]
        for nobody in (True, object(), {"id": 7}):
            remaining.append(nobody)
            with pytest.raises(ConfigurationError, match="scope"):
                await ask(app)
        assert len(shop.charged) == 4

    @pytest.mark.parametrize("waits", [False, True], ids=["plain", "coroutine"])
    async def test_scope_says_whose_the_key_is(self, shop: Shop, *, waits: bool) -> None:
        def plain(request: Request) -> str | None:
            return request.headers.get("x-user")

        async def waiting(request: Request) -> str | None:
            return plain(request)

        app = shop.guarded(scope=waiting if waits else plain)

        first = await ask(app, headers={"x-user": "ann", "authorization": "Bearer old"})
        same = await ask(app, headers={"x-user": "ann", "authorization": "Bearer new"})
        other = await ask(app, headers={"x-user": "bob", "authorization": "Bearer old"})
        nobody = await ask(app, headers={"authorization": "Bearer old"})

        replies = [first, same, other, nobody]
        assert [reply.body for reply in replies] == [b"charge 1", b"charge 1", b"charge 2", b"charge 3"]


class TestLargeBodies:
    @pytest.mark.parametrize("byte", [b"\xff", b"\x01", b"a"])
    async def test_a_body_of_the_limit_runs_whatever_it_is_made_of(self, shop: Shop, byte: bytes) -> None:
        assert (await ask(shop.app, body=byte * 1_000_000)).status == 201
        assert len(shop.charged) == 1
        assert await shop.store.parking.list() == []

    async def test_a_longer_one_is_refused_and_not_parked(self, shop: Shop) -> None:
        reply = await ask(shop.app, body=b"a" * 1_000_001)

        assert (reply.status, reply.problem["type"]) == (413, "urn:doubtless:body-too-large")
        assert not shop.charged
        assert await shop.store.parking.list() == []
        assert (await ask(shop.app, None, body=b"a" * 1_000_001)).status == 201


class TestWhoMayHaveTheAnswer:
    async def test_a_caller_that_may_not_gets_no_kept_answer(self, shop: Shop) -> None:
        revoked: set[str] = set()
        app = IdempotencyKey(
            shop, history=shop.store, authorize=lambda request: request.headers["x-api-key"] not in revoked
        )
        first, again = await ask(app), await ask(app)
        revoked.add("shop")

        refused = await ask(app)

        assert (first.body, again.body) == (b"charge 1", b"charge 1")
        assert (refused.status, refused.problem["type"]) == (403, "urn:doubtless:not-allowed")
        assert b"charge" not in refused.body
        assert len(shop.charged) == 1

    async def test_a_coroutine_function_is_asked_and_one_that_fails_gives_nothing_away(
        self, shop: Shop
    ) -> None:
        async def never(request: Request) -> bool:
            return False

        def fails(request: Request) -> bool:
            raise LookupError("no such session")

        for key, authorize in (("k1", never), ("k2", fails)):
            app = shop.guarded(authorize=authorize)
            assert [(await ask(app, key)).status for _ in range(2)] == [201, 403]


class TestKeysPerHour:
    async def test_a_caller_with_too_many_new_keys_waits_and_nobody_else_does(self, shop: Shop) -> None:
        app = shop.guarded(keys_per_hour=2)

        replies = [await ask(app, f"key-{number}") for number in (1, 1, 1, 2, 3)]
        other = await ask(app, "key-3", headers={"x-api-key": "another"})

        assert [reply.status for reply in replies] == [201, 201, 201, 201, 429]
        assert replies[-1].problem["type"] == "urn:doubtless:too-many-keys"
        assert 0 < replies[-1].problem["retry_after"] <= 3600
        assert (other.status, len(shop.charged)) == (201, 3)

    async def test_requests_in_progress_count(self, shop: Shop) -> None:
        app = shop.guarded(keys_per_hour=2)
        shop.go_on.clear()
        running = [asyncio.ensure_future(ask(app, f"key-{number}")) for number in range(2)]
        await shop.entered.wait()

        late = await ask(app, "key-3")
        shop.go_on.set()
        statuses = [(await reply).status for reply in running]

        assert (late.status, late.problem["retry_after"], statuses) == (429, 1, [201, 201])

    async def test_a_copy_that_has_ended_reserves_nothing(self, shop: Shop) -> None:
        app = shop.guarded(keys_per_hour=2, request_limit=5)
        bodies = (b"", b"too long", b"", b"", b"")

        statuses = [(await ask(app, "key-1", body=body)).status for body in bodies]

        assert (statuses, (await ask(app, "key-2", body=b"")).status) == ([201, 413, 201, 201, 201], 201)

    def test_the_count_begins_again_after_an_hour(self) -> None:
        now = [0.0]
        quota = Quota(1, lambda: now[0])
        quota.count("ann")

        waits = [quota.wait("ann"), quota.wait("bob")]
        now[0] = 3600.0

        assert waits == [3600.0, 0.0]
        assert quota.wait("ann") == 0.0


class TestInProgress:
    async def test_a_copy_of_a_running_request_is_told_to_come_again(self, shop: Shop) -> None:
        shop.go_on.clear()
        first = asyncio.ensure_future(ask(shop.app))
        await shop.entered.wait()

        copy, other = await ask(shop.app), await ask(shop.app, body=b"{}")
        shop.go_on.set()

        assert (copy.status, copy.problem["type"]) == (409, "urn:doubtless:in-progress")
        assert int(copy.headers["retry-after"]) >= 1
        assert other.status == 422
        assert (await first).status == 201
        assert len(shop.charged) == 1

    async def test_a_copy_may_wait_for_the_running_one(self, shop: Shop) -> None:
        app = shop.guarded(wait=timedelta(minutes=5), lease=timedelta(hours=1))
        shop.go_on.clear()
        copies = [asyncio.ensure_future(ask(app)) for _ in range(5)]
        await shop.entered.wait()
        shop.go_on.set()

        replies = await asyncio.gather(*copies)

        assert {(reply.status, reply.body) for reply in replies} == {(201, b"charge 1")}
        assert sum("idempotent-replayed" in reply.headers for reply in replies) == 4
        assert len(shop.charged) == 1

    async def test_a_client_that_goes_away_does_not_end_the_run(self, shop: Shop) -> None:
        shop.go_on.clear()
        first = asyncio.ensure_future(ask(shop.app))
        await shop.entered.wait()
        first.cancel()
        await asyncio.wait({first})
        shop.go_on.set()
        waiting = IdempotencyKey(shop, history=shop.store, wait=timedelta(minutes=5))

        assert (await ask(waiting)).body == b"charge 1"
        assert len(shop.charged) == 1

    async def test_an_application_that_ends_a_run_for_such_a_client_hears_of_it_when_it_has_answered(
        self, shop: Shop
    ) -> None:
        """Django cancels a view when its client goes away, in the middle of what it does."""
        done: list[str] = []

        async def view(send: Any) -> None:
            done.append("charged")
            for _turn in range(10):  # without the guard's protection it would be cancelled here
                await asyncio.sleep(0)
            await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

        async def like_django(_scope: Any, receive: Any, send: Any) -> None:
            while (await receive()).get("more_body"):
                pass
            tasks = {asyncio.ensure_future(receive()), asyncio.ensure_future(view(send))}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for one in tasks:
                one.cancel()

        app = IdempotencyKey(like_django, history=shop.store)

        assert [(await ask(app)).body for _ in range(2)] == [b"ok", b"ok"]
        assert done == ["charged"]

    async def test_the_end_of_a_stream_is_told_to_its_application(self, shop: Shop) -> None:
        async def feed(_scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"1", "more_body": True})
            assert (await receive())["type"] == "http.disconnect"

        assert (await ask(IdempotencyKey(feed, history=shop.store))).body == b"1"


class TestNested:
    async def test_a_guard_within_one_of_its_name_lets_through_what_that_one_runs(self, shop: Shop) -> None:
        both = IdempotencyKey(shop.app, history=shop.store)

        assert [(await ask(both)).body for _ in range(2)] == [b"charge 1", b"charge 1"]

    async def test_one_of_another_name_guards_too(self, shop: Shop) -> None:
        both = IdempotencyKey(shop.app, history=shop.store, name="outside")

        assert [(await ask(both)).body for _ in range(2)] == [b"charge 1", b"charge 1"]
        assert (await ask(shop.app)).headers["idempotent-replayed"] == "true"

    @pytest.mark.parametrize("known", [{}, {"extensions": {"http.response.pathsend": {}, "tls": {}}}])
    async def test_a_try_again_by_a_middleware_outside_of_it_is_guarded_too(
        self, shop: Shop, known: dict[str, Any]
    ) -> None:
        scopes: list[Sent] = []

        async def noting(scope: Any, receive: Any, send: Any) -> None:
            scopes.append(scope)
            await shop.app(scope, receive, send)

        shop.status = 503
        await ask(noting, known=known)
        shop.status = 201
        await ask(shop.app, known=scopes[0])

        copy = await ask(shop.app)

        assert (copy.body, copy.headers["idempotent-replayed"]) == (b"charge 2", "true")
        assert len(shop.charged) == 2
        assert scopes[0].get("extensions") == known.get("extensions")


class TestInDoubt:
    async def test_the_answer_names_what_is_parked(self, shop: Shop) -> None:
        uuid = uuid_of("k1")
        await shop.store.claim("http", [uuid], "a dead worker")

        reply = await ask(shop.app)

        assert (reply.status, reply.problem["type"]) == (409, "urn:doubtless:in-doubt")
        assert reply.problem["uuid"] == uuid
        parked = await shop.store.parking.get(reply.problem["parked_id"], trigger="http")
        assert parked is not None
        assert parked.uuid == uuid
        assert not shop.charged

    async def test_a_request_that_was_broken_off_still_knows_its_body(self, shop: Shop) -> None:
        shop.error = asyncio.CancelledError("what it waited for was cancelled")
        with pytest.raises(IndexError):  # nothing is sent
            await ask(shop.app)

        copy, other = await ask(shop.app), await ask(shop.app, body=b"{}")

        assert (copy.status, copy.problem["type"]) == (409, "urn:doubtless:in-doubt")
        assert (other.status, other.problem["type"]) == (422, "urn:doubtless:another-body")
        assert len(shop.charged) == 1

    async def test_a_lost_answer_does_not_make_it_run_again(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put, count = shop.store.results.put, [0]

        async def put_once(*args: Any) -> bool:
            count[0] += 1
            if count[0] > 1:
                raise ConnectionError
            return await put(*args)

        monkeypatch.setattr(shop.store.results, "put", put_once)

        assert (await ask(shop.app)).body == b"charge 1"
        assert (await ask(shop.app)).problem["type"] == "urn:doubtless:answer-not-kept"
        assert len(shop.charged) == 1


class TestShadow:
    """Every request runs, and is answered by the application."""

    async def test_a_copy_runs_again_and_gets_its_own_answer(
        self, shop: Shop, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = shop.guarded(shadow=True)

        first, second = await ask(app), await ask(app)

        assert (first.body, second.body) == (b"charge 1", b"charge 2")
        assert "idempotent-replayed" not in second.headers
        assert "in shadow it runs; without: DUPLICATE: it already ran" in caplog.text

    async def test_another_body_malformed_and_missing_keys_and_long_bodies_run(
        self, shop: Shop, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = shop.guarded(shadow=True, required=True, request_limit=20)
        long = b'"a body that is longer"'

        for key, body in (("k1", b"5"), ("k1", b"6"), ("", b"7"), (None, b"8"), ("k2", long)):
            assert (await ask(app, key, body=body)).status == 201

        assert len(shop.charged) == 5
        refusals = [line.partition("without: ")[2] for line in caplog.messages if "a request runs" in line]
        assert refusals == [
            "422, this key was used for another body",
            "400, its key is malformed",
            "400, it has no key",
            "its body was not whole, or has more than 20 bytes",
        ]

    async def test_a_scope_that_fails_keeps_no_request(
        self, shop: Shop, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails(_: Request) -> str:
            raise KeyError("x-user")

        app = shop.guarded(scope=fails, shadow=True)

        assert (await ask(app)).status == 201
        assert "x-user" in caplog.text

    async def test_a_failure_is_the_applications_own_and_frees_the_key(
        self, shop: Shop, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = shop.guarded(shadow=True)
        shop.error = ValueError("no such card")
        with pytest.raises(ValueError, match="no such card"):
            await ask(app)
        shop.error, shop.status = None, 503
        assert (await ask(app)).status == 503
        shop.status = 201

        assert (await ask(app)).status == 201

        assert "in shadow it runs" not in caplog.text
        assert await shop.store.parking.list() == []


def form(amount: str, *, boundary: str, quoted: bool = False) -> dict[str, Any]:
    """Return the request body of a form with a number and a file."""
    parts = [b'Content-Disposition: form-data; name="amount"\r\n\r\n' + amount.encode()]
    parts += [b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n\x00--' + boundary.encode()]
    lines = b"".join(b"--%b\r\n%b\r\n" % (boundary.encode(), part) for part in parts)
    named = f'"{boundary}"' if quoted else boundary
    kind = f"multipart/form-data; charset=utf-8; boundary={named}"
    return {"body": lines + b"--%b--\r\n" % boundary.encode(), "headers": {"content-type": kind}}


class TestForms:
    @pytest.mark.parametrize("again", [form("5", boundary="1x"), form("5", boundary="1 '(x", quoted=True)])
    async def test_a_form_that_is_sent_again_between_other_lines_is_the_same(
        self, shop: Shop, again: dict[str, Any]
    ) -> None:
        again["body"] = again["body"].replace(b"\x00--1x", b"\x00--0").replace(b"\x00--1 '(x", b"\x00--0")
        first = form("5", boundary="00ff")
        first["body"] = first["body"].replace(b"\x00--00ff", b"\x00--0")

        replies = [await ask(shop.app, **first), await ask(shop.app, **again)]

        assert [reply.status for reply in replies] == [201, 201]
        assert len(shop.charged) == 1

    @pytest.mark.parametrize(
        "other",
        [
            form("6", boundary="00ff"),
            form("5\r\n--", boundary="00ff"),
            form("5\r\n--00f", boundary="00ff"),
            form("5\r\n--00ff", boundary="00ff"),
        ],
    )
    async def test_another_form_is_another_body(self, shop: Shop, other: dict[str, Any]) -> None:
        await ask(shop.app, **form("5", boundary="00ff"))

        assert (await ask(shop.app, **other)).status == 422
        assert len(shop.charged) == 1
