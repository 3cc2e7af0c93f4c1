"""Dramatiq actors that run once for each message, or for each key of yours.

``middleware.py`` is the middleware of a broker. ``following.py`` handles what follows a message that was
done.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.dramatiq.middleware import GivenUpError as GivenUpError
    from triggers.guards.dramatiq.middleware import guarded as guarded
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
