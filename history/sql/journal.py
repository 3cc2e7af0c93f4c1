"""The journal and the security log in a SQL database, beside the document history."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from history.entry import digest
from history.sql.database.engine import AnyConnection, AnyRow, Database, execute, execute_each, fetch
from history.sql.statements.journal import APPEND, DELETE_SECURITY, LATEST, READ, SECURITY, TRIM
from history.sql.tables.history import JOURNAL
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store.journal import JOURNAL_LENGTH, JournalLine
from history.store.security import SecurityPage, SecurityRecord, wrong_cursor
from history.store.times import milliseconds, milliseconds_of
from history.support.spoilt import readable

#: After so many calls for a trigger its old lines are deleted, by each process for itself, and at its first.
CALLS_BETWEEN_TRIMS = 500

#: Under what name the security log is: no trigger has it.
NO_TRIGGER = ""

#: An instant after that of every record.
_LAST = 2**63 - 1

#: Time and id of a record.
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9a-f]+)")


class SqlJournal:
    """Lines in a table of their own, created when the first is written; safe to share as the history is."""

    def __init__(self, database: Database, *, length: int = JOURNAL_LENGTH) -> None:
        self._database = database
        self._length = length
        self._calls: Counter[str] = Counter()
        self._run = _table(database).run

    async def append(self, trigger: str, lines: list[JournalLine]) -> None:
        """Add lines in one call; now and then, delete those that are too many."""
        rows = [
            {
                "id": line.id,
                "trigger": trigger,
                "digest": b"" if line.uuid is None else digest(line.uuid),
                "document": line.to_json(),
            }
            for line in lines
        ]
        await self._run("writing the journal", partial(execute_each, statement=APPEND, rows=rows))
        due = self._calls[trigger] % CALLS_BETWEEN_TRIMS == 0
        self._calls[trigger] += 1
        if due:
            trim = partial(execute, statement=TRIM, trigger=trigger, kept=self._length - 1)
            await self._run("cutting the journal", trim)

    async def read(self, trigger: str, uuid: str | None = None, *, limit: int = 100) -> list[JournalLine]:
        """Return the last lines, about a uuid or all; none where nobody has written a journal."""
        statement = LATEST if uuid is None else READ
        about = {} if uuid is None else {"digest": digest(uuid)}

        async def read(connection: AnyConnection) -> Sequence[AnyRow]:
            if not await table_exists(connection, JOURNAL):
                return []
            return await fetch(connection, statement, trigger=trigger, limit=limit, **about)

        rows = await self._database.run("reading the journal", read)
        named = ((f"of the trigger {trigger} ({row.id})", row) for row in rows)
        return [*readable("the journal's line", named, _line)][::-1]


def _line(row: AnyRow) -> JournalLine:
    return JournalLine.from_json(row.document, datetime.fromtimestamp(row.written_at / 1000, UTC))


class SqlSecurityLog:
    """Records in the journal's table, under the name of no trigger; safe to share as the history is.

    Guarantee: a record is kept once ``append`` has returned, as safely as the database keeps a commit.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._run = _table(database).run

    async def append(self, records: Sequence[SecurityRecord]) -> None:
        """Add records, all or none; one that is sent twice stands there once."""
        rows = [
            {"id": record.id, "trigger": NO_TRIGGER, "digest": b"", "document": record.to_json()}
            for record in records
        ]
        append = partial(execute_each, statement=APPEND, rows=rows)
        await self._run("writing the security log", append, atomic=True)

    async def read(
        self, *, before: datetime | None = None, cursor: str | None = None, limit: int = 100
    ) -> SecurityPage:
        """Return some records, the newest first; the cursor is time and id of the last one."""
        at, id_ = _LAST if before is None else milliseconds_of(before), ""
        if cursor is not None:
            found = _CURSOR.fullmatch(cursor)
            if found is None:
                raise wrong_cursor()
            at, id_ = int(found[1]), found[2]

        async def read(connection: AnyConnection) -> Sequence[AnyRow]:
            if not await table_exists(connection, JOURNAL):
                return []
            return await fetch(connection, SECURITY, at=at, id=id_, limit=limit)

        rows = await self._database.run("reading the security log", read)
        named = ((f"security record {row.id}", row.document) for row in rows)
        records = [*readable("security record", named, SecurityRecord.from_json)]
        return SecurityPage(records, f"{rows[-1].written_at}-{rows[-1].id}" if len(rows) == limit else None)

    async def delete_older(self, age: timedelta) -> None:
        """Delete records by their age."""
        delete = partial(execute, statement=DELETE_SECURITY, age=milliseconds(age))
        await self._run("deleting old records of the security log", delete)


def _table(database: Database) -> AddedTables:
    """Return the table that both are in, which is made when the first line is written."""
    return AddedTables(
        database,
        look=partial(table_exists, table=JOURNAL),
        make=partial(make_tables, tables=[JOURNAL]),
        looking="looking for the journal",
        creating="creating the journal",
    )
