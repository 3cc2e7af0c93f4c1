"""How a SQL history claims: the only step that differs between SQLite and PostgreSQL.

PostgreSQL claims in one statement, and repeats it for a uuid that another claim took at the same moment.
SQLite has one writer at a time: a digest that its transaction found absent stays absent until it is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from history.entry import Claim, Entry, EntryOutcome, EntryTerms, Fence, State
from history.errors import HistoryUnavailableError
from history.sql.database.engine import AnyConnection, AnyRow, execute, fetch
from history.sql.statements.dialects import Dialect, wanted
from history.sql.statements.entries import (
    ADOPT,
    CLAIM,
    CLAIM_FOR_BATCH,
    DRAW_FENCES,
    LEDGER,
    LOOKUP,
    OPEN_BATCH,
    RETIRE_BATCH,
    TAKE_OVER,
    WRITE,
    WRITE_FOR_BATCH,
)
from history.store import BatchOwner, Owner, instant, milliseconds
from history.support.rendering import text_of
from history.support.spoilt import UNREADABLE, tell

#: A row of LOOKUP or of a claim.
EntryRow = AnyRow

#: The reported life of an entry that cannot be read: its real one is unknown.
SPOILT_LIVES = timedelta(days=7)

#: How often a claim is tried if other claims get in the way, before it is given up.
ATTEMPTS = 20


def entry_of(row: EntryRow) -> Entry:
    """Return the entry in a row; if a cell cannot be read, the entry is In Doubt, for somebody to decide."""
    try:
        return _entry(row)
    except UNREADABLE as error:
        tell(f"an entry of the history cannot be read, and is In Doubt: {text_of(error)}")
        return _spoilt(row)


def _entry(row: EntryRow) -> Entry:
    return Entry(
        state=State(row.state),
        outcome=None if row.outcome is None else EntryOutcome(row.outcome),
        owner=row.owner,
        fence=Fence(row.fence),
        started_at=instant(row.started_at),
        lease_until=None if row.lease_until is None else instant(row.lease_until),
        expires_at=instant(row.expires_at),
        read_at=instant(row.now),
        batch=bool(row.batch),
    )


def _spoilt(row: EntryRow) -> Entry:
    now = instant(row.now)
    return Entry(
        state=State.STARTED,
        owner=row.owner if isinstance(row.owner, str) else None,
        fence=Fence(row.fence if isinstance(row.fence, int) else 0),
        started_at=now,
        expires_at=now + SPOILT_LIVES,
        read_at=now,
        batch=bool(row.batch),
    )


def answers(keys: Sequence[bytes], rows: Mapping[bytes, EntryRow], owner: Owner) -> Sequence[Claim]:
    """Answer each place of a claim; if a key occurs again, the second place finds the entry of the first."""
    batch = isinstance(owner, BatchOwner)
    token = owner.token if isinstance(owner, BatchOwner) else owner
    seen: set[bytes] = set()
    claims: list[Claim] = []
    for key in keys:
        row = rows[key]
        mine = row.written or (row.state == State.STARTED and row.owner == token and bool(row.batch) == batch)
        entry = None if mine and key not in seen else entry_of(row)
        claims.append(Claim(entry, Fence(row.fence)))
        seen.add(key)
    return claims


async def look_up(connection: AnyConnection, trigger: str, keys: Sequence[bytes]) -> Sequence[EntryRow]:
    """Return the rows of the keys that have an entry, in no order."""
    return await fetch(connection, LOOKUP, trigger=trigger, **wanted(connection.dialect.name, keys))


@dataclass(frozen=True, slots=True)
class Claiming:
    """A claiming owner, its trigger, and for how long it claims."""

    trigger: str
    owner: Owner
    terms: EntryTerms

    async def claim(self, connection: AnyConnection, *, keys: Sequence[bytes]) -> Mapping[bytes, EntryRow]:
        """Write entries for the absent ones among distinct keys; return a row for each key.

        Raises:
            HistoryUnavailableError: other claims kept getting in the way.
        """
        rows: dict[bytes, EntryRow] = {}
        missing = sorted(keys)
        reopen = False
        for _ in range(ATTEMPTS):
            if isinstance(self.owner, BatchOwner):
                claimed = await self._claim_for_batch(connection, missing, self.owner, reopen=reopen)
            else:
                claimed = await self._claim(connection, missing, self.owner)
            rows |= {row.digest: row for row in claimed}
            missing = [key for key in missing if key not in rows]
            if not missing:
                return rows
            reopen = True
        raise HistoryUnavailableError(f"claiming: others kept claiming the same uuids ({ATTEMPTS} attempts)")

    async def take_over(
        self,
        connection: AnyConnection,
        *,
        key: bytes,
        owner: str,
        expected_fence: int,
        expected_owner: str | None,
        failed: bool,
    ) -> tuple[Fence, bool] | None:
        """Replace a STARTED entry, or a failed one, that has the expected fence and owner; else return None.

        Return its fence, and whether it was granted now: the owner may have met its own entry.
        """
        expected = {"expected_fence": expected_fence, "expected_owner": expected_owner, "failed": failed}
        named = {"trigger": self.trigger, "key": key, "owner": owner, **expected}
        if connection.dialect.name == Dialect.SQLITE:
            await _draw_fences(connection, 1)
        for (fence,) in await fetch(connection, TAKE_OVER, **named, **self._durations()):
            return Fence(fence), True
        for row in await look_up(connection, self.trigger, [key]):
            if row.state == State.STARTED and row.owner == owner:
                return Fence(row.fence), False
        return None

    async def adopt(
        self, connection: AnyConnection, *, fences: Mapping[bytes, int], owner: BatchOwner
    ) -> set[bytes]:
        """Move entries that are STARTED with their fence into the batch; return what the batch holds."""
        batch = await self._open(connection, owner, reopen=True)
        keys = sorted(fences)
        values = wanted(connection.dialect.name, keys, [fences[key] for key in keys], [None] * len(keys))
        rows = await fetch(connection, ADOPT, trigger=self.trigger, number=batch.number, **values)
        return {row.digest for row in rows}

    async def _claim(
        self, connection: AnyConnection, keys: Sequence[bytes], owner: str
    ) -> Sequence[EntryRow]:
        values = {"trigger": self.trigger, "owner": owner, **self._durations()}
        if connection.dialect.name == Dialect.POSTGRESQL:
            return await fetch(connection, CLAIM, **values, **wanted(connection.dialect.name, keys))
        standing, absent = await self._look_up(connection, keys)
        if not absent:
            return standing
        last = await _draw_fences(connection, len(absent))
        fences = range(last - len(absent) + 1, last + 1)
        written = await fetch(connection, WRITE, **values, **wanted(connection.dialect.name, absent, fences))
        return [*standing, *written]

    async def _claim_for_batch(
        self, connection: AnyConnection, keys: Sequence[bytes], owner: BatchOwner, *, reopen: bool
    ) -> Sequence[EntryRow]:
        batch = await self._open(connection, owner, reopen=reopen)
        values = {
            "trigger": self.trigger,
            "owner": owner.token,
            "number": batch.number,
            "lease_until": batch.lease_until,
            "now": batch.now,
        }
        if connection.dialect.name == Dialect.POSTGRESQL:
            return await fetch(connection, CLAIM_FOR_BATCH, **values, **wanted(connection.dialect.name, keys))
        standing, absent = await self._look_up(connection, keys)
        if not absent:
            return standing
        written = await fetch(
            connection, WRITE_FOR_BATCH, **values, **wanted(connection.dialect.name, absent)
        )
        return [*standing, *written]

    async def _look_up(
        self, connection: AnyConnection, keys: Sequence[bytes]
    ) -> tuple[Sequence[EntryRow], Sequence[bytes]]:
        standing = await look_up(connection, self.trigger, keys)
        there = {row.digest for row in standing}
        return standing, [key for key in keys if key not in there]

    async def _open(self, connection: AnyConnection, owner: BatchOwner, *, reopen: bool) -> AnyRow:
        """Return the ledger's row of the batch; open the batch if needed.

        A completed batch stays as it is while its replay only meets what it completed: these are duplicates.
        Before it claims more, it is opened again under another number.
        """
        named = {"trigger": self.trigger, "token": owner.token}
        for _ in range(ATTEMPTS):
            for row in await fetch(connection, LEDGER, **named):
                if not (reopen and row.state == State.COMPLETED):
                    return row
            await execute(connection, RETIRE_BATCH, **named)
            if connection.dialect.name == Dialect.SQLITE:
                await _draw_fences(connection, 1)
            await execute(connection, OPEN_BATCH, **named, **self._durations())
        raise HistoryUnavailableError(f"opening a batch: others kept closing it ({ATTEMPTS} attempts)")

    def _durations(self) -> dict[str, int | None]:
        lease = None if self.terms.lease is None else milliseconds(self.terms.lease)
        return {"lease": lease, "time_to_live": milliseconds(self.terms.time_to_live)}


async def _draw_fences(connection: AnyConnection, count: int) -> int:
    """Take the next fences and return the last of them."""
    ((last,),) = await fetch(connection, DRAW_FENCES, count=count)
    return int(last)
