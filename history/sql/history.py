"""The document history in SQL: SQLite, the embedded default, and PostgreSQL."""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Self, TypedDict

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from history.beside.kept import KeepsBeside
from history.beside.parking import DECISIONS, LABELS, Parking
from history.beside.progress import changes_of
from history.beside.results import OF_ENTRIES
from history.entry import (
    DEFAULT_TIME_TO_LIVE,
    SHORT_DIGEST_SIZE,
    Claim,
    Entry,
    EntryOutcome,
    EntryTerms,
    Fence,
    Renewal,
    Settlement,
    check_held,
    digest,
)
from history.errors import ConfigurationError
from history.message import Uuid
from history.sql.batches import settle_batches
from history.sql.database.check import remarks_on, warnings_about
from history.sql.database.engine import (
    AnyConnection,
    AnyEngine,
    Pooled,
    fetch,
    in_memory,
    open_engine,
    open_twin,
    refuse_other_drivers,
    split_circuit,
    split_option,
)
from history.sql.database.paths import address_of
from history.sql.database.probe import circuit_for
from history.sql.database.riders import Ending, carry
from history.sql.database.serving import guard
from history.sql.entries.claims import Claiming, EntryRow, answers, entry_of, look_up
from history.sql.entries.counting import count, estimate, piece_end
from history.sql.entries.fences import Anchor, Granted
from history.sql.entries.lineage import HISTORY
from history.sql.entries.purging import purge_some
from history.sql.entries.settlements import (
    completion_of,
    renew_batch,
    renew_entries,
    settle_entries,
    turns_of,
)
from history.sql.records import SqlRecords, delete, triggers_with
from history.sql.statements.dialects import Dialect
from history.sql.statements.entries import (
    FORGET,
    SCAN,
    TRIGGERS,
)
from history.sql.tables.history import Prepared
from history.sql.tables.migrating import migrate, warnings_about_age
from history.sql.transaction import SqlTransaction, open_transaction
from history.store import (
    WHOLE,
    BatchOwner,
    HistoryStats,
    Owner,
    Page,
    Purged,
    ScannedEntry,
    ScanPart,
    SingleVerbs,
)
from history.store.inspection import Capability, Refusal, Room
from history.store.progress import BatchRecord
from history.store.records import Delete
from history.support.encryption import SETTING, Cipher, cipher_of

if TYPE_CHECKING:
    from history.beside.control import Control

#: The most uuids of one statement; SQL is faster with more than the protocol promises.
PIECE = 1000


class SqlOptions(TypedDict, total=False):
    """The options of a :class:`SqlHistory`, except its engine."""

    owned: bool
    circuit: bool
    encrypt: str | Cipher | None


