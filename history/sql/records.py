"""Records and logs in a SQL database, beside the document history."""

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from history.entry import digest
from history.sql.database.encoding import in_ascii
from history.sql.database.engine import (
    AnyConnection,
    AnyRow,
    Database,
    Step,
    execute,
    execute_each,
    fetch,
)
from history.sql.entries.settlements import settle_entries
from history.sql.statements.dialects import Dialect, Statement
from history.sql.statements.entries import FAIL
from history.sql.statements.records import (
    ABOUT,
    APPEND,
    COUNT,
    CUT,
    DELETE,
    DELETE_EACH,
    FOLLOW,
    FORGET,
    GET,
    HOLD,
    LATEST,
    NAMED,
    NOW,
    PAGE,
    PURGE,
    PUT,
    SAVE,
    TRIM,
    UNDO,
    VIEW,
    lines_of,
    parameters,
)
from history.sql.tables.history import LOG, RECORDS
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store.records import (
    Append,
    Change,
    Delete,
    Expects,
    Fail,
    Get,
    Kind,
    Log,
    LogLine,
    LogPage,
    Now,
    Put,
    Record,
    Settle,
    View,
    end_of,
    is_refused,
    wrong_cursor,
)
from history.store.times import instant, milliseconds, milliseconds_of
from history.support.paging import pieces_of
from history.support.spoilt import UNREADABLE

T = TypeVar("T")

#: The most records that a statement stores, and the most that a call forgets.
MOST = 1000

#: A call that stores expiring records deletes at least so many expired records.
PIECE = 10

#: Each process deletes the old lines of a log at its first call, and again after so many calls.
CALLS_BETWEEN_TRIMS = 500

#: After how many seconds a client looks for expired records from the start: somebody may have locked them.
LOOK_AGAIN = 600.0

#: Expectations that every stored record meets.
_NEVER_REFUSED = {Expects.ANY, Expects.COUNTED}

#: The answer to a settlement that is not refused.
_SETTLED = Record(b"", b"")

#: No version, and no instant of a line, is greater.
_LAST = 2**63 - 1

#: Time and id of a line.
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9a-f]+)")


