"""The statements to administer queues, topics, subscriptions and clients."""

from functools import partial

from history.sql.statements.dialects import Dialect, Words, statement
from triggers.providers.sqljms.codec import COLUMNS
from triggers.providers.sqljms.statements import COMMON, ByKind, for_each_kind

#: The words of this module, and their meaning.
_WORDS: Words = {
    **COMMON,
    # Keeps the chosen entries from being claimed meanwhile; SQLite has one writer.
    "lock": {Dialect.SQLITE: "", Dialect.POSTGRESQL: "FOR UPDATE OF e"},
    # Columns to show: if one text is not UTF-8, SQLite refuses all rows of a query.
    "text": {Dialect.SQLITE: "CAST({} AS BLOB)", Dialect.POSTGRESQL: "{}"},
    "number": {Dialect.SQLITE: "CASE WHEN typeof({}) = 'integer' THEN {} END", Dialect.POSTGRESQL: "{}"},
    # Whether the client ``c`` of a claim is alive, so that the claim is valid.
    "alive": "(e.read_state <> 0 AND c.incarnation IS NOT NULL AND c.lease_until >= {now})",
    # The counts of the entries ``e`` of a place.
    "backlog": """
        COUNT(e.msg_id) AS messages,
        COUNT(CASE WHEN e.read_state <> 0 THEN 1 END) AS held,
        COUNT(CASE WHEN e.delivery_date > {now} THEN 1 END) AS later,
        MAX(CASE WHEN e.delivery_date <= {now} THEN {now} - e.delivery_date END) AS oldest
    """,
}

_statement = partial(statement, words=_WORDS)


def _for_each_kind(template: str, **replaced: str) -> ByKind:
    return for_each_kind(template, words={**_WORDS, **replaced})


# The consumers, and how much each of them holds.
CLIENTS = _statement("""
    SELECT c.client_name, c.client_id, c.lease_until,
        CASE WHEN c.incarnation IS NOT NULL AND c.lease_until >= {now} THEN 1 ELSE 0 END AS alive,
        (SELECT COUNT(*) FROM dms_queue_entry AS e WHERE e.handling_client_id = c.client_id)
        + (SELECT COUNT(*) FROM dms_topic_entry AS e WHERE e.handling_client_id = c.client_id) AS held
    FROM dms_client AS c ORDER BY c.client_name
""")

# The queues and the subscriptions, how much waits there and for how long the oldest has.
QUEUES = _statement("""
    SELECT q.queue_name AS name, q.queue_id AS id, q.temp_id,
        (SELECT COUNT(*) FROM dms_queue_recv AS r WHERE r.queue_id = q.queue_id) AS consumers, {backlog}
    FROM dms_queue AS q LEFT JOIN dms_queue_entry AS e ON e.queue_id = q.queue_id
    GROUP BY q.queue_name, q.queue_id, q.temp_id ORDER BY q.queue_name
""")
SUBSCRIPTIONS = _statement("""
    SELECT t.topic_name AS name, s.subscriber_id AS id, s.subscriber_name AS subscription, s.durable,
        s.active, {backlog}
    FROM dms_topic_sub AS s JOIN dms_topic AS t ON t.topic_id = s.topic_id
    LEFT JOIN dms_topic_entry AS e ON e.subscriber_id = s.subscriber_id
    GROUP BY t.topic_name, s.subscriber_id, s.subscriber_name, s.durable, s.active
    ORDER BY t.topic_name, s.subscriber_name
""")
TOPICS = _statement("""
    SELECT t.topic_name AS name, t.topic_id AS id, t.temp_id,
        (SELECT COUNT(*) FROM dms_topic_sub AS s WHERE s.topic_id = t.topic_id) AS subscriptions,
        (SELECT COUNT(*) FROM dms_topic_entry AS e JOIN dms_topic_sub AS s
            ON s.subscriber_id = e.subscriber_id WHERE s.topic_id = t.topic_id) AS messages
    FROM dms_topic AS t ORDER BY t.topic_name
""")

_ENTRIES = """
    SELECT e.msg_id, {number e.delivery_date} AS delivery_date, {number e.delivery_count} AS delivery_count,
        {number e.priority} AS priority, e.handling_client_id,
        CASE WHEN e.read_state <> 0 THEN 1 ELSE 0 END AS claimed,
        CASE WHEN {alive} THEN 1 ELSE 0 END AS alive, c.client_name,
        {text m.uuid} AS uuid, {text m.message_id} AS message_id, {text m.type} AS type,
        {number m.timestamp} AS timestamp, {number m.expiration} AS expiration,
        COALESCE(LENGTH(m.small_body), LENGTH(m.large_body), 0) AS size
    FROM {entry} AS e JOIN dms_msg AS m ON m.msg_id = e.msg_id
    LEFT JOIN dms_client AS c ON c.client_id = e.handling_client_id
    WHERE e.{place} = :place {which}
    ORDER BY e.priority DESC, e.delivery_date, e.msg_id {limit}
"""

# The entries of a place, in the order of their delivery: the first ones, or, kept from claims, some or all.
ENTRIES = _for_each_kind(_ENTRIES, which="", limit="LIMIT :limit")
SOME = _for_each_kind(_ENTRIES, which="AND e.msg_id {among ids}", limit="{lock}")
ALL = _for_each_kind(_ENTRIES, which="", limit="{lock}")

# All places that have a message.
WHERE = _statement("""
    SELECT 'queue' AS kind, q.queue_name AS name, '' AS subscription, q.queue_id AS place, e.msg_id
    FROM dms_queue_entry AS e JOIN dms_queue AS q ON q.queue_id = e.queue_id WHERE e.msg_id {among ids}
    UNION ALL
    SELECT 'topic', t.topic_name, s.subscriber_name, s.subscriber_id, e.msg_id
    FROM dms_topic_entry AS e JOIN dms_topic_sub AS s ON s.subscriber_id = e.subscriber_id
    JOIN dms_topic AS t ON t.topic_id = s.topic_id WHERE e.msg_id {among ids}
""")

# Messages whole.
MESSAGES = _statement(
    f"SELECT {', '.join(COLUMNS)} FROM dms_msg WHERE msg_id {{among ids}} ORDER BY msg_id"  # noqa: S608  (ours)
)
PROPERTIES = _statement(
    "SELECT msg_id, name, data_type, value FROM dms_msg_properties WHERE msg_id {among ids}"
)

# Remove entries of a place, or make them claimable now.
DELETE = _for_each_kind("DELETE FROM {entry} WHERE {place} = :place AND msg_id {among ids} RETURNING msg_id")
DUE_NOW = _for_each_kind("""
    UPDATE {entry} SET delivery_date = {now}
    WHERE {place} = :place AND msg_id {among ids} AND delivery_date > {now} AND read_state = 0
    RETURNING msg_id
""")

# A client by its name, and how to forget it.
CLIENT = _statement("""
    SELECT client_id, place_id,
        CASE WHEN incarnation IS NOT NULL AND lease_until >= {now} THEN 1 ELSE 0 END AS alive
    FROM dms_client WHERE client_name = :name
""")
FORGET_CLIENT = _statement("DELETE FROM dms_client WHERE client_id = :client")
PRESUME_DEAD = _statement("UPDATE dms_client SET incarnation = NULL WHERE client_id = :client")

# Forget a topic, when it has no subscription any more.
DROP_TOPIC = _statement("DELETE FROM dms_topic WHERE topic_id = :place")
