"""The tables of SQL-JMS, and how they are made.

==================  =================================================================================
dms_client          a consumer, running or dead, under its own name
dms_queue           the queues
dms_queue_recv      which consumer listens to which queue
dms_queue_entry     the messages that wait in queues, or are being handled
dms_topic           the topics
dms_topic_sub       the subscriptions of topics
dms_topic_entry     the messages that wait for subscriptions, or are being handled
dms_msg             the messages, once each, for any number of readers
dms_msg_properties  their properties
dms_id_generator    (ours) the last id that was handed out in each id space
dms_schema          (ours) ``version`` of these tables; ``identity`` of this database, a random number;
                    ``lineage``, the server that it was on
==================  =================================================================================

Names and columns are those of the Dynamo Message System; a column that it does not have is made by
:func:`ours`. Instants are milliseconds since 1970 by the server's clock. Queues, topics, subscriptions and
clients share one id space. Tables of other modules join :data:`METADATA`; :func:`create_tables` makes them.
"""

import secrets
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    text,
)

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.entries.lineage import Lineage
from history.sql.statements.dialects import statement
from history.sql.tables.columns import refuse_foreign
from history.sql.tables.making import CLEAN_OFTEN, STORAGE, make_table, table_exists

#: The version of the tables that this code reads and writes.
SCHEMA = 1

#: Compared byte by byte: this is quicker, and an upgrade of the system's collations cannot corrupt the index.
NAME = Text().with_variant(Text(collation="C"), "postgresql")

#: An id or an instant. SQLite's tables are clustered only by an INTEGER.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")

#: A small number, or a flag that is 0 or 1.
FLAG = SmallInteger()

METADATA = MetaData()


def ours(name: str, column_type: Any, *args: Any, **options: Any) -> Column[Any]:
    """Return a column that the Dynamo Message System does not have."""
    return Column(name, column_type, *args, info={"ours": True}, **options)


def _zero(name: str, column_type: Any, *, start: int = 0) -> Column[Any]:
    return Column(name, column_type, nullable=False, server_default=text(str(start)))


CLIENT = Table(
    "dms_client",
    METADATA,
    Column("client_name", NAME, primary_key=True),
    Column("client_id", NUMBER, nullable=False, unique=True),
    ours("incarnation", Text),
    ours("lease_until", NUMBER),
    ours("place_id", NUMBER),
    Index("dms_client_lease", "lease_until"),
)

QUEUE = Table(
    "dms_queue",
    METADATA,
    Column("queue_name", NAME, nullable=False, unique=True),
    Column("queue_id", NUMBER, primary_key=True, autoincrement=False),
    _zero("temp_id", NUMBER),
    ours("exclusive_client_id", NUMBER),
)

QUEUE_RECV = Table(
    "dms_queue_recv",
    METADATA,
    Column("client_id", NUMBER, nullable=False),
    Column("receiver_id", NUMBER, primary_key=True, autoincrement=False),
    Column("queue_id", NUMBER, ForeignKey("dms_queue.queue_id", ondelete="CASCADE"), nullable=False),
)

MSG = Table(
    "dms_msg",
    METADATA,
    Column("msg_class", Text),
    _zero("has_properties", FLAG),
    _zero("reference_count", Integer),
    Column("msg_id", NUMBER, primary_key=True, autoincrement=False),
    Column("timestamp", NUMBER),
    Column("correlation_id", Text),
    _zero("reply_to", NUMBER),
    _zero("destination", NUMBER),
    _zero("delivery_mode", FLAG, start=2),
    _zero("redelivered", FLAG),
    Column("type", Text),
    _zero("expiration", NUMBER),
    _zero("priority", FLAG, start=4),
    Column("small_body", LargeBinary),
    Column("large_body", LargeBinary),
    ours("uuid", Text),
    ours("message_id", Text),
    ours("destination_name", Text),
    ours("reply_to_name", Text),
    ours("delivery_time", NUMBER),
    Index(
        "dms_msg_expiration",
        "expiration",
        postgresql_where=text("expiration <> 0"),
        sqlite_where=text("expiration <> 0"),
    ),
    info={STORAGE: CLEAN_OFTEN},
)

