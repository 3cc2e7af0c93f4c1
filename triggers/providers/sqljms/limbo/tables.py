"""The tables of waiting messages: delayed ones, and those of inputs that failed and will be tried again.

=================  ==================================================================================
dms_limbo          who has put messages here, by name; nothing depends on it
dms_limbo_msg      one row for each message. ``msg_src_name`` and ``port_name`` are the source and its
                   output port; for a message that is tried again the sink and its input port.
                   ``delivery_count`` counts failures to send; there, the attempts that have begun
dms_limbo_replyto  JMSReplyTo, as UTF-8
dms_limbo_body     the body: bytes, text as UTF-8, or JSON
dms_limbo_props    the properties, as text, and, of ours, JMSXGroupID and JMSXGroupSeq
dms_limbo_ptypes   the types of the properties; 0 for one that is null
dms_limbo_delay    for a message that is tried again: the terms, and the headers that it came with
dms_limbo_state    (ours) who is busy with a message and for how long; the input that it waits for, the
                   digest of its uuid, so that it waits there once; its uuid, the headers that the other
                   tables have no column for, and why it failed last
=================  ==================================================================================

Names and columns are those of the Dynamo Message System. Instants are milliseconds since 1970.
"""

from collections.abc import Iterator

from sqlalchemy import Column, Index, LargeBinary, Sequence, Table, Text, text
from sqlalchemy.schema import CreateSequence

from history.bridge import settled
from history.sql.database.engine import AnyConnection, execute
from history.sql.statements.dialects import Dialect, statement
from history.sql.tables.columns import refuse_foreign
from history.sql.tables.making import table_exists
from history.sql.tables.script import filled, script_of
from triggers.providers.sqljms.tables import (
    ELSEWHERE,
    FLAG,
    MARK_IDS,
    MARK_SCHEMA,
    METADATA,
    NAME,
    NUMBER,
    SCHEMA,
    TABLES,
    create,
    create_tables,
    new_identity,
)


def _id() -> Column[int]:
    return Column("msg_id", NUMBER, primary_key=True, autoincrement=False)


LIMBO = Table(
    "dms_limbo",
    METADATA,
    Column("limbo_name", NAME, primary_key=True),
    Column("limbo_id", NUMBER, nullable=False),
)

LIMBO_MSG = Table(
    "dms_limbo_msg",
    METADATA,
    _id(),
    Column("limbo_id", NUMBER, nullable=False),
    Column("delivery_date", NUMBER, nullable=False),
    Column("delivery_count", FLAG, nullable=False),
    Column("msg_src_name", Text, nullable=False),
    Column("port_name", Text, nullable=False),
    Column("msg_class", Text, nullable=False),
    Column("msg_class_type", FLAG, nullable=False),
    Column("jms_type", Text),
    Column("jms_expiration", NUMBER),
    Column("jms_correlationid", Text),
    Index("dms_limbo_msg_date", "delivery_date"),
)

LIMBO_REPLYTO = Table("dms_limbo_replyto", METADATA, _id(), Column("jms_replyto", LargeBinary))

LIMBO_BODY = Table("dms_limbo_body", METADATA, _id(), Column("msg_body", LargeBinary))

LIMBO_PROPS = Table(
    "dms_limbo_props",
    METADATA,
    _id(),
    Column("prop_name", NAME, primary_key=True),
    Column("prop_value", Text, nullable=False),
)

LIMBO_PTYPES = Table(
    "dms_limbo_ptypes",
    METADATA,
    _id(),
    Column("prop_name", NAME, primary_key=True),
    Column("prop_type", FLAG, nullable=False),
)

LIMBO_DELAY = Table(
    "dms_limbo_delay",
    METADATA,
    _id(),
    Column("delay", NUMBER, nullable=False),
    Column("max_attempts", FLAG, nullable=False),
    Column("failure_port", Text, nullable=False),
    Column("jms_timestamp", NUMBER),
    Column("jms_deliverymode", FLAG),
    Column("jms_priority", FLAG),
    Column("jms_messageid", Text),
    Column("jms_redelivered", FLAG),
    Column("jms_destination", LargeBinary),
)

LIMBO_STATE = Table(
    "dms_limbo_state",
    METADATA,
    _id(),
    Column("input", NAME, nullable=False, server_default=text("''")),
    Column("digest", LargeBinary),
    Column("token", NAME),
    Column("lease_until", NUMBER),
    Column("uuid", Text),
    Column("message_id", Text),
    Column("timestamp", NUMBER),
    Column("delivery_mode", FLAG, nullable=False),
    Column("priority", FLAG, nullable=False),
    Column("last_error", Text),
    Index(
        "dms_limbo_state_once",
        "input",
        "digest",
        unique=True,
        postgresql_where=text("digest IS NOT NULL"),
        sqlite_where=text("digest IS NOT NULL"),
    ),
    info={"ours": True},
)

#: In the order in which they are made; all but the first hold rows of single messages.
LIMBO_TABLES = (
    LIMBO,
    LIMBO_MSG,
    LIMBO_REPLYTO,
    LIMBO_BODY,
    LIMBO_PROPS,
    LIMBO_PTYPES,
    LIMBO_DELAY,
    LIMBO_STATE,
)

#: PostgreSQL's ids: a counter in a row would make every sender wait for the end of the previous one.
LIMBO_IDS = Sequence("dms_limbo_ids")

# SQLite has one writer at a time anyway.
MARK_LIMBO_IDS = statement(
    "INSERT INTO dms_id_generator (id_space_name, seed) VALUES ('dms_limbo', 0) ON CONFLICT DO NOTHING"
)


async def limbo_exists(connection: AnyConnection) -> bool:
    """Whether the tables exist.

    Raises:
        ConfigurationError: another program made some of them.
    """
    await refuse_foreign(connection, (*TABLES, *LIMBO_TABLES), setting="limbo", remedy=ELSEWHERE)
    return await table_exists(connection, LIMBO_STATE)


async def create_limbo(connection: AnyConnection) -> None:
    """Make the tables, and those of SQL-JMS, inside a transaction."""
    await create(connection)
    await create_tables(connection, LIMBO_TABLES)
    if connection.dialect.name == Dialect.POSTGRESQL:
        await settled(connection.execute(CreateSequence(LIMBO_IDS, if_not_exists=True)))
    await execute(connection, MARK_LIMBO_IDS)


def sqljms_script(dialect: Dialect) -> Iterator[str]:
    """Yield the statements that make SQL-JMS with its limbo in an empty database or schema.

    Each call gives the database another identity.
    """
    yield "BEGIN"
    yield from script_of((*TABLES, *LIMBO_TABLES), dialect, sequence=LIMBO_IDS)
    yield filled(MARK_SCHEMA[dialect], dialect, version=SCHEMA, identity=new_identity())
    yield from (str(MARK_IDS[dialect]), str(MARK_LIMBO_IDS[dialect]))
    yield "COMMIT"
