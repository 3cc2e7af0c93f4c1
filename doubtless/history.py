"""The document histories: see :mod:`history`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history import *
    from history.bridge import drive as drive
    from history.bridge import settled as settled
    from history.sql import OffsetHistory as OffsetHistory
else:
    __getattr__ = lazy(__name__)