MSG_PROPERTIES = Table(
    "dms_msg_properties",
    METADATA,
    Column("msg_id", NUMBER, ForeignKey("dms_msg.msg_id", ondelete="CASCADE"), primary_key=True),
    Column("data_type", FLAG),
    Column("name", NAME, primary_key=True),
    Column("value", Text),
    info={STORAGE: CLEAN_OFTEN},
)


def _entries(name: str, place_column: str, parent: str) -> Table:
    """Return a table of entries.

    Our columns are ``priority``, so that an index has the order of delivery; ``delivery_count``, of this
    entry; ``first_date``, the delivery date before the first delay of a redelivery; and for topics
    ``handling_client_id``, because several consumers share a subscription.
    """
    handler: Column[Any] = Column("handling_client_id", NUMBER, nullable=False, server_default=text("-1"))
    if parent == "dms_topic_sub":
        handler.info["ours"] = True
    free, read = text("read_state = 0"), text("read_state <> 0")
    return Table(
        name,
        METADATA,
        Column(
            place_column, NUMBER, ForeignKey(f"{parent}.{place_column}", ondelete="CASCADE"), primary_key=True
        ),
        Column("msg_id", NUMBER, ForeignKey("dms_msg.msg_id", ondelete="CASCADE"), primary_key=True),
        Column("delivery_date", NUMBER, nullable=False),
        handler,
        _zero("read_state", NUMBER),
        ours("priority", FLAG, nullable=False, server_default=text("4")),
        ours("delivery_count", Integer, nullable=False, server_default=text("0")),
        ours("first_date", NUMBER, nullable=False, server_default=text("0")),
        Index(f"{name}_msg", "msg_id"),
        Index(
            f"{name}_free",
            place_column,
            text("priority DESC"),
            "delivery_date",
            "msg_id",
            postgresql_where=free,
            sqlite_where=free,
        ),
        Index(f"{name}_held", place_column, "handling_client_id", postgresql_where=read, sqlite_where=read),
        info={STORAGE: CLEAN_OFTEN},
    )


QUEUE_ENTRY = _entries("dms_queue_entry", "queue_id", "dms_queue")

TOPIC = Table(
    "dms_topic",
    METADATA,
    Column("topic_name", NAME, nullable=False, unique=True),
    Column("topic_id", NUMBER, primary_key=True, autoincrement=False),
    _zero("temp_id", NUMBER),
)

TOPIC_SUB = Table(
    "dms_topic_sub",
    METADATA,
    _zero("client_id", NUMBER),
    Column("subscriber_name", NAME, nullable=False),
    Column("subscriber_id", NUMBER, primary_key=True, autoincrement=False),
    Column("topic_id", NUMBER, ForeignKey("dms_topic.topic_id", ondelete="CASCADE"), nullable=False),
    _zero("durable", FLAG),
    _zero("active", FLAG),
    ours("exclusive_client_id", NUMBER),
    Index("dms_topic_sub_name", "topic_id", "subscriber_name", unique=True),
)

TOPIC_ENTRY = _entries("dms_topic_entry", "subscriber_id", "dms_topic_sub")

ID_GENERATOR = Table(
    "dms_id_generator",
    METADATA,
    Column("id_space_name", NAME, primary_key=True),
    Column("seed", NUMBER, nullable=False),
    info={"ours": True},
)

SCHEMA_TABLE = Table(
    "dms_schema",
    METADATA,
    Column("name", NAME, primary_key=True),
    Column("value", NUMBER, nullable=False),
    info={"ours": True},
)

#: The tables of queues, topics, clients and messages, in the order in which they are made.
TABLES = (
    CLIENT,
    QUEUE,
    QUEUE_RECV,
    MSG,
    MSG_PROPERTIES,
    QUEUE_ENTRY,
    TOPIC,
    TOPIC_SUB,
    TOPIC_ENTRY,
    ID_GENERATOR,
    SCHEMA_TABLE,
)

# One creator at a time; SQLite's BEGIN IMMEDIATE ensures that already. The number is "dms" in ASCII.
ONE_CREATOR = statement(sqlite="SELECT 1", postgresql="SELECT pg_advisory_xact_lock(6581619)")

# The stored version, and the identity of this database.
READ_SCHEMA = statement("SELECT name, value FROM dms_schema")

