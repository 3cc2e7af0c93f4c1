"""Celery tasks that run once for each id, or for each key of yours.

``task.py`` is the class, ``replacing.py`` about tasks that replace themselves.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.celery.task import GivenUpError, guarded
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__, task=("GivenUpError", "guarded"))

__all__ = ["GivenUpError", "guarded"]
