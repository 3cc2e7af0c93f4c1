"""Exactly-once for what is called by others: a task of Celery, a request, a loop of your own.

``guard.py`` is :func:`protect`, ``turn.py`` the same for a ``with`` statement, ``options.py`` what both take.
``celery/``, ``dramatiq/``, ``faststream/``, ``taskiq/`` and ``http/`` are for one host each; ``host.py`` is
what they share, ``arguments.py`` compares what tasks are called with, ``behind.py`` finds the trigger behind
a guard or a task.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.guard import Guard, protect, running
    from triggers.guards.turn import Turn
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["Guard", "Turn", "protect", "running"]
