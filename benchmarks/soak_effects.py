"""The effects of an atomic soak: rows of a table in the history's own database, counted and read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine, create_engine, text

#: A row for each effect, without a constraint that could hide a second effect.
TABLE = "CREATE TABLE IF NOT EXISTS soak_effects (uuid TEXT, message_id TEXT, pid TEXT)"

NOTE = text("INSERT INTO soak_effects (uuid, message_id, pid) VALUES (:uuid, :message_id, :pid)")


@dataclass(slots=True)
class TableEffects:
    """The table of effects in the database at a history's URL. The constructor makes the table."""

    url: str
    _engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self._engine = create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        with self._engine.begin() as connection:
            connection.execute(text(TABLE))

    def count(self) -> int:
        """Count the effects so far."""
        with self._engine.connect() as connection:
            return int(connection.execute(text("SELECT COUNT(*) FROM soak_effects")).scalar_one())

    def lines(self) -> Sequence[tuple[str, ...]]:
        """Return uuid, JMSMessageID and process of each effect."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text("SELECT * FROM soak_effects"))]

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


#: The tables of SQL-JMS in which no row outlives its message or its consumer.
PASSING = (
    "dms_msg",
    "dms_msg_properties",
    "dms_queue_entry",
    "dms_topic_entry",
    "dms_queue_recv",
)


def waiting(url: str) -> int:
    """Count the messages of SQL-JMS that are not acknowledged."""
    return sum(_counts(url, ("dms_queue_entry", "dms_topic_entry")).values())


def rows_left(url: str) -> Mapping[str, int]:
    """Count the rows of SQL-JMS by table."""
    return _counts(url, PASSING)


def _counts(url: str, tables: Sequence[str]) -> Mapping[str, int]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            counted = {table: connection.execute(text(f"SELECT COUNT(*) FROM {table}")) for table in tables}  # noqa: S608
            return {table: int(rows.scalar_one()) for table, rows in counted.items()}
    finally:
        engine.dispose()
