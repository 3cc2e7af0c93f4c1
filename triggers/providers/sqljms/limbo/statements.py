"""Every SQL statement of the limbo, each a named block with its purpose.

The words in braces are explained in :mod:`history.sql.statements.dialects` or below. ``:at`` is the instant
that counts as now; NULL means the server's clock.
"""

from functools import partial

from history.sql.statements.dialects import Dialect, Words, statement
from triggers.providers.sqljms.statements import COMMON

#: The words of this module, and their meaning.
_WORDS: Words = {
    **COMMON,
    "due": """
        SELECT s.msg_id FROM dms_limbo_msg AS m JOIN dms_limbo_state AS s ON s.msg_id = m.msg_id
        WHERE s.input = :input AND {past} AND CAST(COALESCE(s.lease_until, 0) AS BIGINT) <= {at}
        ORDER BY m.delivery_date, m.msg_id LIMIT :limit""",
    "read": """
        SELECT m.*, b.msg_body, r.jms_replyto, d.msg_id IS NOT NULL AS again, d.delay, d.max_attempts,
            d.failure_port, d.jms_destination, s.input, s.token, s.lease_until, s.uuid, s.message_id,
            s.timestamp, s.delivery_mode, s.priority, s.last_error, l.limbo_name
        FROM dms_limbo_msg AS m
        JOIN dms_limbo_state AS s ON s.msg_id = m.msg_id
        LEFT JOIN dms_limbo_body AS b ON b.msg_id = m.msg_id
        LEFT JOIN dms_limbo_replyto AS r ON r.msg_id = m.msg_id
        LEFT JOIN dms_limbo_delay AS d ON d.msg_id = m.msg_id
        LEFT JOIN dms_limbo AS l ON l.limbo_id = m.limbo_id""",
    # SQLite's columns may hold text, which is greater than any number: it counts as due, so that it is found.
    "past": {
        Dialect.SQLITE: "(m.delivery_date <= {at} OR m.delivery_date >= '')",
        Dialect.POSTGRESQL: "m.delivery_date <= {at}",
    },
    "free": "(COALESCE(lease_until, 0) <= {at} OR CAST(:force AS INTEGER) = 1)",
    "at": "COALESCE(CAST(:at AS BIGINT), {now})",
}

_statement = partial(statement, words=_WORDS)

# Now, as this module understands it.
NOW = _statement("SELECT {at} AS now")

# Hand out :count ids; SQLite answers the last of them.
DRAW_IDS = _statement(
    sqlite="UPDATE dms_id_generator SET seed = seed + :count WHERE id_space_name = 'dms_limbo'"
    " RETURNING seed",
    postgresql="SELECT nextval('dms_limbo_ids') FROM generate_series(1, CAST(:count AS INTEGER))",
)

# The names of those who put messages here.
ENTER = _statement(
    "INSERT INTO dms_limbo (limbo_name, limbo_id) VALUES (:name, :id) ON CONFLICT (limbo_name) DO NOTHING"
)
WHO = _statement("SELECT limbo_id FROM dms_limbo WHERE limbo_name = :name")

# Put a message in. It waits for one input once: a second copy writes nothing.
PUT_STATE = _statement("""
    INSERT INTO dms_limbo_state
        (msg_id, input, digest, uuid, message_id, timestamp, delivery_mode, priority, last_error)
    VALUES (:msg_id, :input, :digest, :uuid, :message_id, :timestamp, :delivery_mode, :priority, :error)
    ON CONFLICT DO NOTHING
    RETURNING msg_id
""")
PUT = _statement("""
    INSERT INTO dms_limbo_msg
        (msg_id, limbo_id, delivery_date, delivery_count, msg_src_name, port_name, msg_class,
         msg_class_type, jms_type, jms_expiration, jms_correlationid)
    VALUES (:msg_id, :limbo_id, :date, :count, :source, :port, :class, :class_type, :type, :expiration,
            :correlation_id)
""")
PUT_REPLYTO = _statement("INSERT INTO dms_limbo_replyto (msg_id, jms_replyto) VALUES (:msg_id, :reply_to)")
PUT_BODY = _statement("INSERT INTO dms_limbo_body (msg_id, msg_body) VALUES (:msg_id, :body)")
PUT_PROP = _statement(
    "INSERT INTO dms_limbo_props (msg_id, prop_name, prop_value) VALUES (:msg_id, :name, :value)"
)
PUT_PTYPE = _statement(
    "INSERT INTO dms_limbo_ptypes (msg_id, prop_name, prop_type) VALUES (:msg_id, :name, :type)"
)
PUT_DELAY = _statement("""
    INSERT INTO dms_limbo_delay
        (msg_id, delay, max_attempts, failure_port, jms_timestamp, jms_deliverymode, jms_priority,
         jms_messageid, jms_redelivered, jms_destination)
    VALUES (:msg_id, :delay, :max_attempts, :failure_port, :timestamp, :delivery_mode, :priority,
            :message_id, :redelivered, :destination)
""")

