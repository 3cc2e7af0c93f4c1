"""The document histories: see :mod:`history`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history import *
else:
    __getattr__ = lazy(__name__)
