"""Guards for what others call: see :mod:`triggers.guards`. One module for each framework.

``celery``, ``dramatiq``, ``faststream``, ``taskiq`` and ``http`` are the frameworks.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards import *
else:
    __getattr__ = lazy(__name__)
