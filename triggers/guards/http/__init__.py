"""HTTP requests that run once for each ``Idempotency-Key``, and give the first answer again.

``middleware.py`` is the guard, and ``shadow.py`` the guard that only records. ``request.py`` reads requests,
and ``answer.py`` keeps and repeats answers. ``options.py`` checks the guard's options, ``quota.py`` counts
the new keys of each caller, and ``applications.py`` finds the guards of an application.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.http.middleware import IdempotencyKey as IdempotencyKey
    from triggers.guards.http.request import Request as Request
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
