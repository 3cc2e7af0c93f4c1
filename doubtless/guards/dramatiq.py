"""The guard for Dramatiq: see :mod:`triggers.guards.dramatiq`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.dramatiq import *
else:
    __getattr__ = lazy(__name__)
