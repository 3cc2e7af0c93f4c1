"""The document history in the memory of one process, for tests and first steps."""

from typing import TYPE_CHECKING

from history.faces import lazy

if TYPE_CHECKING:
    from history.memory.history import MemoryHistory

__all__ = ["MemoryHistory"]

__getattr__ = lazy(__name__, history=("MemoryHistory",))
