"""Records that cannot be read: a disk, a tool, a person or a newer version may have damaged them."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from history.support.rendering import text_of

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)


#: The errors that reading may raise if somebody else has overwritten a record.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError)


def readable(what: str, records: Iterable[tuple[object, T]], read: Callable[[T], R]) -> Iterator[R]:
    """Yield the records that can be read, with their names; log and skip the others.

    So one damaged record does not hide the others. It stays where it is, so that somebody can examine it.
    """
    for name, record in records:
        try:
            yield read(record)
        except UNREADABLE as error:
            tell(f"{what} {name} cannot be read, and is skipped: {text_of(error).splitlines()[0]}")


@lru_cache(maxsize=1000)
def tell(text: str) -> None:
    """Log it, only once per process: some records are read every second."""
    _log.error("%s", text)
