"""HTTP requests that run once for each ``Idempotency-Key``, and answer again as they did the first time.

``middleware.py`` is the guard, ``shadow.py`` the same where it only records. ``request.py`` and
``answer.py`` read and give again what is sent, ``quota.py`` counts the new keys of each caller, and
``applications.py`` finds the guards of an application.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.http.middleware import IdempotencyKey
    from triggers.guards.http.request import Request
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["IdempotencyKey", "Request"]
