"""The document history in the memory of one process, for tests and first steps.

``history.py`` is the store, and ``records.py`` keeps what :mod:`history.beside` keeps. Its transitions
are the pure functions of :mod:`history.entry`.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.memory.history import MemoryHistory as MemoryHistory
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
