"""Two users send the same key. In each way to identify users, nobody gets the other's answer."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

import httpx
import pytest

from history import MemoryHistory
from triggers.guards.http import IdempotencyKey, Request

#: The password, token or key of each user.
SECRETS = {"ann": "secret-of-ann", "bob": "secret-of-bob"}
USERS = {secret: user for user, secret in SECRETS.items()}

Charged = list[str]

#: Makes an application over a history. It charges each user who asks.
Make = Callable[[MemoryHistory, Charged], Any]

#: Returns the request options that a client sends for a user.
Sent = Callable[[str], Mapping[str, Any]]


def _charging(history: MemoryHistory, charged: Charged, who: Any, needs: Any, **options: Any) -> Any:
    """Return an application with a charge route. ``who`` finds the user in the dependency ``needs``."""
    fastapi: Any = import_module("fastapi")
    app = fastapi.FastAPI()
    app.add_middleware(IdempotencyKey, history=history, **options)

    async def charge(known: Any) -> dict[str, Any]:
        charged.append(who(known))
        return {"user": who(known), "number": len(charged)}

    charge.__annotations__["known"] = needs
    app.post("/charges", status_code=201)(charge)
    return app


def _scheme(name: str, read: Callable[[Any], str], *, key: str | None = None) -> Make:
    """Identify users by a security scheme of FastAPI."""

    def make(history: MemoryHistory, charged: Charged) -> Any:
        kind: Any = getattr(import_module("fastapi.security"), name)
        scheme = kind() if key is None else kind(name=key)
        needs = Annotated[Any, import_module("fastapi").Depends(scheme)]

        def who(found: Any) -> str:
            return USERS[read(found)]

        return _charging(history, charged, who, needs)

    return make


def _reading(read: Callable[[Any], str], **options: Any) -> Make:
    """Identify users by a value of the request."""

    def make(history: MemoryHistory, charged: Charged) -> Any:
        return _charging(history, charged, read, import_module("fastapi").Request, **options)

    return make


def _header(name: str, **options: Any) -> Make:
    """Identify users by a header that a proxy sets."""
    return _reading(lambda request: request.headers[name], **options)


def _middleware(history: MemoryHistory, charged: Charged) -> Any:
    """Identify users by Starlette's middleware. It reads a header that only it knows."""
    authentication: Any = import_module("starlette.authentication")

    class Backend(authentication.AuthenticationBackend):  # type: ignore[misc]
        async def authenticate(self, conn: Any) -> Any:
            user = authentication.SimpleUser(USERS[conn.headers["x-ticket"]])
            return authentication.AuthCredentials(["known"]), user

    app = _reading(lambda request: request.user.display_name)(history, charged)
    kind = import_module("starlette.middleware.authentication").AuthenticationMiddleware
    app.add_middleware(kind, backend=Backend())
    return app


def _session(history: MemoryHistory, charged: Charged) -> Any:
    """Identify users by the signed cookie of a session."""
    app = _reading(lambda request: request.session["user"])(history, charged)

    async def sign_in(request: Any, user: str) -> None:
        request.session["user"] = user

    sign_in.__annotations__["request"] = import_module("fastapi").Request
    app.get("/sign-in")(sign_in)
    app.add_middleware(
        import_module("starlette.middleware.sessions").SessionMiddleware, secret_key=SECRETS["ann"]
    )
    return app


