"""Components and ports of Patch Bay: see :mod:`triggers.patchbay`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.patchbay import *
else:
    __getattr__ = lazy(__name__)
