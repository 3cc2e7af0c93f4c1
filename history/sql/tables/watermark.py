"""The tables of ordered links, in addition to those of the history, and how they are made.

======================  =============================================================================
sysremoteuser           one row per link: see :mod:`history.store.watermark`, under the original's names.
                        Columns that begin with ``doubtless_`` are ours: the link's name and publication, the
                        two epochs, the message size, the agent that runs the link and until when it counts
                        as running, why it is stopped, the checksum of the last applied transaction, the
                        failed transaction, the number of skipped transactions, the chains of all
                        confirmed and of all applied transactions, and the value that the peer subscribes to
doubtless_link_log      the transaction log: one row per operation. ``origin`` is the link by which it
                        came; NULL if it comes from the application. ``subscriber`` says who gets it: NULL
                        everybody; ``=x`` the links that subscribe to x, or to no value; ``>x`` those to x;
                        ``*`` those to no value
doubtless_link_end      one row: the last granted offset and the operations in its transaction so far, the
                        offset up to which the log was deleted, and the version of these tables
doubtless_link_changes  what triggers have captured, one row per operation, until an agent moves it into the
                        log. Rows with the same ``work`` belong together: on PostgreSQL that is the id of the
                        transaction, on SQLite the number in ``doubtless_link_work``
doubtless_link_work     one row, for SQLite: a number that grows whenever an agent reads changes or applies
                        work, and the link whose work the open transaction applies
doubtless_link_mail     messages in transit, for the carrier in a table
doubtless_link_past     why a new link may need an extract: the publications with a log that was cut,
                        and the names and the addresses of revoked links
======================  =============================================================================

Instants are milliseconds since 1970; ``send_time`` is ``HH:MM:SS``.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, SmallInteger, Table, Text

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.dialects import statement
from history.sql.tables.columns import refuse_foreign
from history.sql.tables.history import NAME, NUMBER, history_exists
from history.sql.tables.making import make_tables, table_exists

#: The version of the tables that this code reads and writes.
LINK_SCHEMA = 1

LINKS = MetaData()

SYSREMOTEUSER = Table(
    "sysremoteuser",
    LINKS,
    Column("user_id", NUMBER, primary_key=True),
    Column("consolidate", Text, nullable=False),
    Column("type_id", SmallInteger, nullable=False),
    Column("address", Text, nullable=False),
    Column("frequency", Text, nullable=False),
    Column("send_time", Text),
    Column("log_send", BigInteger, nullable=False),
    Column("time_sent", BigInteger),
    Column("log_sent", BigInteger, nullable=False),
    Column("confirm_sent", BigInteger, nullable=False),
    Column("send_count", Integer, nullable=False),
    Column("resend_count", Integer, nullable=False),
    Column("time_received", BigInteger),
    Column("log_received", BigInteger, nullable=False),
    Column("confirm_received", BigInteger),
    Column("receive_count", Integer, nullable=False),
    Column("rereceive_count", Integer, nullable=False),
    Column("doubtless_link", NAME, nullable=False, unique=True),
    Column("doubtless_publication", NAME, nullable=False),
    Column("doubtless_epoch", Text, nullable=False),
    Column("doubtless_peer_epoch", Text, nullable=False),
    Column("doubtless_message_size", Integer),
    Column("doubtless_agent", Text),
    Column("doubtless_agent_until", BigInteger),
    Column("doubtless_stopped", Text),
    Column("doubtless_received_digest", LargeBinary),
    Column("doubtless_failed", BigInteger),
    Column("doubtless_skipped", Integer, nullable=False),
    Column("doubtless_sent_chain", LargeBinary),
    Column("doubtless_received_chain", LargeBinary),
    Column("doubtless_subscription", Text),
    Index("sysremoteuser_schedule", "frequency", "send_time"),
    Index("sysremoteuser_publication", "doubtless_publication"),
)

LINK_LOG = Table(
    "doubtless_link_log",
    LINKS,
    Column("commit_offset", NUMBER, primary_key=True, autoincrement=False),
    Column("publication", NAME, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("origin", NAME),
    Column("committed_at", BigInteger, nullable=False),
    Column("operation", Text, nullable=False),
    Column("subscriber", Text),
)

LINK_END = Table(
    "doubtless_link_end",
    LINKS,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("operations", Integer, nullable=False),
    Column("deleted_to", BigInteger, nullable=False),
    Column("schema_version", Integer, nullable=False),
)

LINK_CHANGES = Table(
    "doubtless_link_changes",
    LINKS,
    Column("id", NUMBER, primary_key=True),
    Column("publication", NAME, nullable=False),
    Column("work", BigInteger, nullable=False),
    Column("origin", NAME),
    Column("operation", Text, nullable=False),
    Column("subscriber", Text),
)

LINK_WORK = Table(
    "doubtless_link_work",
    LINKS,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
    Column("origin", NAME),
)

LINK_MAIL = Table(
    "doubtless_link_mail",
    LINKS,
    Column("number", NUMBER, primary_key=True),
    Column("address", NAME, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("doubtless_link_mail_inbox", "address", "number"),
)

LINK_PAST = Table(
    "doubtless_link_past",
    LINKS,
    Column("kind", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
)

# Begin the log, once.
BEGIN_LOG = statement(
    "INSERT INTO doubtless_link_end (id, last_offset, operations, deleted_to, schema_version) "
    "VALUES (1, 0, 0, 0, :schema) ON CONFLICT DO NOTHING"
)

# Begin to number the work, once.
BEGIN_WORK = statement("INSERT INTO doubtless_link_work (id, number) VALUES (1, 0) ON CONFLICT DO NOTHING")

# An older version did not note whose log it deleted.
BEGIN_PAST = statement(
    """INSERT INTO doubtless_link_past (kind, name)
    SELECT DISTINCT 'publication', doubtless_publication FROM sysremoteuser
    WHERE (SELECT deleted_to FROM doubtless_link_end WHERE id = 1) > 0 ON CONFLICT DO NOTHING"""
)

#: Tables that older versions did not make; ``doubtless_link_changes`` was added with the first one.
ADDED_TABLES = (LINK_WORK, LINK_PAST)

#: Columns that older versions did not make; all may be NULL.
ADDED = (
    SYSREMOTEUSER.c.doubtless_sent_chain,
    SYSREMOTEUSER.c.doubtless_received_chain,
    SYSREMOTEUSER.c.doubtless_subscription,
    LINK_LOG.c.subscriber,
    LINK_CHANGES.c.subscriber,
)

# The existing ones among these columns.
COLUMN_EXISTS = statement(
    sqlite="SELECT COUNT(*) FROM pragma_table_info(:table) WHERE name = :name",
    postgresql="SELECT COUNT(*) FROM pg_attribute WHERE attrelid = to_regclass(:table) "
    "AND attname = :name AND NOT attisdropped",
)

# The version that is stored.
READ_LINK_SCHEMA = statement("SELECT schema_version FROM doubtless_link_end WHERE id = 1")


async def links_exist(connection: AnyConnection) -> bool:
    """Whether the tables of links are there.

    Raises:
        ConfigurationError: a newer version wrote them, or another program.
    """
    added = [column.name for column in ADDED]
    await refuse_foreign(connection, LINKS.sorted_tables, setting="links", added=added)
    if not await table_exists(connection, LINK_END):
        return False
    for (version,) in await fetch(connection, READ_LINK_SCHEMA):
        if version > LINK_SCHEMA:
            raise ConfigurationError(
                "links",
                f"their tables have version {version}, but this doubtless supports only up to {LINK_SCHEMA}",
                "upgrade doubtless here",
            )
    tables = [await table_exists(connection, table) for table in ADDED_TABLES]
    return all(tables) and not await _missing(connection)


async def history_with_links_exists(connection: AnyConnection) -> bool:
    """Whether the tables of a history exist; those of its links are checked before anything is made.

    Raises:
        ConfigurationError: a newer version, or another program, wrote one of them.
    """
    await links_exist(connection)
    return await history_exists(connection)


async def _missing(connection: AnyConnection) -> Sequence[Column[Any]]:
    counts = [
        await fetch(connection, COLUMN_EXISTS, table=column.table.name, name=column.name) for column in ADDED
    ]
    return [column for column, ((there,),) in zip(ADDED, counts, strict=True) if not there]


async def create_links(connection: AnyConnection) -> None:
    """Add the missing tables; existing ones stay as they are."""
    had_past = await table_exists(connection, LINK_PAST)
    await make_tables(connection, LINKS.sorted_tables)
    for column in await _missing(connection):
        type_ = column.type.compile(connection.dialect)
        sql = f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {type_}"
        await execute(connection, statement(sql))
    await execute(connection, BEGIN_LOG, schema=LINK_SCHEMA)
    await execute(connection, BEGIN_WORK)
    if not had_past:
        await execute(connection, BEGIN_PAST)