def _certificate(history: MemoryHistory, charged: Charged) -> Any:
    """Identify users by the client certificate that the server reports."""

    def named(request: Any) -> str:
        return str(request.scope["extensions"]["tls"]["client_cert_name"])

    app = _reading(named)(history, charged)

    async def server(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        shown = headers.pop(b"shown").decode()
        tls = {"client_cert_name": shown, "client_cert_chain": ()}
        await app({**scope, "headers": [*headers.items()], "extensions": {"tls": tls}}, receive, send)

    return server


def _litestar(history: MemoryHistory, charged: Charged) -> Any:
    """Identify users with Litestar's own middleware. ``scope=`` reads the user that it found."""
    litestar: Any = import_module("litestar")
    middleware: Any = import_module("litestar.middleware")

    class Authentication(middleware.AbstractAuthenticationMiddleware):  # type: ignore[misc]
        async def authenticate_request(self, connection: Any) -> Any:
            return middleware.AuthenticationResult(user=USERS[connection.headers["x-ticket"]], auth=None)

    def caller(request: Request) -> str | None:
        return request.scope.get("user")

    async def charge(request: Any) -> dict[str, Any]:
        charged.append(request.user)
        return {"user": request.user, "number": len(charged)}

    charge.__annotations__["request"] = litestar.Request
    guard = middleware.DefineMiddleware(IdempotencyKey, history=history, scope=caller)
    return litestar.Litestar(
        [litestar.post("/charges")(charge)], middleware=[middleware.DefineMiddleware(Authentication), guard]
    )


def _secret_in(name: str) -> Sent:
    return lambda user: {"headers": {name: SECRETS[user]}}


def _name_in(name: str) -> Sent:
    return lambda user: {"headers": {name: user}}


def _tenant(request: Request) -> str | None:
    return request.headers.get("x-tenant-user")


KNOWN: dict[str, tuple[Make, Sent]] = {
    "bearer token": (
        _scheme("HTTPBearer", lambda found: found.credentials),
        lambda user: {"headers": {"Authorization": f"Bearer {SECRETS[user]}"}},
    ),
    "HTTP Basic": (
        _scheme("HTTPBasic", lambda found: found.password),
        lambda user: {"auth": (user, SECRETS[user])},
    ),
    "API key in a header": (_scheme("APIKeyHeader", str, key="X-API-Key"), _secret_in("X-API-Key")),
    "API key in a cookie": (
        _scheme("APIKeyCookie", str, key="key"),
        lambda user: {"headers": {"Cookie": f"key={SECRETS[user]}"}},
    ),
    "session": (_session, lambda _: {}),
    "middleware of Starlette": (_middleware, _secret_in("X-Ticket")),
    "middleware of Litestar": (_litestar, _secret_in("X-Ticket")),
    "oauth2-proxy": (_header("X-Auth-Request-User"), _name_in("X-Auth-Request-User")),
    "Amazon's load balancer": (_header("X-Amzn-Oidc-Identity"), _name_in("X-Amzn-Oidc-Identity")),
    "Cloudflare Access": (
        _header("Cf-Access-Authenticated-User-Email"),
        _name_in("Cf-Access-Authenticated-User-Email"),
    ),
    "certificate": (_certificate, _name_in("shown")),
    "header of one's own, with scope=": (_header("X-Tenant-User", scope=_tenant), _name_in("X-Tenant-User")),
}

UNKNOWN: dict[str, tuple[Make, Sent]] = {
    "header of one's own": (_header("X-Tenant-User"), _name_in("X-Tenant-User")),
    "API key in the query": (
        _scheme("APIKeyQuery", str, key="key"),
        lambda user: {"params": {"key": SECRETS[user]}},
    ),
}


async def _asked(make: Make, sent: Sent, charged: Charged) -> list[httpx.Response]:
    """Return the answers to ann, bob, and ann again. All send the same key and body."""
    app = make(MemoryHistory(), charged)
    answers: list[httpx.Response] = []
    cookies: dict[str, httpx.Cookies] = {user: httpx.Cookies() for user in SECRETS}
    for user in ("ann", "bob", "ann"):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://shop", cookies=cookies[user], **sent(user)
        ) as client:
            if make is _session and not cookies[user]:
                await client.get("/sign-in", params={"user": user})
                cookies[user] = client.cookies
            answers.append(
                await client.post("/charges", json={"order": "N-1"}, headers={"Idempotency-Key": "k1"})
            )
    return answers


@pytest.mark.parametrize("setup", KNOWN)
async def test_users_with_one_key_each_get_their_own_answer(setup: str) -> None:
    charged: Charged = []

    ann, bob, again = await _asked(*KNOWN[setup], charged)

    assert [answer.status_code for answer in (ann, bob, again)] == [201] * 3
    assert [answer.json()["user"] for answer in (ann, bob, again)] == ["ann", "bob", "ann"]
    assert "idempotent-replayed" not in bob.headers
    assert (again.headers["idempotent-replayed"], charged) == ("true", ["ann", "bob"])


@pytest.mark.parametrize("setup", UNKNOWN)
async def test_where_nothing_tells_users_apart_a_key_is_refused(setup: str) -> None:
    charged: Charged = []

    answers = await _asked(*UNKNOWN[setup], charged)

    assert [answer.status_code for answer in answers] == [403] * 3
    assert {answer.json()["type"] for answer in answers} == {"urn:doubtless:unknown-caller"}
    assert charged == []
