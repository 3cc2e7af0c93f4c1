"""The guard for FastStream: see :mod:`triggers.guards.faststream`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.faststream import *
else:
    __getattr__ = lazy(__name__)
