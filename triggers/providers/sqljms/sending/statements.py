"""The statements that write messages, their properties and their entries."""

from collections.abc import Sequence

from history.sql.statements.dialects import statement
from triggers.providers.sqljms.codec import COLUMNS
from triggers.providers.sqljms.destinations import WORDS, DestinationKind
from triggers.providers.sqljms.statements import for_each_kind

_NAMES = ", ".join(COLUMNS)

#: The parameters of properties.
PROPERTY: Sequence[str] = ("p_msg_id", "p_data_type", "p_name", "p_value")

#: The messages of a call, as PostgreSQL's relation ``w``.
_SENT = ", ".join(f"CAST(:{name} AS {column_type}[])" for name, column_type in COLUMNS.items())

#: The columns of a message's row that the sender sets as they are.
_PLAIN = ", ".join(f"w.{name}" for name in COLUMNS if name != "timestamp")
_PLAIN_NAMES = ", ".join(name for name in COLUMNS if name != "timestamp")

_SEND = """
    WITH clock AS MATERIALIZED (SELECT {now} AS now),
    readers AS MATERIALIZED ({readers}),
    sent AS MATERIALIZED (SELECT w.* FROM unnest({sent}) AS w ({names})),
    messages AS (
        INSERT INTO dms_msg (timestamp, reference_count, destination, {plain_names})
        SELECT COALESCE(w.timestamp, clock.now), (SELECT COUNT(*) FROM readers), :destination, {plain}
        FROM sent AS w CROSS JOIN clock WHERE EXISTS (SELECT 1 FROM readers)
        ON CONFLICT DO NOTHING RETURNING msg_id, priority, delivery_time
    ),
    properties AS (
        INSERT INTO dms_msg_properties (msg_id, data_type, name, value)
        SELECT p.msg_id, p.data_type, p.name, p.value FROM unnest(
            CAST(:p_msg_id AS BIGINT[]), CAST(:p_data_type AS SMALLINT[]), CAST(:p_name AS TEXT[]),
            CAST(:p_value AS TEXT[])) AS p (msg_id, data_type, name, value)
        WHERE EXISTS (SELECT 1 FROM messages AS m WHERE m.msg_id = p.msg_id)
    ),
    entries AS (
        INSERT INTO {entry} ({place}, msg_id, priority, delivery_date, first_date)
        SELECT r.id, m.msg_id, m.priority,
            GREATEST(m.delivery_time, clock.now), GREATEST(m.delivery_time, clock.now)
        FROM readers AS r CROSS JOIN clock CROSS JOIN messages AS m
    )
    SELECT r.id, CASE WHEN CAST(:channel AS TEXT) IS NOT NULL
        THEN CAST(pg_notify(:channel || CAST(r.id AS TEXT), '') AS TEXT) END
    FROM readers AS r"""

#: The readers of a message. In a restored or recreated database, the id that a sender has remembered may
#: belong to another destination. The subscription without a name, which keeps messages for the first
#: subscriber, gets nothing while there are others: perhaps nobody ever takes it over.
_READERS = {
    DestinationKind.QUEUE: """SELECT queue_id AS id FROM dms_queue
        WHERE queue_id = :destination AND queue_name = :expected_name""",
    DestinationKind.TOPIC: """SELECT subscriber_id AS id FROM dms_topic_sub
        WHERE topic_id = :destination AND (durable = 1 OR active = 1) AND EXISTS (
            SELECT 1 FROM dms_topic WHERE topic_id = :destination AND topic_name = :expected_name)
            AND (subscriber_name <> '' OR NOT EXISTS (
                SELECT 1 FROM dms_topic_sub AS o WHERE o.topic_id = :destination
                    AND o.subscriber_name <> '' AND (o.durable = 1 OR o.active = 1)))""",
}

# SQLite: the same, as a separate statement.
READERS = {
    destination_kind: statement(sqlite=text, postgresql="SELECT 1")
    for destination_kind, text in _READERS.items()
}


# The lock keeps a reader from being deleted until the commit: nobody may end during a send.
SEND = {
    destination_kind: statement(
        sqlite="SELECT 1",
        postgresql=_SEND,
        words={
            "readers": f"{_READERS[destination_kind]} FOR KEY SHARE",
            "sent": _SENT,
            "names": _NAMES,
            "plain_names": _PLAIN_NAMES,
            "plain": _PLAIN,
            "entry": WORDS[destination_kind].entry,
            "place": WORDS[destination_kind].place,
        },
    )
    for destination_kind in DestinationKind
}

# SQLite: one row at a time, by one prepared statement.
_VALUES = ", ".join(f":{name}" for name in COLUMNS if name != "timestamp")
ADD_MESSAGES = statement(
    sqlite="""INSERT INTO dms_msg (timestamp, reference_count, destination, {plain_names})
        VALUES (COALESCE(:timestamp, {now}), :readers, :destination, {values})""",
    postgresql="SELECT 1",
    words={"plain_names": _PLAIN_NAMES, "values": _VALUES},
)
ADD_PROPERTIES = statement(
    "INSERT INTO dms_msg_properties (msg_id, data_type, name, value)"
    " VALUES (:p_msg_id, :p_data_type, :p_name, :p_value)"
)
ADD_ENTRIES = for_each_kind(
    """INSERT INTO {entry} ({place}, msg_id, priority, delivery_date, first_date)
    SELECT r.value, m.msg_id, m.priority,
        MAX(COALESCE(m.delivery_time, 0), clock.now), MAX(COALESCE(m.delivery_time, 0), clock.now)
    FROM (SELECT {now} AS now) AS clock CROSS JOIN json_each(:readers) AS r CROSS JOIN dms_msg AS m
    WHERE m.msg_id BETWEEN :first AND :last""",
    "SELECT 1",
)
