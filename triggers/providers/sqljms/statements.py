"""The statements on entries and messages, for each kind of destination and each database.

``{entry}`` is the table of entries, ``{place}`` its column for the queue or the subscription, ``{parent}``
the table of these. Ids come as an array to PostgreSQL and as a JSON array to SQLite. PostgreSQL does each
step in one statement and one round trip; SQLite in several, in a transaction.

PostgreSQL compares ids with ``= ANY (ARRAY(...))`` and never joins: so each row is looked up in an index,
whatever the planner believes about a table that grows from nothing to a million rows within a minute.
"""

from collections.abc import Mapping
from dataclasses import asdict

from history.sql.statements.dialects import Dialect, Statement, Words, statement
from triggers.providers.sqljms.codec import COLUMNS
from triggers.providers.sqljms.destinations import WORDS, DestinationKind

#: A statement for each kind of destination.
ByKind = Mapping[DestinationKind, Statement]

#: The other words of these statements, and their meaning.
COMMON: Words = {
    # The columns of a message that a claim returns.
    "message": ", ".join(f"m.{name}" for name in COLUMNS),
    # A message's properties as a JSON array of name, type and text; NULL without any.
    "properties": {
        Dialect.SQLITE: """CASE WHEN m.has_properties = 1 THEN (
            SELECT json_group_array(json_array(p.name, p.data_type, p.value))
            FROM dms_msg_properties AS p WHERE p.msg_id = m.msg_id) END AS properties""",
        Dialect.POSTGRESQL: """CASE WHEN m.has_properties = 1 THEN (
            SELECT json_agg(json_build_array(p.name, p.data_type, p.value))
            FROM dms_msg_properties AS p WHERE p.msg_id = m.msg_id) END AS properties""",
    },
    # Whether an id is one of a list: ``{among ids}`` for ``:ids``.
    "among": {
        Dialect.SQLITE: "IN (SELECT value FROM json_each(:{}))",
        Dialect.POSTGRESQL: "= ANY (CAST(:{} AS BIGINT[]))",
    },
    # The priorities of JMS, the most urgent first.
    "priorities": {
        Dialect.SQLITE: "json_each('[9,8,7,6,5,4,3,2,1,0]') AS p",
        Dialect.POSTGRESQL: "(VALUES (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)) AS p (value)",
    },
}


def for_each_kind(sqlite: str, postgresql: str | None = None, *, words: Words | None = None) -> ByKind:
    """Prepare a statement on entries for queues and for topics; one text may serve both databases."""
    return {
        destination_kind: statement(
            sqlite, postgresql=postgresql, words={**COMMON, **asdict(names), **(words or {})}
        )
        for destination_kind, names in WORDS.items()
    }


# Hand out due entries, the most urgent and then the oldest first, to one client under one token. Until the
# commit, the lock on the place stops a client that takes everything over: it must see what is held.
CLAIM_POSTGRESQL = """
    WITH clock AS MATERIALIZED (SELECT {now} AS now),
    place AS MATERIALIZED (
        SELECT s.{place} AS id FROM {parent} AS s
        WHERE s.{place} = :place AND COALESCE(s.exclusive_client_id, :client) = :client
            AND EXISTS (SELECT 1 FROM dms_client WHERE client_id = :client AND incarnation = :incarnation)
            AND EXISTS (SELECT 1 FROM {entry} AS e WHERE e.{place} = :place AND e.read_state = 0)
        FOR SHARE OF s
    ),
    picked AS MATERIALIZED (
        SELECT e.msg_id FROM place CROSS JOIN clock
        CROSS JOIN {priorities}
        CROSS JOIN LATERAL (
            SELECT n.msg_id FROM {entry} AS n
            WHERE n.{place} = place.id AND n.priority = p.value AND n.read_state = 0
                AND n.delivery_date <= clock.now
            ORDER BY n.delivery_date, n.msg_id LIMIT :limit FOR UPDATE SKIP LOCKED
        ) AS e
        LIMIT :limit
    ),
    claimed AS (
        UPDATE {entry} AS e
        SET handling_client_id = :client, read_state = :token, delivery_count = e.delivery_count + 1
        WHERE e.{place} = :place AND e.msg_id = ANY (ARRAY(SELECT msg_id FROM picked))
        RETURNING e.msg_id, e.delivery_count, e.delivery_date, e.priority AS urgency
    )
    SELECT {message}, {properties}, c.delivery_count, clock.now
    FROM claimed AS c CROSS JOIN clock JOIN dms_msg AS m ON m.msg_id = c.msg_id
    WHERE m.msg_id = ANY (ARRAY(SELECT msg_id FROM picked))
    ORDER BY c.urgency DESC, c.delivery_date, c.msg_id"""