class SqlRecords:
    """Records and logs in two tables; threads may share it, like the history.

    Guarantee: the changes of ``apply`` are as safe as any commit in the database.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._calls: Counter[tuple[str, Log]] = Counter()
        self._after, self._look_again = 0, float("-inf")
        self._tables = AddedTables(
            database,
            look=partial(table_exists, table=LOG),
            make=partial(make_tables, tables=[RECORDS, LOG]),
            looking="looking for the records",
            creating="creating the records",
        )

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Run a step; the tables exist then."""
        return await self._tables.run(doing, step, atomic=atomic)

    async def apply(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        """Make changes in one transaction; see :class:`~history.store.records.Records`."""
        answers: list[Record | None] = []
        lines = all(isinstance(change, Append) for change in changes)
        # On PostgreSQL, independent changes are one statement, and all lines of a log are one.
        in_one_statement = (each or lines) and self.database.dialect is Dialect.POSTGRESQL
        reads = each and all(isinstance(change, Get | Now) for change in changes)
        atomic = len(changes) > 1 and not in_one_statement and not reads
        size = MOST if each else max(len(changes), 1)
        for piece in pieces_of(changes, size):
            step = partial(apply_changes, trigger=trigger, changes=piece, each=each)
            answers += await self.run("keeping records", step, atomic=atomic)
        if expiring := sum(_expires(change) for change in changes):
            await self._forget(max(PIECE, expiring))
        for log in {change.log for change in changes if isinstance(change, Append)}:
            await self._trim(trigger, log)
        return answers

    async def _forget(self, limit: int) -> None:
        """Delete some expired records, from where the last call ended; at intervals, from the first."""
        if time.monotonic() >= self._look_again:
            self._after, self._look_again = 0, time.monotonic() + LOOK_AGAIN
        purge = partial(fetch, statement=PURGE, after=self._after, limit=limit)
        gone = await self.run("forgetting records", purge)
        self._after = max((at for (at,) in gone), default=self._after)

    async def _trim(self, trigger: str, log: Log) -> None:
        """After every so many calls, delete the excess lines."""
        due = log.most is not None and self._calls[trigger, log] % CALLS_BETWEEN_TRIMS == 0
        self._calls[trigger, log] += 1
        if due and log.most is not None:
            trim = partial(execute, statement=TRIM, trigger=trigger, kind=log.name, kept=log.most - 1)
            await self.run("cutting a log", trim)

    async def get(self, trigger: str, kind: Kind, keys: Sequence[bytes]) -> Sequence[Record | None]:
        """Return the record of each key."""
        read = partial(_get, trigger=trigger, kind=kind, keys=keys)
        rows = await self.run(f"reading records ({kind.name})", read)
        records = {record.key: record for record in map(_record, rows)}
        return [records.get(key) for key in keys]

    async def page(
        self, trigger: str, kind: Kind, *, prefix: bytes = b"", before: bytes | None = None, limit: int = 100
    ) -> Sequence[Record]:
        """Return some records, the greatest key first."""
        end = end_of(prefix) if before is None else before
        rows = await self._rows(PAGE, trigger=trigger, kind=kind.name, first=prefix, end=end, limit=limit)
        return list(map(_record, rows))

    async def view(self, trigger: str, kinds: Sequence[Kind]) -> View:
        """Return all records of some kinds, with one statement."""
        names: Any = [kind.name for kind in kinds]
        if self.database.dialect is Dialect.SQLITE:
            names = json.dumps(names)
        rows = await self._rows(VIEW, trigger=trigger, kinds=names, first=b"")
        present = [row for row in rows if row.kind is not None]  # without any, one row has the time
        of_kinds = [[_record(row) for row in present if row.kind == kind.name] for kind in kinds]
        return View(instant(rows[0].now), of_kinds)

    async def count(self, trigger: str, kind: Kind) -> int:
        """Count the records of a kind, by the index of their keys."""
        ((count,),) = await self._rows(COUNT, trigger=trigger, kind=kind.name)
        return int(count)

    async def log(
        self,
        trigger: str,
        log: Log,
        *,
        about: bytes | None = None,
        before: datetime | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> LogPage:
        """Return some lines, the newest first; the cursor is time and id of the last one."""
        at, id_ = _LAST if before is None else milliseconds_of(before), ""
        if cursor is not None:
            position = _CURSOR.fullmatch(cursor)
            if position is None:
                raise wrong_cursor()
            at, id_ = int(position[1]), position[2]
        wanted: dict[str, Any] = {} if about is None else {"about": about}
        statement = LATEST if about is None else ABOUT
        rows = await self._rows(
            statement, trigger=trigger, kind=log.name, at=at, id=id_, limit=limit, **wanted
        )
        lines = [LogLine(row.line, instant(row.written_at), f"{row.written_at}-{row.id}") for row in rows]
        return LogPage(lines, lines[-1].cursor if len(lines) == limit else None)

    async def forget(self, trigger: str, kind: Kind | Log, age: timedelta) -> int:
        """Delete some records, or all lines, that have not changed for longer than this."""
        named: dict[str, Any] = {"trigger": trigger, "kind": kind.name, "age": milliseconds(age)}
        if isinstance(kind, Log):
            return len(await self._rows(CUT, **named))
        return len(await self._rows(FORGET, **named, limit=MOST))

    async def _rows(self, statement: Statement, **values: Any) -> Sequence[AnyRow]:
        return await self.run("using records", partial(fetch, statement=statement, **values))


async def apply_changes(
    connection: AnyConnection, *, trigger: str, changes: Sequence[Change], each: bool = False
) -> Sequence[Record | None]:
    """Make changes, in a transaction if there are many; see :class:`~history.store.records.Records`."""
    answers: list[Record | None] = [_SETTLED if isinstance(change, Settle) else None for change in changes]
    await _look(connection, trigger, changes, answers, required=True)
    if any(isinstance(change, Get) and is_refused(change, answers[i]) for i, change in enumerate(changes)):
        return answers
    # Changes that may be refused come first, before others are made.
    puts = sum(isinstance(change, Put) and change.expects not in _NEVER_REFUSED for change in changes)
    settles = len(changes) > 1 and any(isinstance(change, Settle) for change in changes)
    several = not each and (puts > 1 or settles)
    if several:
        await execute(connection, SAVE)
    done = await _put_all(connection, trigger, changes, answers, each=each)
    if not done or not await _settle(connection, trigger, changes, answers):
        if several:
            await execute(connection, UNDO)
        return answers
    await _append(connection, trigger, [change for change in changes if isinstance(change, Append)])
    await _delete_all(connection, trigger, [change for change in changes if isinstance(change, Delete)])
    await _fail(connection, trigger, [change for change in changes if isinstance(change, Fail)])
    await _look(connection, trigger, changes, answers, required=False)
    return answers


async def _put_all(
    connection: AnyConnection,
    trigger: str,
    changes: Sequence[Change],
    answers: list[Record | None],
    *,
    each: bool,
) -> bool:
    """Store records, one kind after the other; stop at the first refused one, unless ``each`` is separate."""
    writes = [(index, change) for index, change in enumerate(changes) if isinstance(change, Put)]
    for (kind, expects, lasting), group in groupby(sorted(writes, key=_group), _terms):
        some = list(group)
        stored = await _put(connection, trigger, kind, expects, lasting, [put.record for _, put in some])
        for index, put in some:
            answers[index] = stored.get(put.record.key)
        if not each and any(is_refused(put, answers[index]) for index, put in some):
            return False
    return True


async def _settle(
    connection: AnyConnection, trigger: str, changes: Sequence[Change], answers: list[Record | None]
) -> bool:
    """Settle entries; False if one is refused."""
    wishes = {
        digest(change.settlement.uuid): change.settlement for change in changes if isinstance(change, Settle)
    }
    if not wishes:
        return True
    once = {
        digest(change.settlement.uuid) for change in changes if isinstance(change, Settle) and change.once
    }
    settled = await settle_entries(connection, trigger=trigger, wishes=wishes, once=once)
    for index, change in enumerate(changes):
        if isinstance(change, Settle) and not settled[digest(change.settlement.uuid)]:
            answers[index] = None
    return all(settled.values())


async def _fail(connection: AnyConnection, trigger: str, fails: Sequence[Fail]) -> None:
    rows = [
        {"trigger": trigger, "digest": change.digest, "fence": change.fence}
        for change in sorted(fails, key=attrgetter("digest"))
    ]
    if rows:
        await execute_each(connection, FAIL, rows)


async def _append(connection: AnyConnection, trigger: str, appends: Sequence[Append]) -> None:
    for log in dict.fromkeys(change.log for change in appends):
        lines = [
            {"id": appended.id, "about": appended.about, "line": in_ascii(appended.line)}
            for appended in appends
            if appended.log == log
        ]
        for values in lines_of(connection.dialect.name, lines):
            await execute(connection, APPEND, trigger=trigger, kind=log.name, **values)


async def _delete_all(connection: AnyConnection, trigger: str, deletes: Sequence[Delete]) -> None:
    """Delete single records with one statement for each kind, and ranges one by one."""
    single = [change for change in deletes if change.last is None]
    for kind in dict.fromkeys(change.kind for change in single):
        keys = [Record(change.key, b"") for change in single if change.kind == kind]
        asked = parameters(connection.dialect.name, keys)
        await execute(connection, DELETE_EACH, trigger=trigger, kind=kind.name, **asked)
    for change in deletes:
        if change.last is not None:
            await delete(connection, trigger, change)


async def _look(
    connection: AnyConnection,
    trigger: str,
    changes: Sequence[Change],
    answers: list[Record | None],
    *,
    required: bool,
) -> None:
    """Read the records that these changes only read, with one statement for each kind, and the clock."""
    gets = {
        (change.kind, change.key): index
        for index, change in enumerate(changes)
        if isinstance(change, Get) and change.required == required
    }
    for kind in dict.fromkeys(kind for kind, _ in gets):
        keys = [key for of_kind, key in gets if of_kind == kind]
        rows = await _get(connection, trigger, kind, keys, statement=HOLD if required else GET)
        for record in map(_record, rows):
            answers[gets[kind, record.key]] = record
    clocks = [index for index, change in enumerate(changes) if isinstance(change, Now) and not required]
    if clocks:
        ((now,),) = await fetch(connection, NOW)
        for index in clocks:
            answers[index] = Record(b"", b"", at=instant(now))


async def _get(
    connection: AnyConnection, trigger: str, kind: Kind, keys: Sequence[bytes], *, statement: Statement = GET
) -> Sequence[AnyRow]:
    asked = parameters(connection.dialect.name, [Record(key, b"") for key in keys])
    return await fetch(connection, statement, trigger=trigger, kind=kind.name, **asked)


async def triggers_with(connection: AnyConnection, kind: Kind, log: Log) -> Sequence[str]:
    """Name the triggers with records of a kind, or with lines of a log."""
    if not await table_exists(connection, LOG):
        return []
    rows = await fetch(connection, NAMED, kind=kind.name, log=log.name)
    return [name for (name,) in rows if isinstance(name, str)]  # another cell is spoilt


def _expires(change: Change) -> bool:
    """Whether a change leaves an expiring record that no other call would delete."""
    return isinstance(change, Put) and change.time_to_live is not None and not change.kind.listed


async def delete(connection: AnyConnection, trigger: str, change: Delete) -> bool:
    """Delete records; False if there were none."""
    last = change.key if change.last is None else change.last
    named: dict[str, Any] = {
        "trigger": trigger,
        "kind": change.kind.name,
        "key": change.key,
        "last": last,
    }
    return any(row.lives for row in await fetch(connection, DELETE, **named))


async def _put(
    connection: AnyConnection,
    trigger: str,
    kind: Kind,
    expects: Expects,
    lasting: timedelta | None,
    records: Sequence[Record],
) -> dict[bytes, Record]:
    """Store records of one kind; return the records that are stored now."""
    named = {
        "trigger": trigger,
        "kind": kind.name,
        "expects": expects.value,
        "time_to_live": None if lasting is None else milliseconds(lasting),
    }
    # A record with the version 1 follows nothing, like any record that is put where none is stored.
    later = [record for record in records if expects is Expects.FOLLOWS and record.version > 1]
    first = [record for record in records if expects is not Expects.FOLLOWS or record.version == 1]
    rows: list[AnyRow] = []
    for statement, some in ((PUT, first), (FOLLOW, later)):
        if some:
            rows += await fetch(connection, statement, **named, **parameters(connection.dialect.name, some))
    written = {bytes(row.key) for row in rows}
    if refused := [record for record in later if record.key not in written]:
        rows += await fetch(connection, GET, **named, **parameters(connection.dialect.name, refused))
    return {bytes(row.key): _record(row) for row in rows if row.lives}


def _group(write: tuple[int, Put]) -> tuple[bool, str, str, timedelta]:
    kind, expects, lasting = _terms(write)
    return expects in _NEVER_REFUSED, kind.name, expects.value, lasting or timedelta.max


def _terms(write: tuple[int, Put]) -> tuple[Kind, Expects, timedelta | None]:
    _, put = write
    return put.kind, put.expects, put.time_to_live


def _record(row: AnyRow) -> Record:
    with suppress(*UNREADABLE):
        if 0 < (version := int(row.version)) <= _LAST:
            return Record(bytes(row.key), bytes(row.value), version, instant(row.changed_at))
    return Record(bytes(row.key), b"", 0)
