"""Where retrieval failure events go: see :mod:`triggers.sinks`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.sinks import *
else:
    __getattr__ = lazy(__name__)
