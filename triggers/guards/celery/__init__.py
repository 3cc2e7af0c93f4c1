"""Celery tasks that run once for each id, or for each key of yours.

``task.py`` is the class. ``subclasses.py`` wraps the members of classes that inherit from it, and finds tasks
that do not. ``request.py`` handles a worker's task that is killed by its time limit. ``sending.py`` gives a
task back to the broker, handles tasks that Celery sends again under one id, and gives ids to what follows a
task.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.celery.task import GivenUpError as GivenUpError
    from triggers.guards.celery.task import guarded as guarded
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
