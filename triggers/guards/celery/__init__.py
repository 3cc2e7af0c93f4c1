"""Celery tasks that run once for each id, or for each key of yours.

``task.py`` is the class. ``subclasses.py`` wraps the members of classes that are made from it, and
``unguarded.py`` finds tasks that are not. ``sending.py`` gives a task back to the broker. ``request.py`` is
what a worker makes of a task that is killed by its time limit.
``retrying.py`` and ``replacing.py`` are about tasks that Celery sends again under one id, ``callbacks.py``
about the ids of what follows a task.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.celery.task import GivenUpError, guarded
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["GivenUpError", "guarded"]