# Store both once, and the first ids.
MARK_SCHEMA = statement(
    "INSERT INTO dms_schema (name, value) VALUES ('version', :version), ('identity', :identity)"
    " ON CONFLICT DO NOTHING"
)
MARK_IDS = statement(
    "INSERT INTO dms_id_generator (id_space_name, seed) VALUES ('dms', 0), ('dms_msg', 0)"
    " ON CONFLICT DO NOTHING"
)

#: After a promotion of a standby without its primary's last commits, or in a restored backup, all ids
#: continue after the microseconds since 1970. Otherwise a message that got the JMSMessageID of a lost one
#: would count as its duplicate, and two consumers with one id would be confused.
LINEAGE = Lineage(
    table=SCHEMA_TABLE,
    lock=ONE_CREATOR,
    read=statement("SELECT value FROM dms_schema WHERE name = 'lineage'"),
    note=statement(
        "INSERT INTO dms_schema (name, value) VALUES ('lineage', :lineage)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    ),
    steps=[
        statement(
            "UPDATE dms_id_generator SET seed = GREATEST(seed, {now} * 1000)"
            " WHERE id_space_name IN ('dms', 'dms_msg', 'dms_limbo')"
        ),
        # The limbo's numbers, if it exists.
        statement(
            sqlite="SELECT 1",
            postgresql="SELECT setval(c.oid, GREATEST(pg_sequence_last_value(c.oid), {now} * 1000))"
            " FROM pg_class c WHERE c.oid = to_regclass('dms_limbo_ids') AND c.relkind = 'S'",
        ),
    ],
    warning="SQL-JMS is on another server than before (a standby was promoted, or a backup restored): what"
    " was sent or acknowledged in commits that did not reach it is undone; ids go on above all",
)

#: The remedy for tables of another program.
ELSEWHERE = (
    "give SQL-JMS its own database, or its own schema of PostgreSQL: "
    "it does not run on tables that the Dynamo Message System made"
)


async def create_tables(connection: AnyConnection, tables: Sequence[Table]) -> None:
    """Make missing tables, with their indexes; inside a transaction, and one creator at a time."""
    await fetch(connection, ONE_CREATOR)
    for table in tables:
        await make_table(connection, table)


async def create(connection: AnyConnection) -> None:
    """Make all tables of :data:`TABLES`, inside a transaction."""
    await create_tables(connection, TABLES)
    await execute(connection, MARK_SCHEMA, version=SCHEMA, identity=new_identity())
    await execute(connection, MARK_IDS)


def new_identity() -> int:
    """Return an identity for a new database, small enough for an INTEGER of JSON and JavaScript."""
    return 1 + secrets.randbits(52)


async def tables_exist(connection: AnyConnection) -> bool:
    """Whether the tables exist.

    Raises:
        ConfigurationError: a newer version wrote them, or another program, such as the Dynamo Message System
            itself: its tables lack our columns.
    """
    await refuse_foreign(connection, TABLES, setting="provider", remedy=ELSEWHERE)
    return await identity_of(connection) is not None


async def known_identity(connection: AnyConnection) -> int | None:
    """Return :func:`identity_of` a connection, and note it in its ``info``; without tables, ask each time."""
    info = cast("dict[str, object]", connection.info)
    number = cast("int | None", info.get("dms_identity"))
    if number is None:
        number = info["dms_identity"] = await identity_of(connection)
    return number


async def identity_of(connection: AnyConnection) -> int | None:
    """Return the identity of the SQL-JMS tables that a connection sees; None without tables.

    Raises:
        ConfigurationError: a newer version wrote them, or one of their rows is not a number.
    """
    if not await table_exists(connection, SCHEMA_TABLE):
        return None
    schema: dict[str, Any] = {str(name): value for name, value in await fetch(connection, READ_SCHEMA)}
    for name, mended in (("version", str(SCHEMA)), ("identity", "any other number")):
        if not isinstance(schema.get(name, 0), int):
            raise ConfigurationError(
                "provider",
                f"the row {name} of the table dms_schema must be a number, and says "
                f"{str(schema[name])[:60]!r}",
                f"stop all consumers of this database, and set that row's column value to {mended}",
            )
    if schema.get("version", SCHEMA) > SCHEMA:
        raise ConfigurationError(
            "provider",
            f"its tables have version {schema['version']}, but this doubtless supports only up to {SCHEMA}",
            "upgrade doubtless here, or give this worker its own database",
        )
    return schema.get("identity")
