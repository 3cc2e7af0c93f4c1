"""The limbo: messages wait in a database until they are due, to be sent or to be tried again.

A process takes messages for a while, under its own token. Under that token it gives them back, puts them off
or removes them: a stale token changes nothing. So any process may release what another has put in. If a
process dies, its messages are late by at most its lease.
"""

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeVar
from uuid import uuid4

from sqlalchemy.exc import DBAPIError

from history.message import Message
from history.sql.database.engine import (
    AnyConnection,
    AnyRow,
    Database,
    Pooled,
    Step,
    execute,
    execute_each,
    fetch,
    open_engine,
)
from history.sql.statements.dialects import Dialect
from history.sql.tables.history import Prepared
from history.store import milliseconds
from history.store.times import milliseconds_of
from triggers.providers.brokers.delivery import problem_of
from triggers.providers.sqljms.limbo import statements as sql
from triggers.providers.sqljms.limbo.codec import (
    Again,
    InLimbo,
    LimboRows,
    OddWaiting,
    odd_inside,
    rows_of,
    waiting_of,
)
from triggers.providers.sqljms.limbo.tables import create_limbo, limbo_exists
from triggers.providers.sqljms.link import providers_errors
from triggers.providers.sqljms.receiving.entries import listed
from triggers.providers.sqljms.receiving.odd_rows import is_of_a_row
from triggers.providers.sqljms.settings import SqlJmsSettings
from triggers.providers.sqljms.tables import LINEAGE

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: The input of messages that wait to be sent.
NO_INPUT = ""

#: For how long a process counts as busy with what it took, unless it renews this.
DEFAULT_LEASE = timedelta(seconds=60)

