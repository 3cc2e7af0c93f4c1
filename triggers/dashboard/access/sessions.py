"""Sessions: who has signed in, until they sign out, do nothing for a while, or it is long enough.

They are in this process's memory: a restart ends them all, and what a browser holds only says which it is.
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

#: How many sessions there are at most. Then one of the user who has the most ends, so nobody ends another's.
MOST = 1000


@dataclass(slots=True)
class Session:
    """Somebody who has signed in. ``csrf`` stands in every form that this session gets.

    ``by_proxy``: a reverse proxy has named them, and goes on naming them in each request.
    """

    user: str
    role: Role
    began: float
    seen: float
    by_proxy: bool = False
    #: What it was begun with; None where a proxy has named its user.
    token: Token | None = field(default=None, repr=False)
    key: str = field(default_factory=token_urlsafe, repr=False)
    csrf: str = field(default_factory=token_urlsafe, repr=False)


class Sessions:
    """All sessions; safe to share between threads."""

    def __init__(
        self, idle: timedelta, longest: timedelta, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle, self._longest = idle.total_seconds(), longest.total_seconds()
        self._clock = clock
        self._known: dict[str, Session] = {}
        self._lock = Lock()

    def begin(self, user: str, role: Role, *, by_proxy: bool = False, token: Token | None = None) -> Session:
        """Begin a session, under a key that nobody knows yet."""
        now = self._clock()
        session = Session(user, role, now, now, by_proxy, token)
        with self._lock:
            self._known = {key: one for key, one in self._known.items() if self._lasts(one)}
            if len(self._known) >= MOST:
                del self._known[self._spare().key]
            self._known[session.key] = session
        return session

    def find(self, key: str | None, *, touch: bool = True) -> Session | None:
        """Return the session of a key, if it has not ended; unless ``touch`` is False it goes on by that."""
        with self._lock:
            session = self._known.get(key or "")
            if session is None:
                return None
            if not self._lasts(session):
                del self._known[session.key]
                return None
            if touch:
                session.seen = self._clock()
            return session

    def end(self, session: Session) -> None:
        """End a session."""
        with self._lock:
            self._known.pop(session.key, None)

    def _spare(self) -> Session:
        """Return the session that was idle for longest, of the user who has the most sessions."""
        of_each = Counter(one.user for one in self._known.values())
        return min(self._known.values(), key=lambda one: (-of_each[one.user], one.seen))

    def _lasts(self, session: Session) -> bool:
        now = self._clock()
        return now - session.seen < self._idle and now - session.began < self._longest
