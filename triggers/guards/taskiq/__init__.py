"""Taskiq tasks that run once for each id, or for each key of yours.

``middleware.py`` wraps the functions of tasks, ``run.py`` is one delivery of a task.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.taskiq.middleware import GivenUpError as GivenUpError
    from triggers.guards.taskiq.middleware import guarded as guarded
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
