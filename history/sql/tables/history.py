"""The tables of a SQL history, and how they are made.

====================  ===============================================================================
doubtless_history     one row per remembered uuid; a row after its time to live counts as absent. The state
                      of a batch's row is in the ledger: its ``batch`` (which is also its fence) names the
                      row there. The row without a trigger is the anchor, which always exists
doubtless_batches     the ledger: one row per opened batch. At most one row of a token is not retired: it is
                      the batch; the retired rows only have the state of completed entries
doubtless_records     the records beside the entries: one row per record, by its kind and key
doubtless_log         the logs: one row per line
doubtless_meta        ``schema``: the version of these tables; ``anchor``: there was one; ``fence``: the last
                      fence (SQLite only, PostgreSQL has the sequence ``doubtless_fences``)
====================  ===============================================================================

Instants are milliseconds since 1970 by the server's clock.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    schema,
    text,
)
from sqlalchemy.schema import CreateSequence

from history.bridge import settled
from history.errors import ConfigurationError, HistoryUnavailableError
from history.sql.database.engine import (
    AnyConnection,
    CallersConnection,
    Step,
    execute,
    fetch,
)
from history.sql.statements.dialects import Dialect, statement
from history.sql.statements.entries import ANCHOR, READ_ANCHOR
from history.sql.tables.columns import refuse_foreign
from history.sql.tables.making import (
    CLEAN_OFTEN,
    ONE_CREATOR,
    ONLY,
    STORAGE,
    AddedTables,
    make_table,
    table_exists,
)

_log = logging.getLogger(__name__)

#: How often the switch to the write-ahead log is tried while other connections prevent it.
ATTEMPTS = 5

#: The version of the tables that this code reads and writes.
SCHEMA = 2

#: Compared byte by byte: this is quicker, and an upgrade of the system's collations cannot corrupt the index.
NAME = Text().with_variant(Text(collation="C"), "postgresql")

#: SQLite clusters a table only by an INTEGER.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")

METADATA = MetaData()

HISTORY = Table(
    "doubtless_history",
    METADATA,
    Column("trigger_name", NAME, primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("state", Text),
    Column("outcome", Text),
    Column("owner", Text),
    Column("fence", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("lease_until", BigInteger),
    Column("expires_at", BigInteger, nullable=False),
    Column("batch", BigInteger),
    Index("doubtless_history_expiry", "expires_at", info={ONLY: Dialect.SQLITE}),
    # With the digest, so that a purge can go on among entries that expire at the same instant.
    Index("doubtless_history_purge", "expires_at", "digest", info={ONLY: Dialect.POSTGRESQL}),
    # With room on each page for the second version of a row, so that its completion changes no index.
    info={STORAGE: {"fillfactor": "70", **CLEAN_OFTEN}},
)

BATCHES = Table(
    "doubtless_batches",
    METADATA,
    Column("number", NUMBER, primary_key=True, autoincrement=False),
    Column("trigger_name", NAME, nullable=False),
    Column("token", NAME, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("started_at", BigInteger, nullable=False),
    Column("lease_until", BigInteger),
    Column("expires_at", BigInteger, nullable=False),
    Column("retired", Boolean, nullable=False, server_default=text("false")),
    Index(
        "doubtless_batches_current",
        "trigger_name",
        "token",
        unique=True,
        postgresql_where=text("NOT retired"),
        sqlite_where=text("NOT retired"),
    ),
    info={STORAGE: CLEAN_OFTEN},
)

RECORDS = Table(
    "doubtless_records",
    METADATA,
    Column("trigger_name", NAME, primary_key=True),
    Column("kind", NAME, primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Index("doubtless_records_expiry", "expires_at"),
    info={STORAGE: CLEAN_OFTEN},
)

LOG = Table(
    "doubtless_log",
    METADATA,
    Column("id", NAME, primary_key=True),
    Column("trigger_name", NAME, nullable=False),
    Column("kind", NAME, nullable=False),
    Column("about", LargeBinary, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    Column("line", Text, nullable=False),
    Index("doubtless_log_times", "trigger_name", "kind", "written_at", "id"),
    Index("doubtless_log_about", "trigger_name", "kind", "about", "written_at"),
    info={STORAGE: CLEAN_OFTEN},
)

META = Table(
    "doubtless_meta",
    METADATA,
    Column("name", NAME, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

FENCES = schema.Sequence("doubtless_fences")

# Readers and the one writer do not wait for each other; the file keeps this mode. No effect in memory.
WRITE_AHEAD = statement(sqlite="PRAGMA journal_mode = WAL", postgresql="SELECT 1")

# Store the version, once.
MARK_SCHEMA = statement(
    f"INSERT INTO doubtless_meta (name, value) VALUES ('schema', {SCHEMA}), ('fence', 0), ('anchor', 1)"  # noqa: S608  (a number)
    " ON CONFLICT DO NOTHING"
)

# The stored version, and the last fence.
READ_META = statement("SELECT name, value FROM doubtless_meta WHERE name IN ('schema', 'fence')")

#: The statement for an operator who knows the version, if the stored version is spoilt.
MEND_SCHEMA = (
    f"INSERT INTO doubtless_meta (name, value) VALUES ('schema', {SCHEMA})"  # noqa: S608  (a number)
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

#: A greater number is not a valid fence: there must be room for more fences above it.
MOST_FENCES = 2**62


async def history_exists(connection: AnyConnection) -> bool:
    """Whether the tables of a history exist.

    Raises:
        ConfigurationError: a newer version, another program or an unknown program wrote them.
    """
    await refuse_foreign(connection, METADATA.sorted_tables, setting="history")
    if not await table_exists(connection, META):
        return False
    meta: dict[str, object] = {str(name): value for name, value in await fetch(connection, READ_META)}
    if not meta.keys() >= {"schema", "fence"}:
        await _tell_if_emptied(connection)
    if connection.dialect.name == Dialect.SQLITE:
        _tell_of_fences(meta.get("fence"))
    version = meta.get("schema")
    if not isinstance(version, int) or version < 1:
        raise ConfigurationError(
            "history",
            "the row schema of the table doubtless_meta must be the version of its tables, and "
            + _said(version),
            f"if no doubtless newer than this wrote them: {MEND_SCHEMA}",
        )
    if version > SCHEMA:
        raise ConfigurationError(
            "history",
            f"its tables have version {version}, but this doubtless supports only up to {SCHEMA}",
            "upgrade doubtless here, or give this worker a database of its own",
        )
    return True


async def _tell_if_emptied(connection: AnyConnection) -> None:
    """Log that the table of entries was emptied together with the notes about it."""
    if await table_exists(connection, HISTORY) and not await fetch(connection, READ_ANCHOR):
        _log.critical("the document history was emptied: messages processed before are NEW again")


def _tell_of_fences(fence: object) -> None:
    """Log a spoilt row of the last fence; the next draw of a fence repairs it."""
    if not isinstance(fence, int) or not 0 <= fence <= MOST_FENCES:
        _log.critical(
            "the row fence of the table doubtless_meta must be the last fence, and %s: the next one is the "
            "microseconds since 1970, above all that were granted; no message runs again for that",
            _said(fence),
        )


def _said(value: object) -> str:
    return "is missing" if value is None else f"says {str(value)[:60]!r}"


async def _nothing(_: AnyConnection) -> None:
    pass


async def _write_ahead(connection: AnyConnection) -> Sequence[object]:
    return await fetch(connection, WRITE_AHEAD)


async def create_history(connection: AnyConnection) -> None:
    """Make the tables of a history, in a transaction, unless they exist."""
    await fetch(connection, ONE_CREATOR)
    if await history_exists(connection):
        # The creation of an existing index would wait for every service that runs in a transaction.
        return
    if connection.dialect.name == Dialect.POSTGRESQL:
        await settled(connection.execute(CreateSequence(FENCES, if_not_exists=True)))
    for table in METADATA.sorted_tables:
        await make_table(connection, table)
    await execute(connection, ANCHOR)
    await execute(connection, MARK_SCHEMA)


@dataclass(slots=True)
class Prepared(AddedTables):
    """A database that makes its tables before its first step: the history's, or by ``look`` and ``make``."""

    look: Step[bool] = history_exists
    make: Step[None] = create_history
    looking: str = "looking for its tables"
    creating: str = "creating its tables"

    @property
    def dialect(self) -> Dialect:
        """The dialect of its SQL."""
        return self.inner.dialect

    @property
    def times_replaced(self) -> int:
        """How often the file was replaced by another."""
        return self.inner.times_replaced

    async def _before_making(self) -> None:
        if isinstance(self.inner, CallersConnection):  # a file cannot change its mode in a transaction
            return
        for _ in range(ATTEMPTS):
            try:
                await self.inner.run(self.creating, _write_ahead)
            except HistoryUnavailableError:
                # If two connections do this, SQLite refuses one immediately, despite its timeout. An empty
                # transaction waits for the other connection.
                await self.inner.run(self.creating, _nothing, atomic=True)
            else:
                return
        await self.inner.run(self.creating, _write_ahead)

    def joined(self, connection: AnyConnection) -> "Prepared":
        """Return the same database inside a caller's transaction."""
        return Prepared(CallersConnection(connection), self.look, self.make, ready=self.is_ready)

    async def close(self) -> None:
        """Close the connections."""
        await self.inner.close()
