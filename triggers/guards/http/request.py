"""A request as the guard sees it: its caller, its key, and the meaning of its body."""

import json
import re
from asyncio import Event
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote
from uuid import UUID

from history.identity import IdentityError, canonical
from history.json_text import NotJsonError, canonical_json

#: The types of ASGI.
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = "idempotency-key"

#: Headers that identify a caller in addition to Authorization: API keys, tokens, and the findings of a proxy.
#: None that differs in each request, such as a signature: a copy would have another caller.
CREDENTIALS = (
    "api-key",
    "apikey",
    "cf-access-authenticated-user-email",
    "client-cert",
    "ocp-apim-subscription-key",
    "private-token",
    "remote-user",
    "ssl-client-cert",
    "ssl-client-subject-dn",
    "tailscale-user-login",
    "x-access-token",
    "x-amzn-oidc-identity",
    "x-api-key",
    "x-api-token",
    "x-apikey",
    "x-arr-clientcert",
    "x-auth-key",
    "x-auth-request-email",
    "x-auth-request-user",
    "x-auth-token",
    "x-authenticated-user",
    "x-authentik-username",
    "x-client-cert",
    "x-consumer-id",
    "x-forwarded-client-cert",
    "x-forwarded-email",
    "x-forwarded-preferred-username",
    "x-forwarded-tls-client-cert",
    "x-forwarded-user",
    "x-goog-api-key",
    "x-goog-authenticated-user-email",
    "x-goog-authenticated-user-id",
    "x-ms-client-principal-id",
    "x-pomerium-claim-email",
    "x-remote-user",
    "x-session-token",
    "x-ssl-client-cert",
    "x-ssl-client-dn",
    "x-ssl-client-s-dn",
    "x-vouch-user",
    "x-webauth-user",
)

#: Values of these headers and of Authorization, in lower case, that identify nobody: proxies and scripts send
#: them without a user.
_NOBODY = frozenset(
    {"", "-", "(null)", "null", "undefined", "basic", "basic og=="}
    | {"bearer", "bearer null", "bearer undefined"}
)

#: Attributes, or fields, that name a user, the most reliable first.
_NAMES_OF_USERS = ("identity", "pk", "id", "username", "sub", "user_id", "uid", "email", "display_name")

#: The most characters of a key.
LONGEST_KEY = 255

_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])+)"')
_PORT = re.compile(r":\d*$")
_FORWARDED_HOST = re.compile(r'(?i)\bhost\s*=\s*"?([^";,\s]+)')
_BARE = re.compile(r"[!#-+\--~]+")

#: RFC 2046, section 5.1.1.
_BOUNDARY = re.compile(r"""(?i)^\s*multipart/[^;]+;(?:.*;)?\s*boundary=(?:"([^"]+)"|([^\s;,"]+))""")


class MalformedKeyError(ValueError):
    """The header is present, but holds no valid key."""


@dataclass(frozen=True)
class Request:
    """A request before the application has seen it; ``scope`` is ASGI's."""

    scope: Scope

    @property
    def method(self) -> str:
        """The method, in upper case."""
        return str(self.scope["method"]).upper()

    @property
    def path(self) -> str:
        """The path, decoded."""
        return str(self.scope["path"])

    @property
    def query(self) -> str:
        """The part after the question mark, as it was sent."""
        return bytes(self.scope.get("query_string", b"")).decode("latin-1")

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers, by lower-case names; several of one name are joined by a comma."""
        headers: dict[str, str] = {}
        for name, value in self.scope["headers"]:
            word, text = bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")
            headers[word] = f"{headers[word]}, {text}" if word in headers else text
        return headers

    @property
    def key(self) -> str | None:
        """The key, quoted as the draft wants it or bare; None without the header.

        Raises:
            MalformedKeyError: it is empty or too long, occurs twice, or has neither form.
        """
        text = self.headers.get(HEADER)
        if text is None:
            return None
        text = text.strip()
        if quoted := _QUOTED.fullmatch(text):
            unquoted = re.sub(r"\\(.)", r"\1", quoted[1])
        elif _BARE.fullmatch(text):
            unquoted = text
        else:
            raise MalformedKeyError
        if len(unquoted) > LONGEST_KEY:
            raise MalformedKeyError
        return unquoted

    @property
    def host(self) -> str:
        """The host name in the request, without a port: each may be another tenant.

        If a proxy has replaced the host, this is both names.
        """
        forwarded = ", ".join(_FORWARDED_HOST.findall(self.headers.get("forwarded", "")))
        names = [self.headers.get("host", ""), self.headers.get("x-forwarded-host", ""), forwarded]
        return " ".join(dict.fromkeys(_PORT.sub("", name.lower()) for name in names if name))

    @property
    def raw_path(self) -> str:
        """The path as it was sent: ``/a%2Fb`` and ``/a/b`` are two addresses."""
        sent = self.scope.get("raw_path")
        return quote(self.path) if sent is None else bytes(sent).partition(b"?")[0].decode("latin-1")

    @property
    def media_type(self) -> str:
        """The media type without its parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def uuid(self, caller: str, key: str) -> str:
        """Return the identity of the event: this key of this caller, for this method and address."""
        bound = json.dumps([caller, self.method, self.host, self.raw_path, self.query, key])
        return f"{key} {blake2b(bound.encode(), digest_size=16).hexdigest()}"

    def fingerprint(self, body: bytes) -> str:
        """Return a text that distinguishes this body from others.

        JSON may have another order of names. The parts of a form may have another dividing line, because a
        client that sends a form again makes up a new line.
        """
        content = body
        if boundary := _BOUNDARY.search(self.headers.get("content-type", "")):
            content = _undivided(body, boundary[1] or boundary[2])
        elif "json" in self.media_type:
            try:
                content = canonical_json(body)
            except NotJsonError:
                content = body
        return blake2b(content, digest_size=16).hexdigest()

    def shown(self, body: bytes) -> dict[str, Any]:
        """Return the parked form of it, without headers, which may hold credentials."""
        try:
            text: dict[str, str] = {"body": body.decode()}
        except UnicodeDecodeError:
            text = {"body_base64": b64encode(body).decode()}
        return {"method": self.method, "path": self.path, "query": self.query, **text}


