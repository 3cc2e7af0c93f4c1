"""For how many connections a database has room: for ``doubtless doctor``."""

from typing import NamedTuple, Protocol, runtime_checkable


class Room(NamedTuple):
    """What one history opens, and what its server takes.

    ``server`` is its address, ``pool`` the most connections of one process. ``limit`` is the most that the
    role may have there, and ``why`` says what makes it so; None where a pooler stands between, which is not
    known. ``used`` are open now, whoever has them.
    """

    server: str
    pool: int
    limit: int | None
    why: str
    used: int


@runtime_checkable
class TellingRoom(Protocol):
    """What knows for how many connections there is room."""

    async def room(self) -> Room | None:
        """Return it; None where connections are not counted.

        Raises:
            UnavailableError: the server does not answer.
        """
        ...
