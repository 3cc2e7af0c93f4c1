"""Resolvers, ready-made and of your own: see :mod:`resolvers`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from resolvers import *
else:
    __getattr__ = lazy(__name__)
