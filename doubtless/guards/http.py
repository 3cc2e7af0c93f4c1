"""The guard for HTTP requests: see :mod:`triggers.guards.http`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.http import *
else:
    __getattr__ = lazy(__name__)
