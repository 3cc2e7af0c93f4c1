"""What you test your triggers with: see :mod:`triggers.testing`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.testing import *
else:
    __getattr__ = lazy(__name__)
