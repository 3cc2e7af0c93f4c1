"""Walk through the contents of a store, a page at a time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar


class Paged(Protocol):
    """A page of a walk."""

    @property
    def cursor(self) -> str | None:
        """The cursor that continues the walk; None at its end."""
        ...


PageT = TypeVar("PageT", bound=Paged)


async def pages(read: Callable[[str | None], Awaitable[PageT]]) -> AsyncIterator[PageT]:
    """Yield page after page. When the next page is wanted, ``read`` gets the cursor of the last one."""
    cursor: str | None = None
    while True:
        page = await read(cursor)
        yield page
        cursor = page.cursor
        if cursor is None:
            return
