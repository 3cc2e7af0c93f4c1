"""A carrier in SQL: the table ``doubtless_link_mail`` of a database that both ends reach."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from history.errors import HistoryUnavailableError
from history.sql.database.engine import Step, execute, execute_each, fetch
from history.sql.history import SqlHistory
from history.sql.links.history import LinkHistory
from history.sql.statements.dialects import statement
from triggers.providers.sqlremote.carriers.carrier import CarrierUnavailableError

T = TypeVar("T")

PUT = statement("INSERT INTO doubtless_link_mail (address, data) VALUES (:address, :data)")

LIST = statement("SELECT number FROM doubtless_link_mail WHERE address = :address ORDER BY number")

# A column of SQLite may hold text, and text that is not UTF-8 could not be fetched.
GET = statement(
    sqlite="SELECT CAST(data AS BLOB) AS data FROM doubtless_link_mail "
    "WHERE number = :number AND address = :address",
    postgresql="SELECT data FROM doubtless_link_mail WHERE number = :number AND address = :address",
)

DELETE = statement("DELETE FROM doubtless_link_mail WHERE number = :number AND address = :address")


class TableCarrier:
    """Messages as rows, in a database of SQLite or PostgreSQL.

    Guarantee: none by itself; a message that was put is stored until it is deleted.
    """

    def __init__(self, history: LinkHistory) -> None:
        self._history: SqlHistory = history
        self._watermarks = history.watermarks

    @classmethod
    def from_url(cls, url: str) -> "TableCarrier":
        """Open the table at ``sqlite:///file.db`` or ``postgresql://user@host/database``."""
        return cls(LinkHistory.from_url(url))

    async def put(self, address: str, data: bytes) -> None:
        """Store a message."""
        await self._run("putting a message", partial(execute, statement=PUT, address=address, data=data))

    async def list(self, address: str) -> Sequence[str]:
        """Return the names of the messages of an inbox, in the order of their numbers."""
        rows = await self._run("reading the inbox", partial(fetch, statement=LIST, address=address))
        return [str(number) for (number,) in rows]

    async def get(self, address: str, name: str) -> bytes:
        """Return a message."""
        work = partial(fetch, statement=GET, address=address, number=_number(name))
        rows = await self._run("reading a message", work)
        if not rows:
            raise KeyError(name)
        return bytes(rows[0].data or b"")

    async def delete(self, address: str, names: Iterable[str]) -> None:
        """Delete messages."""
        rows = [{"address": address, "number": _number(name)} for name in names]
        if rows:
            work = partial(execute_each, statement=DELETE, rows=rows)
            await self._run("deleting messages", work, atomic=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._history.close()

    async def _run(self, doing: str, work: Step[T], *, atomic: bool = False) -> T:
        try:
            return await self._watermarks.run(doing, work, atomic=atomic)
        except HistoryUnavailableError as error:
            raise CarrierUnavailableError(doing) from error


def _number(name: str) -> int:
    if not name.isdigit():
        raise KeyError(name)
    return int(name)
