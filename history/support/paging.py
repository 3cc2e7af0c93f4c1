"""Walk through much, a part at a time: pages of a store, pieces of a sequence."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Protocol, TypeVar


class Paged(Protocol):
    """A page of a walk."""

    @property
    def cursor(self) -> str | None:
        """The cursor that continues the walk; None at its end."""
        ...


PageT = TypeVar("PageT", bound=Paged)
T = TypeVar("T")


async def pages(read: Callable[[str | None], Awaitable[PageT]]) -> AsyncIterator[PageT]:
    """Yield page after page. When the next page is wanted, ``read`` gets the cursor of the last one."""
    cursor: str | None = None
    while True:
        page = await read(cursor)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def pieces_of(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield consecutive pieces of a sequence, each of ``size`` items, the last maybe less."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
