"""The table of Kafka's offsets, beside those of the history.

====================  ===============================================================================
doubtless_offsets     one row for each partition that a consumer group reads: all messages before
                      ``next_offset`` are settled, and so are the ranges in ``settled_beyond``, such as
                      ``7-9,12``
====================  ===============================================================================

``changed_at`` is in milliseconds since 1970, by the server's clock.
"""

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text

from history.sql.database.engine import AnyConnection
from history.sql.tables.columns import refuse_foreign
from history.sql.tables.history import NAME, create_history, history_exists
from history.sql.tables.making import make_tables, table_exists

_METADATA = MetaData()

OFFSETS = Table(
    "doubtless_offsets",
    _METADATA,
    Column("group_name", NAME, primary_key=True),
    Column("topic", NAME, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("settled_beyond", Text, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
)


async def history_with_offsets_exists(connection: AnyConnection) -> bool:
    """Whether the tables of a history and the table of the offsets exist.

    Raises:
        ConfigurationError: a newer version, or another program, wrote one of them.
    """
    await refuse_foreign(connection, [OFFSETS], setting="offsets")
    return await history_exists(connection) and await table_exists(connection, OFFSETS)


async def create_history_with_offsets(connection: AnyConnection) -> None:
    """Make the missing tables."""
    await create_history(connection)
    await make_tables(connection, [OFFSETS])