class SqlHistory(SingleVerbs, KeepsBeside):
    """A document history in a SQL database; its tables are created at first use.

    ``engine`` is a SQLAlchemy engine, blocking or asyncio, for SQLite or for PostgreSQL through psycopg; the
    history uses its connections in autocommit. If ``owned`` is true, :meth:`close` disposes of it. Your own
    SQLite engine sets ``timeout`` and ``PRAGMA synchronous``: below FULL, a power cut can undo the last
    completions, and those messages run again. While PostgreSQL does not answer, calls fail immediately,
    unless ``circuit`` is false, or the URL has ``?circuit=off``. :meth:`from_url` detects PgBouncer and then
    prepares no statements; set this yourself in your own engine.

    With ``encrypt="file:/run/secrets/key"`` or ``"env:NAME"``, or with ``?encrypt=...`` in the URL, parked
    messages and kept results are encrypted; see :class:`~history.support.encryption.Cipher`.

    Threads may share it; over an asyncio engine it belongs to one event loop.

    Raises:
        ConfigurationError: the engine is for another database or driver, or ``encrypt`` does not name a key.

    Guarantee: in doubt; fenced, if the effect's target checks the fence; atomic, if the effects happen on the
    connection given to :meth:`joined`: history entry and effects share one SQL transaction.
    """

    def __init__(
        self,
        engine: AnyEngine,
        *,
        owned: bool = False,
        circuit: bool = True,
        encrypt: str | Cipher | None = None,
    ) -> None:
        self._cipher = cipher_of(encrypt)
        refuse_other_drivers(engine)
        self._engine = engine
        own = engine if owned else engine.execution_options(isolation_level="AUTOCOMMIT")
        self._circuit = circuit
        greeting = HISTORY.greet if engine.dialect.name == Dialect.POSTGRESQL else None
        self._database = Prepared(Pooled(own, owned, circuit_for(own, enabled=circuit), greeting))
        self._granted = Granted()
        self._anchor = Anchor()
        self.keep_beside(
            SqlRecords(self._database),
            self._cipher,
            triggers=self.triggers,
            lookup=self.lookup,
            address=partial(address_of, engine.url),
        )

    @classmethod
    def from_url(cls, url: str | URL, *, encrypt: str | Cipher | None = None) -> Self:
        """Open the history at ``sqlite:///file.db`` or ``postgresql://user@host/database``.

        ``encrypt`` counts if the URL does not have it.

        Raises:
            ConfigurationError: the URL is of another kind, or (MissingExtraError) a driver is missing.
        """
        rest, named = split_option(url, SETTING)
        rest, circuit = split_circuit(rest)
        engine = open_engine(rest, asyncio=False, options=("circuit", SETTING))
        return cls(engine, owned=True, circuit=circuit, encrypt=encrypt if named is None else named)

    def for_asyncio(self) -> Self:
        """Return the same database through another, asyncio engine; itself, if it has such an engine.

        Raises:
            ConfigurationError: the database is in memory, or (MissingExtraError) a driver is missing.
        """
        if self.is_for_asyncio:
            return self
        return type(self)(self._asyncio_engine(), owned=True, circuit=self._circuit, encrypt=self._cipher)

    @property
    def is_for_asyncio(self) -> bool:
        """Whether its calls are awaited."""
        return isinstance(self._engine, AsyncEngine)

    def _asyncio_engine(self) -> AnyEngine:
        if self._database.dialect is Dialect.SQLITE and in_memory(self._engine.url):
            raise ConfigurationError(
                "history", "a SQLite database in memory has only one client", "use memory:// or a file"
            )
        return open_twin(self._engine, asyncio=True)

    def joined(self, connection: AnyConnection) -> Self:
        """Return a view of this history inside the open transaction of ``connection``.

        Its writes are committed or rolled back with the rest of the transaction. On PostgreSQL another claim
        of the same uuid waits for the end of the transaction. On SQLite begin it with ``BEGIN IMMEDIATE``.
        """
        view = copy.copy(self)
        view._database = self._database.joined(connection)  # noqa: SLF001  (its own class)
        if self._database.dialect is Dialect.SQLITE:
            # SQLite grants a fence again if the transaction that granted it is rolled back.
            view._granted = self._granted.frozen()  # noqa: SLF001  (as above)
        return view

    def completion(self, trigger: str, settlements: Sequence[Settlement]) -> Ending | None:
        """Return the step that completes these at the end of the transaction that claimed them, or fails."""
        return completion_of(trigger, settlements)

    async def transaction(self, *, lean: bool = False) -> AbstractAsyncContextManager[SqlTransaction]:
        """Return a transaction for one service's effects and their entries, as a context manager.

        On PostgreSQL a ``lean`` transaction begins with its first statement, in the same round trip. If the
        transaction is stale in the end, the caller repeats the work in it.

        Raises:
            HistoryUnavailableError: the server did not answer.
            ConfigurationError: this is a view inside a caller's transaction.
        """
        pool = await self._database.prepare()
        if pool is None:
            raise ConfigurationError(
                "history", "it is in a transaction already", "give the trigger the history itself"
            )
        guard(pool.engine)
        carry(pool.engine)
        return open_transaction(pool, self.joined, lean=lean)

    @property
    def parking(self) -> Parking:
        """The parking lot in the same database."""
        if self._records_are_here:
            return super().parking
        return Parking(SqlRecords(self._database), self._cipher, triggers=self.triggers)

    @property
    def control(self) -> "Control":
        """Commands, states and statistics in the same database."""
        if self._records_are_here:
            return super().control
        from history.beside.control import Control  # noqa: PLC0415  (a worker of Spark only claims)

        return Control(SqlRecords(self._database), self._address)

    @property
    def _records_are_here(self) -> bool:
        """Whether the records are in this database; a view inside a caller's transaction has another one."""
        return isinstance(self._records, SqlRecords) and self._records.database is self._database

    async def check(self) -> Sequence[str]:
        """Create the missing tables, and warn about a database that may lose commits.

        Raises:
            ConfigurationError: a newer version wrote the tables.
        """

        async def warnings(connection: AnyConnection) -> Sequence[str]:
            return [*await warnings_about_age(connection), *await warnings_about(connection)]

        return await self._database.run("checking the database", warnings)

    async def migrate(self, *, dry: bool = False) -> Sequence[str]:
        """Bring tables of an older version up to date; see :class:`~history.store.inspection.Migrating`.

        Raises:
            ConfigurationError: this is a view inside a caller's transaction.
        """
        if not isinstance(self._database.inner, Pooled):
            raise ConfigurationError("history", "it is in a transaction", "migrate the history itself")
        return await migrate(self._database.inner, dry=dry)

    async def remarks(self) -> Sequence[str]:
        """Return remarks on usual settings that can still lose the last commits."""
        return await self._database.run("checking the database", remarks_on)

    async def refusals(self, trigger: str, capabilities: Collection[Capability]) -> Sequence[Refusal]:  # noqa: ARG002  (tables have no rows of their own accounts)
        """Return what the role may not do; see :class:`~history.store.inspection.TellingRefusals`.

        SQLite has no roles: there the check is an empty transaction that begins like a writing one.
        """
        from history.sql.entries.permissions import refusals_in  # noqa: PLC0415  (no consumer asks)

        return await refusals_in(self._database, capabilities)

    async def room(self) -> Room | None:
        """Return how many connections are possible; see :class:`~history.store.inspection.TellingRoom`."""
        from history.sql.database.room import room_of  # noqa: PLC0415  (as above)

        look = partial(room_of, engine=self._engine)
        return await self._database.run("asking how many connections there may be", look)

    async def claim(
        self,
        trigger: str,
        uuids: Sequence[str],
        owner: Owner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[Claim]:
        """Claim each uuid that is absent; see :class:`~history.store.HistoryStore`."""
        keys, greatest = [digest(uuid) for uuid in uuids], self._granted.greatest
        claiming = Claiming(trigger, owner, EntryTerms(lease, time_to_live))
        rows: dict[bytes, EntryRow] = {}
        for piece in _pieces(dict.fromkeys(keys)):
            rows |= await self._database.run(
                "claiming", partial(claiming.claim, keys=piece), atomic=self._in_steps
            )
        claims = answers(keys, rows, owner)
        fresh = [row for row in rows.values() if row.written]
        if fresh:
            await self._anchor.check(self._database, trigger, anchored=bool(fresh[0].anchored))
        written = [Fence(row.fence) for row in fresh]
        self._granted.note(written)
        # The number of a batch may be older than other claims.
        if not written or isinstance(owner, BatchOwner) or min(written) > greatest:
            return claims
        await self._granted.step_over(self._database, trigger)
        undone = [
            Settlement(Uuid(uuid), claim.fence, None, owner)
            for uuid, claim in zip(uuids, claims, strict=True)
            if claim.found is None
        ]
        await self.settle(trigger, undone)
        return await self.claim(trigger, uuids, owner, lease, time_to_live=time_to_live)

    async def take_over(
        self,
        trigger: str,
        uuid: str,
        owner: str,
        lease: timedelta | None,
        expected_fence: int,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
        expected_owner: str | None = None,
        failed: bool = False,
    ) -> Claim | None:
        """Compare the fence and become the owner; see :class:`~history.store.HistoryStore`."""
        claiming = Claiming(trigger, owner, EntryTerms(lease, time_to_live))
        take = partial(
            claiming.take_over,
            key=digest(uuid),
            owner=owner,
            expected_fence=expected_fence,
            expected_owner=expected_owner,
            failed=failed,
        )
        greatest = self._granted.greatest
        taken = await self._database.run("taking over", take, atomic=self._in_steps)
        if taken is None:
            return None
        fence, granted = taken
        self._granted.note([fence])
        if fence > greatest or not granted:
            return Claim(None, fence)
        await self._granted.step_over(self._database, trigger)
        await self.release(trigger, uuid, fence, owner=owner)
        (claim,) = await self.claim(trigger, [uuid], owner, lease, time_to_live=time_to_live)
        return claim if claim.found is None else None

    async def adopt(
        self,
        trigger: str,
        expected: Sequence[tuple[str, int]],
        owner: BatchOwner,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[bool]:
        """Move STARTED entries into a batch; see :class:`~history.store.HistoryStore`."""
        claiming = Claiming(trigger, owner, EntryTerms(None, time_to_live))
        fences = {digest(uuid): fence for uuid, fence in expected}
        done: set[bytes] = set()
        for piece in _pieces(fences):
            adopt = partial(claiming.adopt, fences={key: fences[key] for key in piece}, owner=owner)
            done |= await self._database.run("adopting", adopt, atomic=True)
        return [key in done for key in fences]

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Complete or release claims that still have their fence."""
        settled = [False] * len(settlements)
        for indexes in turns_of([settlement.uuid for settlement in settlements]):
            for piece in _pieces(indexes):
                wishes = {key: settlements[indexes[key]] for key in piece}
                step = partial(settle_entries, trigger=trigger, wishes=wishes)
                answers = await self._database.run("settling", step, atomic=self._in_steps)
                for key, answer in answers.items():
                    settled[indexes[key]] = answer
        return settled

    async def renew_many(self, trigger: str, renewals: Sequence[Renewal], lease: timedelta) -> Sequence[bool]:
        """Prolong leases of entries, or of their batches; see :class:`~history.store.ManyLeases`."""
        check_held("lease", lease)
        renewed = [False] * len(renewals)
        for indexes in turns_of([renewal.uuid for renewal in renewals]):
            for piece in _pieces(indexes):
                some = {key: renewals[indexes[key]] for key in piece}
                step = partial(renew_entries, trigger=trigger, renewals=some, lease=lease)
                for key in await self._database.run("renewing leases", step, atomic=self._in_steps):
                    renewed[indexes[key]] = True
        return renewed

    async def renew_batch(self, trigger: str, owner: BatchOwner, lease: timedelta) -> bool:
        """Prolong the lease in the one row of a batch; see :class:`~history.store.BatchLeases`."""
        check_held("lease", lease)
        step = partial(renew_batch, trigger=trigger, token=owner.token, lease=lease)
        return bool(await self._database.run("renewing a batch's lease", step))

    async def settle_batches(
        self,
        trigger: str,
        owners: Sequence[BatchOwner],
        outcome: EntryOutcome | None,
        *,
        record: BatchRecord | None = None,
    ) -> bool:
        """Settle the one row of each batch, and store the record, in one transaction."""
        changes = () if record is None else changes_of(record)
        step = partial(settle_batches, trigger=trigger, owners=owners, outcome=outcome, changes=changes)
        atomic = self._in_steps or len(owners) > 1 or bool(changes)
        return await self._database.run("settling a batch", step, atomic=atomic)

    async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Read entries without claiming."""
        keys = [digest(uuid) for uuid in uuids]
        entries: dict[bytes, Entry] = {}
        for piece in _pieces(dict.fromkeys(keys)):
            rows = await self._database.run("looking up", partial(look_up, trigger=trigger, keys=piece))
            entries |= {row.digest: entry_of(row) for row in rows}
        return [entries.get(key) for key in keys]

    async def scan(
        self, trigger: str, *, cursor: str | None = None, limit: int = 1000, part: ScanPart = WHOLE
    ) -> Page:
        """Read entries in the order of their digests; the cursor is the last one, in hexadecimal."""
        begin, end = part.range
        after = bytes.fromhex(cursor) if cursor else begin
        until = await piece_end(self._database, trigger, after, end, limit)
        read = partial(fetch, statement=SCAN, trigger=trigger, after=after, end=until or end)
        entries = [
            ScannedEntry(row.digest[:SHORT_DIGEST_SIZE], entry_of(row))
            for row in await self._database.run("scanning", read)
        ]
        return Page(entries, until.hex() if until else None)

    async def purge_some(self, trigger: str, cursor: str | None = None) -> Purged:
        """Delete some expired rows; when none are left, check some of the ledger."""
        return await self._database.run("purging", partial(purge_some, trigger=trigger, cursor=cursor))

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Delete one entry in any state, and the fingerprint, result and failure beside it."""
        key = digest(uuid)

        async def forget(connection: AnyConnection) -> bool:
            gone = [
                bool(await fetch(connection, FORGET, trigger=trigger, key=key)),
                *[await delete(connection, trigger, Delete(record_kind, key)) for record_kind in OF_ENTRIES],
            ]
            return any(gone)

        return await self._database.run("forgetting", forget, atomic=True)

    async def stats(self, trigger: str) -> HistoryStats:
        """Count entries by state; this reads all entries of the trigger, piece by piece."""
        return await count(self._database, trigger)

    async def about(self, trigger: str) -> HistoryStats:
        """Estimate these numbers from some entries; see :class:`~history.store.inspection.Estimating`."""
        return await estimate(self._database, trigger)

    async def triggers(self) -> Sequence[str]:
        """Name the triggers with entries or decisions."""
        return await self._database.run("listing triggers", _known_triggers)

    async def close(self) -> None:
        """Close the connections, unless the caller owns the engine."""
        await self._database.close()

    @property
    def _in_steps(self) -> bool:
        """Whether a write takes several statements, and so a transaction; PostgreSQL needs only one."""
        return self._database.dialect is Dialect.SQLITE


async def _known_triggers(connection: AnyConnection) -> Sequence[str]:
    entries = [name for (name,) in await fetch(connection, TRIGGERS) if isinstance(name, str)]  # else spoilt
    return sorted({*entries, *await triggers_with(connection, LABELS, DECISIONS)})


def _pieces(keys: Mapping[bytes, object]) -> Iterator[Sequence[bytes]]:
    rest = iter(keys)
    while piece := list(islice(rest, PIECE)):
        yield piece
