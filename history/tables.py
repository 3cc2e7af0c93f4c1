"""The tables of a SQL history, and how they come to be.

==================  =================================================================================
doubtless_history   one row per remembered uuid. A row of a batch has no state of its own: its
                    ``batch`` (which is its fence, too) names the row of the ledger that holds it
doubtless_batches   the ledger: one row per opened batch. Of the rows of one token at most one is not
                    retired; it is the batch, the others only speak for what they completed
doubtless_parked    messages kept aside, each a JSON document
doubtless_meta      ``schema``: the version of these tables; ``fence``: the last fence (SQLite only,
                    PostgreSQL has the sequence ``doubtless_fences``)
==================  =================================================================================

Instants are milliseconds since 1970 by the server's clock (``parked_at``: microseconds, by the worker's).
"""

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, MetaData, Table, Text, text
from sqlalchemy.schema import CreateIndex, CreateTable, Sequence

from history.bridge import settled
from history.errors import ConfigurationError
from history.sql_engine import AnyConnection, fetch, run
from history.sql_statements import Dialect, statement

#: The version of the tables that this code reads and writes.
SCHEMA = 1

#: Compared byte by byte: quicker, and no upgrade of the system's collations can corrupt the unique index.
NAME = Text().with_variant(Text(collation="C"), "postgresql")

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
    Index("doubtless_history_expiry", "trigger_name", "expires_at"),
    sqlite_with_rowid=False,
    # Room on each page for the second version of a row, so that completing it touches no index.
    postgresql_with={"fillfactor": 70},
)

BATCHES = Table(
    "doubtless_batches",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
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
)

PARKED = Table(
    "doubtless_parked",
    METADATA,
    Column("trigger_name", NAME, primary_key=True),
    Column("id", NAME, primary_key=True),
    Column("parked_at", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Index("doubtless_parked_order", "parked_at", "id"),
)

META = Table(
    "doubtless_meta",
    METADATA,
    Column("name", NAME, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

FENCES = Sequence("doubtless_fences")

# Whether somebody has created the tables.
EXISTS = statement(
    sqlite="SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'doubtless_meta'",
    postgresql="SELECT CAST(to_regclass('doubtless_meta') IS NOT NULL AS INTEGER)",
)

# One creator at a time; SQLite's BEGIN IMMEDIATE has seen to it already. The number is "doubtles" in ASCII.
ONE_CREATOR = statement(
    sqlite="SELECT 1",
    postgresql="SELECT pg_advisory_xact_lock(7237124705131128179)",
)

# Readers and the one writer do not wait for each other; it stays with the file. No effect in memory.
WRITE_AHEAD = text("PRAGMA journal_mode = WAL")

# Write the version down once.
MARK_SCHEMA = text(
    "INSERT INTO doubtless_meta (name, value) VALUES ('schema', :schema), ('fence', 0) ON CONFLICT DO NOTHING"
)

# The version somebody wrote down.
READ_SCHEMA = text("SELECT value FROM doubtless_meta WHERE name = 'schema'")


async def exist(connection: AnyConnection, dialect: Dialect) -> bool:
    """Whether the tables are there.

    Raises:
        ConfigurationError: they are, but a newer version wrote them.
    """
    ((there,),) = await fetch(connection, EXISTS[dialect])
    if not there:
        return False
    ((version,),) = await fetch(connection, READ_SCHEMA)
    if version > SCHEMA:
        raise ConfigurationError(
            "history",
            f"its tables have version {version}, and this doubtless knows {SCHEMA}",
            "upgrade doubtless here, or give this worker a database of its own",
        )
    return True


async def create(connection: AnyConnection, dialect: Dialect) -> None:
    """Create the tables where they are absent; call it in a transaction, which other creators then wait for."""
    await fetch(connection, ONE_CREATOR[dialect])
    if dialect is Dialect.POSTGRESQL:
        await settled(connection.execute(FENCES.create_if_absent))
    for table in METADATA.sorted_tables:
        await settled(connection.execute(CreateTable(table, if_not_exists=True)))
        for index in table.indexes:
            await settled(connection.execute(CreateIndex(index, if_not_exists=True)))
    await run(connection, MARK_SCHEMA, schema=SCHEMA)
