"""Joins in a SQL database, beside the document history."""

import json
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from history.beside.firsts import RecordedFirsts
from history.entry import EntryOutcome, Fence, digest
from history.errors import HistoryUnavailableError
from history.sql.database.engine import AnyConnection, AnyRow, Database, execute, execute_each, fetch
from history.sql.entries.claims import entry_of, look_up
from history.sql.records import SqlRecords
from history.sql.statements.dialects import Dialect, wanted
from history.sql.statements.entries import DRAW_FENCES, SETTLE
from history.sql.statements.joining import (
    COMPLETE,
    FAIL,
    FINISH,
    FINISH_PARTS,
    HAND_OUT,
    KEEP,
    LATE,
    OPEN,
    PARTS,
    SHUT,
    STORE,
    WAITING,
)
from history.sql.tables.history import JOIN_TABLES, JOINS
from history.sql.tables.making import AddedTables, make_tables, table_exists
from history.store import instant, milliseconds
from history.store.joining import Added, Addition, Hold, JoinPart, JoinTerms, Period, PeriodState
from history.store.sealing import document_of_part, opened_part
from history.support.encryption import Cipher

T = TypeVar("T")

#: How often a call may find an OPEN period with a time-out that is over, before it gives up.
ATTEMPTS = 5


class _OtherwiseError(Exception):
    """Undoes a step, and carries its answer."""

    def __init__(self, answer: Addition) -> None:
        super().__init__(answer)
        self.answer = answer


class SqlJoining(RecordedFirsts):
    """Joins in a SQL database; one transaction adds a part and completes its entry.

    Threads may share it; over an asyncio engine it belongs to one event loop.

    Guarantee: a part that ``add`` has stored is as safe as any commit in the database.
    """

    def __init__(self, database: Database, cipher: Cipher | None = None) -> None:
        super().__init__(SqlRecords(database))
        self._cipher = cipher
        self._run = AddedTables(
            database,
            look=partial(table_exists, table=JOINS),
            make=partial(make_tables, tables=JOIN_TABLES),
            looking="looking for the joins",
            creating="creating the joins",
        ).run

    async def add(self, trigger: str, part: JoinPart, terms: JoinTerms, hold: Hold) -> Added:
        """Store a part and complete its entry, or do neither; see :class:`~history.store.joining.Joining`."""
        step = partial(_add, trigger=trigger, part=part, terms=terms, hold=hold, cipher=self._cipher)
        try:
            period = await self._run("adding to a join", step, atomic=True)
        except _OtherwiseError as otherwise:
            return Added(otherwise.answer)
        return Added(Addition.KEPT, period)

    async def due(self, trigger: str, hold: Hold, *, limit: int = 10) -> Sequence[Period]:
        """Hand out periods that nobody holds; see :class:`~history.store.joining.Joining`."""
        if not await self._run("looking for joins", partial(fetch, statement=LATE, trigger=trigger)):
            return []
        step = partial(_hand_out, trigger=trigger, hold=hold, limit=limit, cipher=self._cipher)
        return await self._run("taking joins", step, atomic=True)

    async def keep(self, trigger: str, numbers: Sequence[int], hold: Hold) -> None:  # noqa: ARG002
        """Hold periods for longer."""
        rows = [
            {"number": number, "owner": hold.owner, "hold": milliseconds(hold.duration)} for number in numbers
        ]
        if rows:
            await self._run("keeping joins", partial(execute_each, statement=KEEP, rows=rows), atomic=True)

    async def finish(self, trigger: str, number: int) -> bool:  # noqa: ARG002
        """Forget a period."""
        return await self._run("finishing a join", partial(_finish, number=number), atomic=True)

    async def waiting(self, trigger: str, *, limit: int = 100) -> Sequence[Period]:
        """Return the periods that are not finished."""

        async def read(connection: AnyConnection) -> Sequence[Period]:
            rows = await fetch(connection, WAITING, trigger=trigger, limit=limit)
            return await _periods(connection, rows, trigger, self._cipher)

        return await self._run("listing joins", read)


