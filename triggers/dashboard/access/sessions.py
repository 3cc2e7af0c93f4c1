"""Sessions: who has signed in, until they sign out, are idle for a while, or a longest time has passed.

They are in this process's memory: a restart ends them all, and a browser only holds the key of its session.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from secrets import token_urlsafe
from threading import Lock

from triggers.dashboard.access.roles import Role
from triggers.dashboard.access.settings import Token

#: The most sessions. Then a session of the user with the most sessions ends, so no user can end another's.
MOST = 1000

#: Why sessions end by themselves.
IDLE, TOO_LONG, TOO_MANY = "it was idle for too long", "it was long enough", "there were too many sessions"


@dataclass(slots=True)
class Session:
    """A user who has signed in. ``csrf`` is in every form that this session gets.

    ``by_proxy``: a reverse proxy has named the user, and must name the user in each request.
    """

    user: str
    role: Role
    began: float
    seen: float
    by_proxy: bool = False
    #: The address where it began.
    address: str | None = None
    #: The token with which it began; None if a proxy has named its user.
    token: Token | None = field(default=None, repr=False)
    key: str = field(default_factory=token_urlsafe, repr=False)
    csrf: str = field(default_factory=token_urlsafe, repr=False)


def _ignore(_: Session, __: str) -> None:
    """Ignore that a session has ended."""


class Sessions:
    """All sessions; safe to share between threads. ``ended`` is called with each ended session and why."""

    def __init__(
        self,
        idle: timedelta,
        longest: timedelta,
        clock: Callable[[], float] = time.monotonic,
        *,
        ended: Callable[[Session, str], None] = _ignore,
    ) -> None:
        self._idle, self._longest = idle.total_seconds(), longest.total_seconds()
        self._clock = clock
        self._ended = ended
        self._known: dict[str, Session] = {}
        self._lock = Lock()

    def begin(
        self,
        user: str,
        role: Role,
        *,
        by_proxy: bool = False,
        token: Token | None = None,
        address: str | None = None,
    ) -> Session:
        """Begin a session, under a key that nobody knows yet."""
        now = self._clock()
        session = Session(user, role, now, now, by_proxy, address, token)
        with self._lock:
            over = [(old, why) for old in self._known.values() if (why := self._why_over(old)) is not None]
            for old, _ in over:
                del self._known[old.key]
            if len(self._known) >= MOST:
                spare = self._spare()
                over.append((self._known.pop(spare.key), TOO_MANY))
            self._known[session.key] = session
        for old, why in over:
            self._ended(old, why)
        return session

    def find(self, key: str | None, *, touch: bool = True) -> Session | None:
        """Return the session of a key, if it has not ended; ``touch`` extends it."""
        with self._lock:
            session = self._known.get(key or "")
            if session is None:
                return None
            why = self._why_over(session)
            if why is None:
                session.seen = self._clock() if touch else session.seen
                return session
            del self._known[session.key]
        self._ended(session, why)
        return None

    def end(self, session: Session, why: str) -> None:
        """End a session, and record the reason."""
        with self._lock:
            ended = self._known.pop(session.key, None)
        if ended is not None:
            self._ended(session, why)

    def _spare(self) -> Session:
        """Return the session that was idle for longest, of the user who has the most sessions."""
        of_each = Counter(session.user for session in self._known.values())
        return min(self._known.values(), key=lambda session: (-of_each[session.user], session.seen))

    def _why_over(self, session: Session) -> str | None:
        """Return why a session is over; None while it lasts."""
        now = self._clock()
        if now - session.seen >= self._idle:
            return IDLE
        return None if now - session.began < self._longest else TOO_LONG
