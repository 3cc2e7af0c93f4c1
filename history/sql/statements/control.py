"""Every SQL statement of commands, states and statistics, each a named block with its purpose.

:mod:`history.sql.statements.dialects` explains the words in braces. On SQLite a beat is several statements
in one transaction. On PostgreSQL it is one statement, because each would be a round trip.
"""

from history.sql.statements.dialects import statement

# The clock.
NOW = statement("SELECT {now} AS now")

# PostgreSQL: store a consumer's counts and reports, add the new counts to the sums, return its commands. A
# count that has not changed is not written, so a beat that arrives twice adds nothing. The rows are sorted,
# so that two consumers never deadlock.
BEAT = statement(
    postgresql="""
    WITH clock AS MATERIALIZED (SELECT {now} AS now),
    counted AS (
        INSERT INTO doubtless_counts AS c (token, trigger_name, name, value, added)
        SELECT CAST(:token AS TEXT), w.trigger_name, w.name, w.value, w.value
        FROM unnest(CAST(:counted AS TEXT[]), CAST(:names AS TEXT[]), CAST(:amounts AS BIGINT[]))
            AS w (trigger_name, name, value)
        ORDER BY w.trigger_name, w.name
        ON CONFLICT (token, trigger_name, name) DO UPDATE SET
            value = excluded.value, added = excluded.value - c.value
        WHERE c.value <> excluded.value
        RETURNING trigger_name, name, added
    ),
    summed AS (
        INSERT INTO doubtless_statistics AS s (trigger_name, name, value)
        SELECT trigger_name, name, added FROM counted ORDER BY trigger_name, name
        ON CONFLICT (trigger_name, name) DO UPDATE SET value = s.value + excluded.value
    ),
    said AS (
        INSERT INTO doubtless_consumers (token, trigger_name, beat_at, document)
        SELECT CAST(:token AS TEXT), w.trigger_name, clock.now, w.document
        FROM unnest(CAST(:triggers AS TEXT[]), CAST(:documents AS TEXT[])) AS w (trigger_name, document)
        CROSS JOIN clock
        ON CONFLICT (token, trigger_name) DO UPDATE SET
            beat_at = excluded.beat_at, document = excluded.document
    )
    SELECT clock.now, o.trigger_name, o.verb, o.number, o.given_at, o.reason
    FROM clock LEFT JOIN doubtless_orders AS o ON o.trigger_name = ANY (CAST(:triggers AS TEXT[]))
"""
)

# SQLite: store a consumer's counts; return by how much each has changed.
COUNT = statement(
    sqlite="""
    INSERT INTO doubtless_counts AS c (token, trigger_name, name, value, added)
    SELECT :token, json_extract(w.value, '$[0]'), json_extract(w.value, '$[1]'),
        json_extract(w.value, '$[2]'), json_extract(w.value, '$[2]')
    FROM json_each(:counts) AS w
    WHERE TRUE
    ON CONFLICT (token, trigger_name, name) DO UPDATE SET
        value = excluded.value, added = excluded.value - c.value
    WHERE c.value <> excluded.value
    RETURNING trigger_name, name, added
"""
)

# SQLite: add that to the sums.
ADD = statement(
    sqlite="""
    INSERT INTO doubtless_statistics AS s (trigger_name, name, value) VALUES (:trigger, :name, :added)
    ON CONFLICT (trigger_name, name) DO UPDATE SET value = s.value + excluded.value
"""
)

# SQLite: store a consumer's reports.
SAY = statement(
    sqlite="""
    INSERT INTO doubtless_consumers (token, trigger_name, beat_at, document)
    VALUES (:token, :trigger, :now, :document)
    ON CONFLICT (token, trigger_name) DO UPDATE SET beat_at = excluded.beat_at, document = excluded.document
"""
)

# SQLite: the commands in force for some triggers.
STANDING = statement(
    sqlite="""
    SELECT o.trigger_name, o.verb, o.number, o.given_at, o.reason
    FROM json_each(:triggers) AS w CROSS JOIN doubtless_orders AS o ON o.trigger_name = w.value
"""
)

# One command at a time: two commands that are given together must get different numbers.
LOCK_ORDERS = statement(
    sqlite="SELECT 1", postgresql="LOCK TABLE doubtless_orders IN SHARE ROW EXCLUSIVE MODE"
)

# Give a command; it replaces the previous one.
GIVE = statement("""
    INSERT INTO doubtless_orders (trigger_name, lasts, verb, number, given_at, reason)
    VALUES (:trigger, :lasts, :verb, :number, :now, :reason)
    ON CONFLICT (trigger_name, lasts) DO UPDATE SET
        verb = excluded.verb, number = excluded.number, given_at = excluded.given_at, reason = excluded.reason
""")

# All commands in force.
LIST_ORDERS = statement("SELECT trigger_name, verb, number, given_at, reason FROM doubtless_orders")

# The last reports of consumers that were not silent since then.
LIST_CONSUMERS = statement("""
    SELECT token, trigger_name, beat_at, document FROM doubtless_consumers WHERE beat_at >= :least
""")

# All sums.
LIST_STATISTICS = statement("SELECT trigger_name, name, value FROM doubtless_statistics")

# Forget sums, but not that there were consumers.
CLEAR = statement("""
    DELETE FROM doubtless_statistics
    WHERE (CAST(:trigger AS TEXT) IS NULL OR trigger_name = :trigger) AND name <> 'consumers'
""")

# SQLite: delete the counts of silent consumers, before the consumers.
SWEEP_COUNTS = statement(
    sqlite="""
    DELETE FROM doubtless_counts WHERE (token, trigger_name) IN (
        SELECT token, trigger_name FROM doubtless_consumers WHERE beat_at < {now} - :silence)
"""
)

# Delete silent consumers; on PostgreSQL in one statement with their counts: two could see different rows.
SWEEP = statement(
    sqlite="DELETE FROM doubtless_consumers WHERE beat_at < {now} - :silence RETURNING token",
    postgresql="""
    WITH silent AS (
        DELETE FROM doubtless_consumers WHERE beat_at < {now} - CAST(:silence AS BIGINT)
        RETURNING token, trigger_name
    ), counts AS (
        DELETE FROM doubtless_counts AS c USING silent
        WHERE c.token = silent.token AND c.trigger_name = silent.trigger_name
    )
    SELECT token FROM silent
""",
)