# Claims look at each priority that JMS has. An entry that another program wrote with another priority would
# wait for ever.
ODD = for_each_kind(
    """SELECT 1 FROM {entry}
    WHERE {place} = :place AND read_state = 0 AND (priority > 9 OR priority < 0) LIMIT 1"""
)
TAME = for_each_kind(
    """UPDATE {entry} SET priority = CASE WHEN priority > 9 THEN 9 ELSE 0 END
    WHERE {place} = :place AND read_state = 0 AND (priority > 9 OR priority < 0)"""
)

# SQLite, first: whether there is anything, without a lock on the file.
LOOK = for_each_kind(
    """SELECT 1 FROM {parent} AS s CROSS JOIN (SELECT {now} AS now) AS clock
    WHERE s.{place} = :place AND COALESCE(s.exclusive_client_id, :client) = :client AND EXISTS (
        SELECT 1 FROM {priorities} CROSS JOIN {entry} AS e
            INDEXED BY {entry}_free
        WHERE e.{place} = :place AND e.priority = p.value AND e.read_state = 0
            AND e.delivery_date <= clock.now)""",
    "SELECT 1",
)

# SQLite, second: claim. Since the first look, another client may have taken everything over.
CLAIM = for_each_kind(
    """UPDATE {entry} SET handling_client_id = :client, read_state = :token,
        delivery_count = delivery_count + 1
    WHERE {place} = :place AND EXISTS (
        SELECT 1 FROM {parent} AS s
        WHERE s.{place} = :place AND COALESCE(s.exclusive_client_id, :client) = :client
    ) AND msg_id IN (
        SELECT e.msg_id FROM (SELECT {now} AS now) AS clock
        CROSS JOIN {priorities}
        CROSS JOIN {entry} AS e INDEXED BY {entry}_free
        WHERE e.{place} = :place AND e.priority = p.value AND e.read_state = 0
            AND e.delivery_date <= clock.now
        LIMIT :limit)""",
    CLAIM_POSTGRESQL,
)

_READ = """SELECT {message}, {properties}, e.delivery_count, {now} AS now
    FROM {entry} AS e JOIN dms_msg AS m ON m.msg_id = e.msg_id
    WHERE e.{place} = :place AND e.handling_client_id = :client AND e.read_state = :token"""

# SQLite, third: read what was claimed.
READ = for_each_kind(_READ + " ORDER BY e.priority DESC, e.delivery_date, e.msg_id", "SELECT 1")

# SQLite, if that fails: the messages that were claimed, and some of them.
CLAIMED = for_each_kind(
    """SELECT e.msg_id FROM {entry} AS e
    WHERE e.{place} = :place AND e.handling_client_id = :client AND e.read_state = :token
    ORDER BY e.priority DESC, e.delivery_date, e.msg_id""",
    "SELECT 1",
)
_SOME = " AND e.msg_id IN (SELECT value FROM json_each(:ids))"
READ_SOME = for_each_kind(_READ + _SOME, "SELECT 1")

# How long until the next future entry is due, in milliseconds; NULL without one.
NEXT_DUE = for_each_kind(
    """SELECT MIN(e.delivery_date) - {now}
    FROM {priorities} CROSS JOIN {entry} AS e INDEXED BY {entry}_free
    WHERE e.{place} = :place AND e.priority = p.value AND e.read_state = 0 AND e.delivery_date = (
        SELECT MIN(n.delivery_date) FROM {entry} AS n
        WHERE n.{place} = :place AND n.priority = p.value AND n.read_state = 0)""",
    """SELECT MIN(e.delivery_date) - {now}
    FROM {priorities}
    CROSS JOIN LATERAL (
        SELECT n.delivery_date FROM {entry} AS n
        WHERE n.{place} = :place AND n.priority = p.value AND n.read_state = 0
        ORDER BY n.delivery_date LIMIT 1
    ) AS e""",
)

# The removal of entries with a valid claim.
_GONE = """DELETE FROM {entry} AS e
    WHERE e.{place} = :place AND e.msg_id = ANY (CAST(:ids AS BIGINT[]))
        AND e.handling_client_id = :client AND e.read_state = ANY (CAST(:tokens AS BIGINT[]))
    RETURNING e.msg_id"""

# For topics the last reader deletes the message. Its row is locked before it is read; otherwise the last two
# readers would both leave it to the other.
_UNREFERENCED = """locked AS MATERIALIZED (
        SELECT m.msg_id, m.reference_count FROM dms_msg AS m
        WHERE m.msg_id = ANY (ARRAY(SELECT msg_id FROM gone)) ORDER BY m.msg_id FOR UPDATE
    ),
    read AS (
        UPDATE dms_msg AS m SET reference_count = m.reference_count - 1
        WHERE m.msg_id = ANY (ARRAY(SELECT msg_id FROM locked WHERE reference_count > 1))
    ),
    dead AS (
        DELETE FROM dms_msg AS m
        WHERE m.msg_id = ANY (ARRAY(SELECT msg_id FROM locked WHERE reference_count <= 1))
    )"""

