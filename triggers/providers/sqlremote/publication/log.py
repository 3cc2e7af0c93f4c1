"""Reading the transaction log of a publication, and deleting what every peer has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any, cast

from history.json_text import read_json
from history.sql.database.engine import AnyConnection, AnyRow, execute, fetch
from history.sql.links.watermark import SqlWatermarks
from history.sql.statements.dialects import statement
from history.sql.statements.watermark import FOR_LINK, NOTE_PAST, READ_END
from history.store import milliseconds
from history.store.watermark import Offset
from triggers.providers.sqlremote.protocol.parts import Transaction
from triggers.providers.sqlremote.publication.collecting import collect, waiting

#: About how many bytes of operations are read at a time.
PAGE_BYTES = 2_000_000

#: How many rows are read at a time, at least and at most.
FEWEST, MOST = 10, 2000

#: How many rows one statement deletes at most, so that nobody waits long for the lock.
DELETED_AT_ONCE = 5000

_READ_LOG = f"""SELECT commit_offset, position, {{operation}} FROM doubtless_link_log
    WHERE publication = :publication AND commit_offset > :after AND commit_offset <= :upto
        AND {FOR_LINK}
    ORDER BY commit_offset, position LIMIT :limit"""  # noqa: S608

# The work for a peer. A column of SQLite may hold bytes that are not text: they are sent as they are, and
# parked at the other end, so that they do not stop later work. In a database with UTF-16, a BLOB would be
# UTF-16 as well.
READ_LOG = statement(
    sqlite=_READ_LOG.replace(
        "{operation}",
        "CASE (SELECT encoding FROM pragma_encoding) WHEN 'UTF-8' THEN CAST(operation AS BLOB) "
        "ELSE operation END AS operation",
    ),
    postgresql=_READ_LOG.replace("{operation}", "operation"),
)

# The links that are served from a publication; the lock stops a reset meanwhile.
LOCK_PEERS = statement(
    sqlite="SELECT doubtless_link, confirm_sent FROM sysremoteuser "
    "WHERE doubtless_publication = :publication",
    postgresql="SELECT doubtless_link, confirm_sent FROM sysremoteuser "
    "WHERE doubtless_publication = :publication FOR UPDATE",
)

# The first transaction that a peer still needs.
FIRST_NEEDED = statement(
    f"""SELECT commit_offset FROM doubtless_link_log
    WHERE publication = :publication AND commit_offset > :confirmed AND {FOR_LINK}
    ORDER BY commit_offset LIMIT 1"""  # noqa: S608
)

# The end of a piece of the log that is short enough to be deleted in one statement.
END_OF_PIECE = statement(
    """SELECT commit_offset FROM doubtless_link_log
    WHERE publication = :publication AND commit_offset <= :upto
    ORDER BY commit_offset LIMIT 1 OFFSET :limit"""
)

DELETE_LOG = statement(
    """DELETE FROM doubtless_link_log
    WHERE publication = :publication AND commit_offset <= :upto AND committed_at <= {now} - :keep
    RETURNING commit_offset"""
)

NOTE_DELETED = statement(
    "UPDATE doubtless_link_end SET deleted_to = :offset WHERE id = 1 AND deleted_to < :offset"
)

COUNT_UNCONFIRMED = statement(
    f"""SELECT COUNT(DISTINCT commit_offset) FROM doubtless_link_log
    WHERE publication = :publication AND commit_offset > :confirmed AND {FOR_LINK}"""  # noqa: S608
)

COUNT_LOG = statement("SELECT COUNT(*) FROM doubtless_link_log WHERE publication = :publication")

COUNT_UNSENT = statement(
    """SELECT publication, COUNT(DISTINCT commit_offset) FROM doubtless_link_log
    WHERE publication NOT IN (SELECT doubtless_publication FROM sysremoteuser)
    GROUP BY publication ORDER BY publication"""
)


@dataclass(slots=True)
class LinkLog:
    """The log of one publication, as it is served to one peer."""

    watermarks: SqlWatermarks
    publication: str
    link: str
    _limit: int = 100

    async def read(self, after: Offset, upto: Offset) -> Sequence[Transaction]:
        """Return the next transactions for the peer, a page of them; none when there is no more."""
        while True:
            values: dict[str, Any] = {
                "publication": self.publication,
                "after": after,
                "upto": upto,
                "link": self.link,
            }
            work = partial(fetch, statement=READ_LOG, limit=self._limit, **values)
            rows = await self.watermarks.run("reading the log", work)
            whole = list(_transactions(rows))
            if len(rows) == self._limit:
                whole.pop()  # its other operations may be on the next page
            if whole or not rows:
                self._measure(rows)
                return whole
            self._limit *= 4

    def _measure(self, rows: Sequence[AnyRow]) -> None:
        """Adapt the number of rows, to read about the same number of bytes the next time."""
        size = sum(len(row.operation) for row in rows) // max(1, len(rows)) + 1
        self._limit = min(max(PAGE_BYTES // size, FEWEST), MOST)

    async def collect(self) -> int | None:
        """Move what triggers have captured into the log; return its new end, or None if nothing waited."""
        if not await self.waiting():
            return None
        work = partial(collect, publication=self.publication)
        return await self.watermarks.run("moving changes into the log", work, atomic=True)

    async def waiting(self) -> int:
        """Count the captured operations that are not in the log yet."""
        work = partial(waiting, publication=self.publication)
        return await self.watermarks.run("counting changes", work)

    async def prune(self, keep: timedelta = timedelta(0)) -> int:
        """Delete what every peer has confirmed and is older than ``keep``; return how many operations."""
        total, gone = 0, DELETED_AT_ONCE
        while gone >= DELETED_AT_ONCE:
            work = partial(_prune, publication=self.publication, keep=milliseconds(keep))
            gone = await self.watermarks.run("deleting old log", work, atomic=True)
            total += gone
        return total

    async def unconfirmed(self, confirmed: Offset) -> int:
        """Count the transactions for the peer after an offset."""
        values: dict[str, Any] = {"publication": self.publication, "confirmed": confirmed, "link": self.link}
        work = partial(fetch, statement=COUNT_UNCONFIRMED, **values)
        ((count,),) = await self.watermarks.run("counting the log", work)
        return int(count)

    async def count(self) -> int:
        """Count the operations that are kept."""
        work = partial(fetch, statement=COUNT_LOG, publication=self.publication)
        ((count,),) = await self.watermarks.run("counting the log", work)
        return int(count)


async def unsent(watermarks: SqlWatermarks) -> Mapping[str, int]:
    """Count the transactions of each publication in the log that no link sends, such as a misspelt one."""
    rows = await watermarks.run("counting the log", partial(fetch, statement=COUNT_UNSENT))
    return {publication: int(count) for publication, count in rows}


def _transactions(rows: Sequence[AnyRow]) -> Iterator[Transaction]:
    for offset, some in groupby(rows, lambda row: row.commit_offset):
        yield Transaction(Offset(offset), b"[" + b",".join(_bytes(row) for row in some) + b"]")


def _bytes(row: AnyRow) -> bytes:
    operation: str | bytes = row.operation
    return operation if isinstance(operation, bytes) else operation.encode()


def operations_of(transaction: Transaction) -> list[object]:
    """Return the operations of a transaction, in their order.

    Raises:
        ValueError: its bytes are not a JSON array, or it is nested too deeply.
    """
    read = read_json(transaction.data).value
    if not isinstance(read, list):
        raise ValueError("the transaction is not a list of operations")  # noqa: TRY004  (of bytes, not of a type)
    return cast("list[object]", read)


async def _prune(connection: AnyConnection, *, publication: str, keep: int) -> int:
    ((upto, _),) = await fetch(connection, READ_END)
    for link, confirmed in await fetch(connection, LOCK_PEERS, publication=publication):
        values = {"publication": publication, "confirmed": confirmed, "link": link}
        for (needed,) in await fetch(connection, FIRST_NEEDED, **values):
            upto = min(upto, needed - 1)
    piece = {"publication": publication, "upto": upto}
    for (end,) in await fetch(connection, END_OF_PIECE, limit=DELETED_AT_ONCE, **piece):
        piece["upto"] = end
    gone = [offset for (offset,) in await fetch(connection, DELETE_LOG, keep=keep, **piece)]
    if gone:
        await execute(connection, NOTE_DELETED, offset=max(gone))
        await execute(connection, NOTE_PAST, kind="publication", name=publication)
    return len(gone)
