"""From a request to a session, and whether a form came from one of our own pages."""

import hmac
import logging
import time

from starlette.requests import Request
from starlette.responses import Response

from history.beside.security import SecurityEvent, SecurityOutcome
from triggers.dashboard.access.records import address_of, denial_of, record_of
from triggers.dashboard.access.roles import Role
from triggers.dashboard.access.sessions import Session, Sessions
from triggers.dashboard.access.settings import Access, Token
from triggers.dashboard.access.throttle import Throttle
from triggers.security.recorder import Recorder

_log = logging.getLogger(__name__)

#: The cookie that holds the key of a session.
COOKIE = "doubtless_session"

#: The header of a page's own requests. An event stream, for which browsers send no headers, has this path.
AGAIN, STREAMS = "doubtless-again", "/live/"

#: Where a form comes from, by the browser: from us, or typed by its user.
_OWN = {"same-origin", "none"}


class AccessGate:
    """Lets people in, by the rules of ``access``; ``recorder`` records users that a proxy has signed in."""

    def __init__(self, access: Access, sessions: Sessions, recorder: Recorder | None = None) -> None:
        self.access = access
        self.sessions = sessions
        self._recorder = recorder or Recorder(None)
        # Separate from the sign-in: a scraper with an old token would lock out the people behind its address.
        self._throttle = Throttle()

    def session(self, request: Request) -> Session | None:
        """Return the session of a request; a session that a reverse proxy vouches for begins by itself.

        A page's own requests neither extend nor begin a session: they are not a person's.

        The proxy always decides who the user is. A session of another user is not valid, and a session ends
        when the proxy names nobody.
        """
        by_itself = is_by_itself(request)
        session = self.lasting(self.sessions.find(request.cookies.get(COOKIE), touch=not by_itself))
        if self.access.proxy is None or (session is not None and not session.by_proxy):
            return session
        vouched = self._vouched(request)
        if session is not None and vouched == (session.user, session.role):
            return session
        if session is not None:
            self.sessions.end(session, "the proxy names somebody else, or nobody")
        return None if vouched is None or by_itself else self._begin(request, *vouched)

    def _begin(self, request: Request, user: str, role: Role) -> Session:
        """Begin the session of a user that the proxy names."""
        session = self.sessions.begin(user, role, by_proxy=True, address=address_of(request))
        allowed = record_of(SecurityEvent.SIGN_IN, SecurityOutcome.ALLOWED, request, session, way="proxy")
        self._recorder.count(allowed)  # a program behind the proxy may keep no cookie
        return session

    def admits(self, request: Request) -> bool:
        """Whether a request may read without a session: by a token in a header, as programs do."""
        if self._token_of(request) is not None:
            return True
        if self._vouched(request) is not None:
            return True
        session = self.lasting(self.sessions.find(request.cookies.get(COOKIE), touch=False))
        return session is not None and not session.by_proxy

    def wait(self, request: Request) -> float:
        """Return for how many seconds the token in a request's header is ignored; 0 if it is not."""
        return 0.0 if _bearer_of(request) is None else self._throttle.wait(address_of(request) or "")

    def program(self, request: Request) -> Session | None:
        """Return a session for one request of a program, by the token in its header; None without one.

        Cookies and headers of proxies do not count: another site can make a browser send them.
        """
        token, now = self._token_of(request), time.monotonic()
        if token is None:
            return None
        return Session(token.name, token.role, now, now, address=address_of(request), token=token)

    def _token_of(self, request: Request) -> Token | None:
        secret, address = _bearer_of(request), address_of(request) or ""
        if secret is None or self._throttle.wait(address) > 0:
            return None
        token = self.access.token_of(secret)
        if token is None:
            self._throttle.fail(address)
        else:
            self._throttle.succeed(address)
        return token

    def lasting(self, session: Session | None) -> Session | None:
        """Return a session if its token is still valid; end it if not."""
        if session is None or session.token is None or session.token in self.access.known_tokens():
            return session
        self.sessions.end(session, "its token counts no more")
        return None

    def sign_in(self, secret: str, address: str | None = None) -> Session | None:
        """Begin a session by a token; None if the token is unknown."""
        token = self.access.token_of(secret)
        if token is None:
            return None
        return self.sessions.begin(token.name, token.role, token=token, address=address)

    def remember(self, response: Response, session: Session) -> None:
        """Store the key of a session in the browser, where no script can read it."""
        response.set_cookie(
            COOKIE, session.key, httponly=True, samesite="lax", secure=self.access.https, path="/"
        )

    def forget(self, response: Response) -> None:
        """Remove the key of its session from the browser."""
        response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=self.access.https, path="/")

    def _vouched(self, request: Request) -> tuple[str, Role] | None:
        proxy = self.access.proxy
        if proxy is None or request.client is None or not proxy.is_at(request.client.host):
            return None
        user = _the_one(request, proxy.user_header)
        word = "" if proxy.role_header is None else _the_one(request, proxy.role_header)
        if user is None or word is None:
            self._recorder.count(denial_of(request, "a header of the proxy says more than one thing"))
        if not user or word is None:
            return None
        if not word:
            return user, proxy.role
        role = Role.of(word)
        return user, Role.VIEWER if role is None else role  # an unknown role may do the least


def _bearer_of(request: Request) -> str | None:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def _the_one(request: Request, header: str) -> str | None:
    """Return the value of a proxy's header, empty without one; None if it has several values.

    A proxy that adds its header to the client's sends two: nobody knows which is the proxy's.
    """
    values = request.headers.getlist(header)
    if len(values) > 1 or any("," in value for value in values):
        _log.warning(
            "a request has more than one value of %s, so nobody is signed in by it: "
            "have the proxy replace the header of its clients",
            header,
        )
        return None
    return "".join(values).strip()


def is_by_itself(request: Request) -> bool:
    """Whether the page itself makes the request, to watch or while it waits, and not a person."""
    return AGAIN in request.headers or request.url.path.startswith(STREAMS)


def is_ours(request: Request) -> bool:
    """Whether a form comes from our own page, as far as the browser reports."""
    return request.headers.get("sec-fetch-site", "same-origin") in _OWN


def has_csrf(session: Session, offered: str | None) -> bool:
    """Whether a form has the token that only this session's own pages have."""
    return offered is not None and hmac.compare_digest(
        offered.encode("utf-8", "surrogatepass"), session.csrf.encode()
    )