# Remove settled entries; return the ids of the ones that were still ours.
REMOVE = for_each_kind(
    """DELETE FROM {entry} WHERE {place} = :place AND msg_id IN (SELECT value FROM json_each(:ids))
        AND handling_client_id = :client AND read_state IN (SELECT value FROM json_each(:tokens))
    RETURNING msg_id""",
    "WITH gone AS ({gone}), {unreferenced} SELECT msg_id FROM gone",
    words={"gone": _GONE, "unreferenced": _UNREFERENCED},
)

# PostgreSQL: the same at the end of a transaction; if some were not ours any more, it fails with an error
# that history.sql.database.errors knows.
REMOVE_ALL = for_each_kind(
    "SELECT 1",
    """WITH gone AS ({gone}), {unreferenced}
    SELECT sqrt(CAST(COUNT(*) - cardinality(CAST(:ids AS BIGINT[])) AS FLOAT8)) FROM gone""",
    words={"gone": _GONE, "unreferenced": _UNREFERENCED},
)

# PostgreSQL, for deleted entries: the same as a separate statement.
READ_NO_MORE = statement(
    sqlite="SELECT 1",
    postgresql="WITH gone AS (SELECT unnest(CAST(:ids AS BIGINT[])) AS msg_id), {unreferenced} SELECT 1",
    words={"unreferenced": _UNREFERENCED},
)

# SQLite, after the entries: decrement the readers, delete messages that nobody is left to read.
COUNT_DOWN = statement(
    sqlite="""UPDATE dms_msg SET reference_count = reference_count - 1
    WHERE msg_id IN (SELECT value FROM json_each(:ids))""",
    postgresql="SELECT 1",
)
DELETE_PROPERTIES = statement(
    sqlite="""DELETE FROM dms_msg_properties WHERE msg_id IN (
        SELECT msg_id FROM dms_msg WHERE msg_id IN (SELECT value FROM json_each(:ids))
            AND reference_count <= 0 AND has_properties = 1)""",
    postgresql="SELECT 1",
)
DELETE_MESSAGES = statement(
    sqlite="""DELETE FROM dms_msg
    WHERE msg_id IN (SELECT value FROM json_each(:ids)) AND reference_count <= 0""",
    postgresql="SELECT 1",
)

# Give back what is still ours, not to be delivered before the delay is over; return its ids.
RELEASE = for_each_kind(
    """UPDATE {entry} SET handling_client_id = -1, read_state = 0,
        delivery_date = CASE WHEN :delay > 0 THEN {now} + :delay ELSE delivery_date END
    WHERE {place} = :place AND msg_id {among ids}
        AND handling_client_id = :client AND read_state {among tokens}
    RETURNING msg_id"""
)

# Give back everything that clients hold, except known messages; return the ids.
RELEASE_ALL = for_each_kind(
    """UPDATE {entry} SET handling_client_id = -1, read_state = 0
    WHERE {place} = :place AND read_state <> 0 AND handling_client_id {among clients}
        AND NOT msg_id {among known}
    RETURNING msg_id"""
)

# Clients that hold something and are not alive: mostly there are none. When a client is buried, everything
# that it holds is given back, except what it claimed in that very moment.
ORPHANED = for_each_kind(
    """SELECT DISTINCT e.handling_client_id FROM {entry} AS e
    LEFT JOIN dms_client AS c ON c.client_id = e.handling_client_id
    WHERE e.{place} = :place AND e.read_state <> 0 AND COALESCE(c.lease_until, 0) < {now}""",
)

# JMSRedelivered belongs to the message, as in the Dynamo Message System. The count of the entry says more.
MARK = statement(
    "UPDATE dms_msg SET redelivered = 1 WHERE msg_id {among ids} AND redelivered = 0", words=COMMON
)

# From now on nobody else may claim here. It waits for claims in progress.
SEIZE = for_each_kind("UPDATE {parent} SET exclusive_client_id = :client WHERE {place} = :place")

# Let the others claim again, if one of these clients had seized it.
UNSEIZE = for_each_kind(
    """UPDATE {parent} SET exclusive_client_id = NULL
    WHERE {place} = :place AND exclusive_client_id {among clients}"""
)

# Take away everything that others hold; return the ids.
ROB = for_each_kind(
    """UPDATE {entry} SET handling_client_id = -1, read_state = 0
    WHERE {place} = :place AND read_state <> 0 AND handling_client_id <> :client RETURNING msg_id"""
)

# Delayed entries get back their first date, and so their first order.
RECALL = for_each_kind(
    """UPDATE {entry} SET delivery_date = first_date
    WHERE {place} = :place AND read_state = 0 AND delivery_date > first_date"""
)
