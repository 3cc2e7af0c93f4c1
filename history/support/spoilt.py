"""Records that cannot be read: a disk, a tool, a person or a newer version may spoil what a store holds."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from history.support.rendering import text_of

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)


#: What reading a record may raise that others have written over.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError)


def readable(what: str, records: Iterable[tuple[object, T]], read: Callable[[T], R]) -> Iterator[R]:
    """Yield what can be read of records with their names; what cannot is named in the log, and skipped.

    So that one of them does not hide the others. It stays where it is, for somebody to look at.
    """
    for name, record in records:
        try:
            yield read(record)
        except UNREADABLE as error:
            tell(f"{what} {name} cannot be read, and is skipped: {text_of(error).splitlines()[0]}")


@lru_cache(maxsize=1000)
def tell(text: str) -> None:
    """Log it, once in the life of a process: some records are read every second."""
    _log.error("%s", text)