# Take due messages for an input, or, for the input '', those to be sent; nobody else has them for a while.
# PostgreSQL could evaluate a plain subquery that skips locked rows more than once.
TAKE = _statement(
    sqlite="""
        UPDATE dms_limbo_state SET token = :token, lease_until = {at} + :lease
        WHERE msg_id IN ({due})
        RETURNING msg_id
    """,
    postgresql="""
        WITH due AS MATERIALIZED ({due} FOR UPDATE SKIP LOCKED)
        UPDATE dms_limbo_state AS s SET token = :token, lease_until = {at} + CAST(:lease AS BIGINT)
        FROM due WHERE s.msg_id = due.msg_id
        RETURNING s.msg_id
    """,
)

# An attempt begins (1), or did not (-1).
COUNT = _statement(
    "UPDATE dms_limbo_msg SET delivery_count = delivery_count + :change WHERE msg_id {among ids}"
)

# Read messages whole.
READ = _statement("{read} WHERE m.msg_id {among ids} ORDER BY m.delivery_date, m.msg_id")
READ_PROPS = _statement("""
    SELECT p.msg_id, p.prop_name, p.prop_value, t.prop_type
    FROM dms_limbo_props AS p JOIN dms_limbo_ptypes AS t ON t.msg_id = p.msg_id AND t.prop_name = p.prop_name
    WHERE p.msg_id {among ids}
""")

# When the next message of an input is due and free.
NEXT = _statement("""
    SELECT MIN(CASE WHEN COALESCE(s.lease_until, 0) > m.delivery_date THEN s.lease_until
               ELSE m.delivery_date END) AS next
    FROM dms_limbo_msg AS m JOIN dms_limbo_state AS s ON s.msg_id = m.msg_id WHERE s.input = :input
""")

# Renew the lease of messages that were taken under :token, and by nobody else since.
RENEW = _statement("""
    UPDATE dms_limbo_state SET lease_until = {at} + CAST(:lease AS BIGINT)
    WHERE token = :token AND msg_id {among ids}
""")

# The same messages: give them back.
LET_GO = _statement("""
    UPDATE dms_limbo_state SET token = NULL, lease_until = NULL, last_error = COALESCE(:error, last_error)
    WHERE token = :token AND msg_id {among ids}
    RETURNING msg_id
""")
PUT_OFF = _statement(
    "UPDATE dms_limbo_msg SET delivery_date = {at} + CAST(:pause AS BIGINT) WHERE msg_id {among ids}"
)

# The same messages: remove them; then their other rows.
TAKE_OUT = _statement(
    "DELETE FROM dms_limbo_state WHERE token = :token AND msg_id {among ids} RETURNING msg_id"
)
CLEAR = (
    _statement("DELETE FROM dms_limbo_delay WHERE msg_id {among ids}"),
    _statement("DELETE FROM dms_limbo_ptypes WHERE msg_id {among ids}"),
    _statement("DELETE FROM dms_limbo_props WHERE msg_id {among ids}"),
    _statement("DELETE FROM dms_limbo_body WHERE msg_id {among ids}"),
    _statement("DELETE FROM dms_limbo_replyto WHERE msg_id {among ids}"),
    _statement("DELETE FROM dms_limbo_msg WHERE msg_id {among ids}"),
)

# The waiting messages, the next one first; of one input, or of all.
WAITING = _statement("""
    SELECT m.msg_id FROM dms_limbo_msg AS m JOIN dms_limbo_state AS s ON s.msg_id = m.msg_id
    WHERE s.input = COALESCE(CAST(:input AS TEXT), s.input)
    ORDER BY m.delivery_date, m.msg_id LIMIT :limit
""")
HOW_MANY = _statement(
    "SELECT COUNT(*) FROM dms_limbo_state WHERE input = COALESCE(CAST(:input AS TEXT), input)"
)

# Whether a process is busy with messages; the lock keeps it so until the end of the transaction.
_BUSY = """
    SELECT msg_id, CASE WHEN COALESCE(lease_until, 0) > {at} THEN 1 ELSE 0 END AS busy
    FROM dms_limbo_state WHERE msg_id {among ids}"""
BUSY = _statement(sqlite=_BUSY, postgresql=f"{_BUSY} FOR UPDATE")

# Make free messages due immediately; with :force, busy ones as well.
RELEASE_NOW = _statement("""
    UPDATE dms_limbo_msg SET delivery_date = {at}
    WHERE msg_id {among ids} AND delivery_date > {at} AND msg_id IN (
        SELECT msg_id FROM dms_limbo_state WHERE {free}
    )
    RETURNING msg_id
""")

# Remove free messages; with :force, busy ones as well.
DROP = _statement("""
    DELETE FROM dms_limbo_state
    WHERE msg_id {among ids} AND {free}
    RETURNING msg_id
""")