def _undivided(body: bytes, boundary: str) -> bytes:
    """Return the parts of a form, each after its length, without the lines that divide them."""
    line = re.escape(b"--" + boundary.encode("latin-1"))
    parts = re.split(rb"(?:^|(?<=\r\n))" + line + rb"(?=(?:--)?[ \t]*(?:\r\n|$))", body)
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)


def default_caller(request: Request) -> str | None:
    """Tell callers apart; None if nothing identifies the caller.

    Uses the user that an authentication above the guard has found; the certificate of the client; and
    Authorization and all of :data:`CREDENTIALS`. Without Authorization, cookies also count: an API key may
    belong to one application, and cookies distinguish its users.
    """
    headers = {name: text for name, text in request.headers.items() if text.strip().lower() not in _NOBODY}
    authorization = headers.get("authorization")
    credentials: list[Any] = [authorization, headers.get("cookie") if authorization is None else None]
    # Appended, so that a caller without these keeps its identity.
    credentials += [[name, headers[name]] for name in CREDENTIALS if name in headers]
    caller = {"user": _user_of(request.scope), "certificate": _certificate_of(request.scope)}
    credentials += [[name, value] for name, value in caller.items() if value]
    if not any(credentials):
        return None
    return blake2b(json.dumps(credentials).encode(), digest_size=16).hexdigest()


def _user_of(scope: Scope) -> str | None:
    """Return the user that an authentication above the guard, such as Starlette's, has put into the scope."""
    user: Any = scope.get("user")
    if isinstance(user, str | int | bytes | UUID):
        return _canonical(user)
    if isinstance(user, Mapping):
        fields = cast("Mapping[object, Any]", user)
        user = SimpleNamespace(**{str(name): value for name, value in fields.items()})
    if not getattr(user, "is_authenticated", True):
        return None
    for name in _NAMES_OF_USERS:
        try:
            value = _canonical(getattr(user, name))
        except Exception:  # noqa: BLE001, S112  (the class is anybody's, and Starlette's own raises)
            continue
        if value is not None:
            return f"{name} {value}"
    return None


def _canonical(value: object) -> str | None:
    try:
        return canonical(value)
    except IdentityError:
        return None


def _certificate_of(scope: Scope) -> str | None:
    """Return the certificate that a client has shown, by ASGI's extension for TLS."""
    extensions: Mapping[str, Any] = scope.get("extensions") or {}
    tls: Mapping[str, Any] = extensions.get("tls") or {}
    chain: Iterable[str] = tls.get("client_cert_chain") or ()
    return tls.get("client_cert_name") or "".join(chain) or None


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Return the whole body; None if it is longer than the limit.

    Raises:
        ConnectionResetError: the client went away before it had sent all of it.
    """
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ConnectionResetError
        body += event.get("body", b"")
        if len(body) > limit:
            return None
        if not event.get("more_body", False):
            return bytes(body)


def replayed_body(body: bytes, receive: Receive, concerns_client: Event) -> Receive:
    """Return a ``receive`` that gives an application the body that was read, and then the client's events.

    It reports that the client went away only when the answer streams or is complete: an application that then
    ends a run, as Django does, would end it in the middle.
    """
    left = [body]

    async def again() -> MutableMapping[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        event = await receive()
        if event["type"] == "http.disconnect":
            await concerns_client.wait()
        return event

    return again


async def read_ahead(receive: Receive, limit: int) -> tuple[list[MutableMapping[str, Any]], bytes | None]:
    """Return the events of a body up to ``limit`` bytes, and the body; None if it is not complete then."""
    events: list[MutableMapping[str, Any]] = []
    body = bytearray()
    while len(body) <= limit:
        event = await receive()
        events.append(event)
        if event["type"] == "http.disconnect":
            return events, None
        body += event.get("body", b"")
        if not event.get("more_body", False):
            return events, bytes(body) if len(body) <= limit else None
    return events, None


def with_events(events: list[MutableMapping[str, Any]], receive: Receive) -> Receive:
    """Return a ``receive`` that gives an application the events that were read, and then the client's."""
    left = list(reversed(events))

    async def again() -> MutableMapping[str, Any]:
        return left.pop() if left else await receive()

    return again