#: Returns the instant that counts as now, in milliseconds since 1970; None means the server's clock.
Clock = Callable[[], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A message that must wait until ``due``, or, if that is None, for the delay of ``again``."""

    component: str
    port: str
    message: Message
    due: datetime | None = None
    again: Again | None = None


class Taken(NamedTuple):
    """The result of a take: messages, and unreadable rows."""

    waiting: Sequence[InLimbo]
    odd: Sequence[OddWaiting]


class Limbo:
    """The limbo of a database; its tables are made at first use. Safe to share between threads.

    ``name`` says who puts messages in; nothing depends on it. Over an asyncio engine it belongs to one event
    loop.

    Guarantee: what is put in is kept as safely as the database keeps a commit, and taken out once; inside a
    transaction of the same database (:meth:`joined`) atomic with everything else in there.
    """

    def __init__(
        self,
        line: Database,
        *,
        name: str = "doubtless",
        lease: timedelta = DEFAULT_LEASE,
        clock: Clock = lambda: None,
    ) -> None:
        self._line = Prepared(line, look=limbo_exists, make=create_limbo)
        self.name = name
        self.lease = lease
        self.clock = clock
        self._number: int | None = None

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        name: str = "doubtless",
        lease: timedelta = DEFAULT_LEASE,
        clock: Clock = lambda: None,
        asyncio: bool = False,
    ) -> "Limbo":
        """Open the limbo at ``sqlite:///file.db`` or ``postgresql://...``; it does not connect yet.

        Raises:
            ConfigurationError: the URL is for something else, or (MissingExtraError) a driver is missing.
        """
        _, bare = SqlJmsSettings.from_url(url)
        with _limbos_errors():
            engine = open_engine(bare, asyncio=asyncio, options=SqlJmsSettings.names())
        greeting = LINEAGE.greet if engine.dialect.name == Dialect.POSTGRESQL else None
        line = Pooled(engine, disposable=True, greet=greeting)
        return cls(line, name=name, lease=lease, clock=clock)

    def joined(self, connection: AnyConnection) -> "Limbo":
        """Return the same limbo inside the transaction that ``connection`` has open."""
        joined = copy.copy(self)
        joined._line = self._line.joined(connection)  # noqa: SLF001  (its own class)
        return joined

    async def run(self, doing: str, work: Step[T], *, atomic: bool = True) -> T:
        """Do one step, by default in a transaction, on a database that has the tables.

        Raises:
            ProviderUnavailableError: the database did not answer.
            ConfigurationError: it never will, as it is set.
        """
        with _limbos_errors():
            if self._number is None:
                # Look first: on SQLite, the caller's own open transaction may keep others from writing.
                who = partial(_who, name=self.name)
                self._number = await self._line.run("looking for its name", who, atomic=False)
            if self._number is None:
                enter = partial(_enter, name=self.name)
                self._number = await self._line.run("entering its name", enter, atomic=True)
            return await self._line.run(doing, work, atomic=atomic)

    async def prepare(self) -> None:
        """Make sure of the tables now, and not at the first use; raises as :meth:`run`."""
        await self.run("looking for its tables", _nothing, atomic=False)

    async def put(self, entries: Sequence[Delayed]) -> None:
        """Let messages wait. A message that already waits for an input, by its uuid, stays as it is."""
        if entries:
            await self.run("putting messages in", partial(self.put_inside, entries=entries))

    async def put_inside(self, connection: AnyConnection, entries: Sequence[Delayed]) -> None:
        """Do the same as a part of a step of :meth:`run`."""
        numbers = await _draw(connection, len(entries))
        ((now,),) = await fetch(connection, sql.NOW, at=self.clock())
        chosen: list[tuple[Delayed, LimboRows]] = []
        for number, entry in zip(numbers, entries, strict=True):
            rows = rows_of(number, entry.message, entry.again)
            if await fetch(connection, sql.PUT_STATE, **rows.state):
                chosen.append((entry, rows))
        for statement, some in (
            (sql.PUT, [rows.message | self._due_row(entry, now) for entry, rows in chosen]),
            (sql.PUT_BODY, [rows.body for _, rows in chosen]),
            (sql.PUT_REPLYTO, [row for _, rows in chosen for row in rows.reply_to]),
            (sql.PUT_PROP, [row for _, rows in chosen for row in rows.properties]),
            (sql.PUT_PTYPE, [row for _, rows in chosen for row in rows.types]),
            (sql.PUT_DELAY, [row for _, rows in chosen for row in rows.delay]),
        ):
            if some:
                await execute_each(connection, statement, some)

    def _due_row(self, entry: Delayed, now: int) -> dict[str, object]:
        wait = timedelta(0) if entry.again is None else entry.again.delay
        return {
            "limbo_id": self._number,
            "date": now + milliseconds(wait) if entry.due is None else milliseconds_of(entry.due),
            "count": 0 if entry.again is None else entry.again.attempts,
            "source": entry.component,
            "port": entry.port,
        }

    async def take(self, input_name: str = NO_INPUT, *, limit: int = 100) -> Sequence[InLimbo]:
        """Take due messages: for an input, which counts as the beginning of an attempt, or to be sent."""
        return (await self.take_all(input_name, limit=limit)).waiting

    async def take_all(self, input_name: str = NO_INPUT, *, limit: int = 100) -> Taken:
        """Take as :meth:`take`, with the unreadable rows, which the caller must park and remove."""
        return await self.run(
            "taking messages", partial(self._take, input_name=input_name, limit=limit, token=uuid4().hex)
        )

    async def _take(self, connection: AnyConnection, input_name: str, limit: int, token: str) -> Taken:
        taken = await fetch(
            connection,
            sql.TAKE,
            at=self.clock(),
            input=input_name,
            limit=limit,
            token=token,
            lease=milliseconds(self.lease),
        )
        ids = [row.msg_id for row in taken]
        if ids and input_name != NO_INPUT:
            await execute(connection, sql.COUNT, ids=listed(connection, ids), change=1)
        messages, problems = await _read_each(connection, ids)
        odd = [await odd_inside(connection, number, token, text) for number, text in problems.items()]
        return Taken(messages, odd)

    async def next_due(self, input_name: str) -> timedelta | None:
        """Return the time until something is due for an input; None if nothing waits."""

        async def look(connection: AnyConnection) -> timedelta | None:
            ((due,),) = await fetch(connection, sql.NEXT, input=input_name)
            ((now,),) = await fetch(connection, sql.NOW, at=self.clock())
            return None if due is None else timedelta(milliseconds=max(due - now, 0))

        return await self.run("looking for messages", look, atomic=False)

    async def renew(self, taken: Sequence[InLimbo | OddWaiting]) -> None:
        """Report that a process is still busy with these."""
        for token, ids in _by_token(taken).items():
            work = partial(self._renew, token=token, ids=ids)
            await self.run("renewing leases", work)

    async def _renew(self, connection: AnyConnection, token: str, ids: Sequence[int]) -> None:
        lease, chosen = milliseconds(self.lease), listed(connection, ids)
        await execute(connection, sql.RENEW, at=self.clock(), token=token, ids=chosen, lease=lease)

    async def give_back(self, taken: Sequence[InLimbo | OddWaiting], delay: timedelta = timedelta(0)) -> None:
        """Give these back, as if nobody had taken them; nobody may take them before ``delay`` is over."""
        for token, ids in _by_token(taken).items():
            pause = delay or None
            work = partial(self._let_go, token=token, ids=ids, change=-1, pause=pause, error=None)
            await self.run("giving messages back", work)

    async def put_off(self, taken: InLimbo, pause: timedelta, *, error: str, failed: bool = True) -> bool:
        """Let one wait for so long from now on; False if another process has it now.

        ``failed`` counts a failure to send; attempts of an input were counted when it was taken.
        """
        change = 1 if failed and taken.again is None else 0
        work = partial(
            self._let_go, token=taken.token or "", ids=[taken.id], change=change, pause=pause, error=error
        )
        return bool(await self.run("putting a message off", work))

    async def _let_go(
        self,
        connection: AnyConnection,
        token: str,
        ids: Sequence[int],
        change: int,
        pause: timedelta | None,
        error: str | None,
    ) -> Sequence[int]:
        rows = await fetch(connection, sql.LET_GO, token=token, ids=listed(connection, ids), error=error)
        mine = [row.msg_id for row in rows]
        chosen = listed(connection, mine)
        if mine and change:
            await execute(connection, sql.COUNT, ids=chosen, change=change)
        if mine and pause is not None:
            millis = milliseconds(pause)
            await execute(connection, sql.PUT_OFF, at=self.clock(), pause=millis, ids=chosen)
        return mine

    async def take_out(self, taken: Sequence[InLimbo | OddWaiting]) -> Sequence[int]:
        """Forget these; return the ids of the ones that were still held."""
        return await self.run("taking messages out", partial(take_out_inside, taken=taken))

    def for_asyncio(self, url: str) -> "Limbo":
        """Return the limbo at a URL for an event loop, with the settings of this one."""
        return Limbo.from_url(url, name=self.name, lease=self.lease, clock=self.clock, asyncio=True)

    async def close(self) -> None:
        """Give the connections back."""
        await self._line.close()


async def take_out_inside(connection: AnyConnection, taken: Sequence[InLimbo | OddWaiting]) -> Sequence[int]:
    """Forget messages as a part of a step; return the ids of the ones that were still held."""
    gone: list[int] = []
    for token, ids in _by_token(taken).items():
        chosen = listed(connection, ids)
        gone += [row.msg_id for row in await fetch(connection, sql.TAKE_OUT, token=token, ids=chosen)]
    await clear_inside(connection, gone)
    return gone


async def clear_inside(connection: AnyConnection, ids: Sequence[int]) -> None:
    """Delete the rest of messages that have no state any more."""
    if ids:
        for statement in sql.CLEAR:
            await execute(connection, statement, ids=listed(connection, ids))


async def _draw(connection: AnyConnection, count: int) -> Sequence[int]:
    numbers = [row[0] for row in await fetch(connection, sql.DRAW_IDS, count=count)]
    if connection.dialect.name == Dialect.POSTGRESQL:
        return numbers
    return range(numbers[0] - count + 1, numbers[0] + 1)


async def _who(connection: AnyConnection, name: str) -> int | None:
    return next((int(input_id) for (input_id,) in await fetch(connection, sql.WHO, name=name)), None)


async def _enter(connection: AnyConnection, name: str) -> int:
    (number,) = await _draw(connection, 1)
    await execute(connection, sql.ENTER, name=name, id=number)
    ((input_id,),) = await fetch(connection, sql.WHO, name=name)
    return int(input_id)


async def read_inside(connection: AnyConnection, ids: Sequence[int]) -> Sequence[InLimbo]:
    """Read messages whole, in the order in which they are due; an unreadable one is logged and left."""
    messages, problems = await _read_each(connection, ids)
    for number, problem in problems.items():
        _log.error("message %d in limbo is unreadable, and is parked when it is due: %s", number, problem)
    return messages


async def _read_each(
    connection: AnyConnection, ids: Sequence[int]
) -> tuple[Sequence[InLimbo], dict[int, str]]:
    """Return the readable messages, and by number what is wrong with the others."""
    problems: dict[int, str] = {}
    if not ids:
        return [], problems
    try:
        return await _read(connection, ids, problems), problems
    except DBAPIError as error:
        if not is_of_a_row(error):
            raise
    messages: list[InLimbo] = []
    for number in ids:
        try:
            messages += await _read(connection, [number], problems)
        except DBAPIError as error:
            if not is_of_a_row(error):
                raise
            problems[number] = f"the row cannot be read ({str(error.orig)[:200]})"
    return messages, problems


async def _read(connection: AnyConnection, ids: Sequence[int], problems: dict[int, str]) -> Sequence[InLimbo]:
    chosen = listed(connection, ids)
    by_id: dict[int, list[AnyRow]] = {}
    for row in await fetch(connection, sql.READ_PROPS, ids=chosen):
        by_id.setdefault(row.msg_id, []).append(row)
    messages: list[InLimbo] = []
    for row in await fetch(connection, sql.READ, ids=chosen):
        try:
            messages.append(waiting_of(row, by_id.get(row.msg_id, ())))
        except Exception as error:  # noqa: BLE001  (an odd row must not stop the others)
            problems[int(row.msg_id)] = problem_of(error)
    return messages


_limbos_errors = partial(providers_errors, system="the limbo", setting="limbo")


async def _nothing(_: AnyConnection) -> None:
    pass


def _by_token(taken: Sequence[InLimbo | OddWaiting]) -> dict[str, list[int]]:
    by_token: dict[str, list[int]] = {}
    for entry in taken:
        by_token.setdefault(entry.token or "", []).append(entry.id)
    return by_token


__all__ = [
    "DEFAULT_LEASE",
    "NO_INPUT",
    "Again",
    "Clock",
    "Delayed",
    "InLimbo",
    "Limbo",
    "OddWaiting",
    "Taken",
]
