"""The messaging systems: see :mod:`triggers.providers`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers import *
else:
    __getattr__ = lazy(__name__)
