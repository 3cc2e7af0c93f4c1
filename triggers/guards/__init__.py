"""Exactly-once for code that others call: a task of Celery, a request, your own loop.

``guard.py`` is :func:`protect`, and ``turn.py`` the same for a ``with`` statement. ``celery/``,
``dramatiq/``, ``faststream/``, ``taskiq/`` and ``http/`` are for one framework each. ``host.py`` is their
common part. ``keys.py`` reads the identity of a task, and ``arguments.py`` compares its arguments.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.guard import Guard as Guard
    from triggers.guards.guard import protect as protect
    from triggers.guards.guard import running as running
    from triggers.guards.turn import Turn as Turn
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
