"""The guard for Taskiq: see :mod:`triggers.guards.taskiq`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.taskiq import *
else:
    __getattr__ = lazy(__name__)