async def _add(
    connection: AnyConnection,
    *,
    trigger: str,
    part: JoinPart,
    terms: JoinTerms,
    hold: Hold,
    cipher: Cipher | None,
) -> Period | None:
    await _complete_entry(connection, trigger, part)
    number = await _open(connection, trigger, part, terms)
    stored = await fetch(
        connection,
        STORE,
        number=number,
        destination=_encoded(part.destination),
        digest=digest(part.uuid),
        fence=part.fence,
        document=document_of_part(trigger, part, cipher),
    )
    if not stored:
        raise _OtherwiseError(Addition.TAKEN)
    destinations = {
        row.destination for row in await fetch(connection, PARTS, numbers=_numbers(connection, [number]))
    }
    if not destinations >= set(map(_encoded, terms.destinations)):
        return None
    ready = await fetch(
        connection, COMPLETE, number=number, owner=hold.owner, hold=milliseconds(hold.duration)
    )
    return (await _periods(connection, ready, trigger, cipher))[0]


async def _complete_entry(connection: AnyConnection, trigger: str, part: JoinPart) -> None:
    """Complete the entry of a part if it is still STARTED with the part's fence."""
    key = digest(part.uuid)
    values = wanted(connection.dialect.name, [key], [part.fence], [EntryOutcome.OK])
    if any(row.expires_at for row in await fetch(connection, SETTLE, trigger=trigger, **values)):
        return
    entries = [entry_of(row) for row in await look_up(connection, trigger, [key])]
    again = any(entry.fence == part.fence and entry.outcome is EntryOutcome.OK for entry in entries)
    raise _OtherwiseError(Addition.KEPT if again else Addition.STALE)


async def _open(connection: AnyConnection, trigger: str, part: JoinPart, terms: JoinTerms) -> int:
    """Return the number of the open period, and lock it."""
    named = {
        "trigger": trigger,
        "key": digest(part.activation),
        "activation": _encoded(part.activation),
        "time_out": None if terms.time_out is None else milliseconds(terms.time_out),
    }
    for _ in range(ATTEMPTS):
        if connection.dialect.name == Dialect.SQLITE:
            await execute(connection, DRAW_FENCES, count=1)
        ((number, late),) = await fetch(connection, OPEN, **named)
        if not late:
            return int(number)
        await execute(connection, SHUT, number=number)
    raise HistoryUnavailableError(f"beginning a join: its time-out was over each time ({ATTEMPTS} attempts)")


async def _hand_out(
    connection: AnyConnection, *, trigger: str, hold: Hold, limit: int, cipher: Cipher | None
) -> Sequence[Period]:
    owned = {"owner": hold.owner, "hold": milliseconds(hold.duration)}
    rows = await fetch(connection, HAND_OUT, trigger=trigger, limit=limit, **owned)
    periods = await _periods(connection, rows, trigger, cipher)
    vain = [
        {"trigger": trigger, "digest": digest(part.uuid), "fence": part.fence}
        for period in periods
        if period.state is PeriodState.EXPIRED
        for part in period.parts.values()
    ]
    if vain:
        await execute_each(connection, FAIL, vain)
    return periods


async def _finish(connection: AnyConnection, *, number: int) -> bool:
    if not await fetch(connection, FINISH, number=number):
        return False
    await execute(connection, FINISH_PARTS, number=number)
    return True


async def _periods(
    connection: AnyConnection, rows: Sequence[AnyRow], trigger: str, cipher: Cipher | None
) -> Sequence[Period]:
    """Return the periods of some rows, with their parts, oldest first."""
    if not rows:
        return []
    parts: dict[int, dict[str, JoinPart]] = {row.number: {} for row in rows}
    activations = {row.number: _decoded(row.activation) for row in rows}
    for row in await fetch(connection, PARTS, numbers=_numbers(connection, list(parts))):
        destination = _decoded(row.destination)
        parts[row.number][destination] = opened_part(
            trigger,
            activations[row.number],
            destination,
            Fence(row.fence),
            document=row.document,
            cipher=cipher,
        )
    return [
        Period(
            number=row.number,
            activation=activations[row.number],
            state=PeriodState(row.state),
            started_at=instant(row.started_at),
            parts=parts[row.number],
            taken=row.taken,
        )
        for row in sorted(rows, key=lambda row: int(row.number))
    ]


def _numbers(connection: AnyConnection, numbers: Sequence[int]) -> str:
    listed = ",".join(map(str, numbers))
    return f"[{listed}]" if connection.dialect.name == Dialect.SQLITE else f"{{{listed}}}"


def _encoded(text: str) -> str:
    """Write any text in ASCII: PostgreSQL refuses a zero byte, and UTF-8 a lone surrogate."""
    return json.dumps(text)[1:-1]


def _decoded(text: str) -> str:
    return str(json.loads(f'"{text}"'))
