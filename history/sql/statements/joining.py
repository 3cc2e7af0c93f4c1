"""The SQL of joins: one text of SQL for two databases, as in :mod:`history.sql.statements.entries`."""

from history.sql.statements.dialects import statement

# Find the open period of an activation, or begin it, and lock it; the number of a period is a fence.
OPEN = statement("""
    WITH clock AS (SELECT {now} AS now)
    INSERT INTO doubtless_joins AS j
        (number, trigger_name, key, activation, state, started_at, due_at, taken)
    SELECT {fence}, CAST(:trigger AS TEXT), :key, CAST(:activation AS TEXT), 'open', clock.now,
        clock.now + CAST(:time_out AS BIGINT), 0
    FROM clock
    WHERE TRUE
    ON CONFLICT (trigger_name, key) WHERE state = 'open' DO UPDATE SET taken = j.taken
    RETURNING number, due_at <= {now} AS late
""")

# Let the next message begin another period; this period is due.
SHUT = statement("UPDATE doubtless_joins SET state = 'late' WHERE number = :number")

# Store a part, unless another message has its place.
STORE = statement("""
    INSERT INTO doubtless_join_parts AS p (number, destination, digest, fence, document)
    VALUES (:number, :destination, :digest, :fence, :document)
    ON CONFLICT (number, destination) DO UPDATE SET fence = excluded.fence, document = excluded.document
        WHERE p.digest = excluded.digest
    RETURNING number
""")

# The parts of some periods.
PARTS = statement(
    sqlite="""
        SELECT number, destination, fence, document FROM doubtless_join_parts
        WHERE number IN (SELECT value FROM json_each(:numbers))
    """,
    postgresql="""
        SELECT number, destination, fence, document FROM doubtless_join_parts
        WHERE number = ANY (CAST(CAST(:numbers AS TEXT) AS BIGINT[]))
    """,
)

# Hand the completed period to the worker that completed it.
COMPLETE = statement("""
    UPDATE doubtless_joins
    SET state = 'ready', owner = :owner, taken = taken + 1, due_at = {now} + CAST(:hold AS BIGINT)
    WHERE number = :number
    RETURNING number, activation, state, started_at, taken
""")

# Whether a period is due.
LATE = statement("""
    SELECT number FROM doubtless_joins WHERE trigger_name = :trigger AND due_at <= {now} LIMIT 1
""")

# Hand out due periods. On PostgreSQL another worker skips the periods that are being handed out.
HAND_OUT_TEXT = """
    UPDATE doubtless_joins
    SET state = CASE WHEN state = 'ready' THEN 'ready' ELSE 'expired' END,
        owner = :owner, taken = taken + 1, due_at = {now} + CAST(:hold AS BIGINT)
    WHERE due_at <= {now} AND number IN (
        SELECT number FROM doubtless_joins
        WHERE trigger_name = :trigger AND due_at <= {now}
        ORDER BY due_at LIMIT :limit SKIPPING)
    RETURNING number, activation, state, started_at, taken
"""
HAND_OUT = statement(
    sqlite=HAND_OUT_TEXT.replace("SKIPPING", ""),
    postgresql=HAND_OUT_TEXT.replace("SKIPPING", "FOR UPDATE SKIP LOCKED"),
)

# Fail the entry of a part in an expired period, so that its parked copy can be run.
FAIL = statement("""
    UPDATE doubtless_history SET outcome = 'failed'
    WHERE trigger_name = :trigger AND digest = :digest AND fence = :fence
      AND state = 'completed' AND outcome = 'ok'
""")

# Hold a period for longer, or give it back.
KEEP = statement("""
    UPDATE doubtless_joins SET due_at = {now} + CAST(:hold AS BIGINT)
    WHERE number = :number AND owner = :owner AND state IN ('ready', 'expired')
""")

# Forget a period.
FINISH = statement("""
    DELETE FROM doubtless_joins WHERE number = :number AND state IN ('ready', 'expired') RETURNING number
""")
FINISH_PARTS = statement("DELETE FROM doubtless_join_parts WHERE number = :number")

# The oldest periods.
WAITING = statement("""
    SELECT number, activation, CASE WHEN state = 'late' THEN 'expired' ELSE state END AS state,
        started_at, taken
    FROM doubtless_joins WHERE trigger_name = :trigger ORDER BY number LIMIT :limit
""")
