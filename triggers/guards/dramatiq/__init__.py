"""Dramatiq actors that run once for each message, or for each key of yours.

``middleware.py`` is what a broker is given, ``following.py`` about what follows a message that was done.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.dramatiq.middleware import GivenUpError, guarded
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["GivenUpError", "guarded"]
