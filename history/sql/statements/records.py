"""Every SQL statement on records and logs, each a named block with its purpose.

SQLite gets the keys and values of records as one BLOB, and their places in it as a JSON array.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from history.sql.statements.dialects import Dialect, Words, statement
from history.store.records import Record

_WORDS: Words = {
    "puts": {
        Dialect.SQLITE: """(
            SELECT substr(:blob, json_extract(value, '$[0]'), json_extract(value, '$[1]')) AS key,
                json_extract(value, '$[4]') AS version,
                substr(:blob, json_extract(value, '$[2]'), json_extract(value, '$[3]')) AS value
            FROM json_each(:places)
        ) AS w""",
        Dialect.POSTGRESQL: """unnest(
            CAST(:keys AS BYTEA[]), CAST(:versions AS BIGINT[]), CAST(:values AS BYTEA[])
        ) AS w (key, version, value)""",
    },
    "lines": {
        Dialect.SQLITE: "(SELECT :id AS id, :about AS about, :line AS line) AS w",
        Dialect.POSTGRESQL: """unnest(
            CAST(:ids AS TEXT[]), CAST(:abouts AS BYTEA[]), CAST(:lines AS TEXT[])
        ) AS w (id, about, line)""",
    },
    # PostgreSQL looks up each key as the first key that is not smaller; see ``{held}`` of the entries.
    "asked": {
        Dialect.SQLITE: """(
            SELECT substr(:blob, json_extract(value, '$[0]'), json_extract(value, '$[1]')) AS key
            FROM json_each(:places)
        ) AS w CROSS JOIN doubtless_records AS r""",
        Dialect.POSTGRESQL: """unnest(CAST(:keys AS BYTEA[])) AS w (key) CROSS JOIN LATERAL (
            SELECT * FROM doubtless_records AS n
            WHERE (n.trigger_name, n.kind, n.key) >= (CAST(:trigger AS TEXT), CAST(:kind AS TEXT), w.key)
            ORDER BY n.trigger_name, n.kind, n.key LIMIT 1
        ) AS r""",
    },
    "kinds": {
        Dialect.SQLITE: "IN (SELECT value FROM json_each(:kinds))",
        Dialect.POSTGRESQL: "= ANY (CAST(:kinds AS TEXT[]))",
    },
    "keys": {
        Dialect.SQLITE: """IN (
            SELECT substr(:blob, json_extract(value, '$[0]'), json_extract(value, '$[1]'))
            FROM json_each(:places))""",
        Dialect.POSTGRESQL: "= ANY (CAST(:keys AS BYTEA[]))",
    },
    # SQLite refuses the name of the table there, and PostgreSQL refuses ambiguous columns.
    "returned": {
        Dialect.SQLITE: "key, version, value, changed_at",
        Dialect.POSTGRESQL: "r.key, r.version, r.value, r.changed_at",
    },
    "lives": "(r.expires_at IS NULL OR r.expires_at > {now})",
    # The new row has the time, so the clock is read only once.
    "lived": "(r.expires_at IS NULL OR r.expires_at > excluded.changed_at)",
    "counts": "(CAST(:expects AS TEXT) = 'counted' AND {lived})",
    "same": "({lived} AND NOT {counts} AND r.version = excluded.version AND r.value = excluded.value)",
    "taken": """(NOT {same} AND CASE CAST(:expects AS TEXT)
        WHEN 'any' THEN TRUE
        WHEN 'counted' THEN TRUE
        WHEN 'not newer' THEN NOT {lived} OR r.version <= excluded.version
        ELSE NOT {lived} END)""",
}

# The clock.
NOW = statement("SELECT {now} AS now")

# Store each record if the stored one is as expected, and return the stored records. A record that is already
# there lives longer. In the order of the keys, so that two calls never deadlock.
PUT = statement(
    """
    INSERT INTO doubtless_records AS r (trigger_name, kind, key, version, value, changed_at, expires_at)
    SELECT CAST(:trigger AS TEXT), CAST(:kind AS TEXT), w.key, w.version, w.value, {now},
        {now} + CAST(:time_to_live AS BIGINT)
    FROM {puts}
    WHERE TRUE
    ORDER BY w.key
    ON CONFLICT (trigger_name, kind, key) DO UPDATE
    SET version = CASE WHEN {counts} THEN r.version + 1 WHEN {taken} THEN excluded.version ELSE r.version END,
        value = CASE WHEN {taken} THEN excluded.value ELSE r.value END,
        changed_at = CASE WHEN {taken} OR {same} THEN excluded.changed_at ELSE r.changed_at END,
        expires_at = CASE WHEN {taken} OR ({same} AND (
                r.expires_at < excluded.expires_at OR excluded.expires_at IS NULL))
            THEN excluded.expires_at ELSE r.expires_at END
    RETURNING key, version, value, changed_at, COALESCE(expires_at > {now}, TRUE) AS lives
    """,
    words=_WORDS,
)

# Store records that follow the stored records, and return them; without a stored record, nothing happens.
FOLLOW = statement(
    """
    UPDATE doubtless_records AS r
    SET version = w.version, value = w.value, changed_at = {now},
        expires_at = CASE WHEN r.version = w.version
                AND (r.expires_at IS NULL OR r.expires_at > {now} + CAST(:time_to_live AS BIGINT))
            THEN r.expires_at ELSE {now} + CAST(:time_to_live AS BIGINT) END
    FROM {puts}
    WHERE r.trigger_name = :trigger AND r.kind = :kind AND r.key = w.key AND {lives}
        AND (r.version = w.version - 1 OR (r.version = w.version AND r.value = w.value))
    RETURNING {returned}, TRUE AS lives
    """,
    words=_WORDS,
)

# The records of keys that have not expired.
_GET = """
    SELECT r.key, r.version, r.value, r.changed_at, TRUE AS lives FROM {asked}
    WHERE r.trigger_name = :trigger AND r.kind = :kind AND r.key = w.key AND {lives}
"""
GET = statement(_GET, words=_WORDS)

# The same, and until the end of the transaction nobody else changes them.
HOLD = statement(
    sqlite=_GET,
    postgresql="""
    SELECT r.key, r.version, r.value, r.changed_at, TRUE AS lives FROM doubtless_records AS r
    WHERE r.trigger_name = :trigger AND r.kind = :kind AND r.key {keys} AND {lives}
    ORDER BY r.key FOR UPDATE
    """,
    words=_WORDS,
)

# How many records of a kind there are.
COUNT = statement(
    """
    SELECT COUNT(*) FROM doubtless_records AS r
    WHERE r.trigger_name = :trigger AND r.kind = :kind AND {lives}
    """,
    words=_WORDS,
)

# Some records of a kind, the greatest key first.
PAGE = statement(
    """
    SELECT r.key, r.version, r.value, r.changed_at FROM doubtless_records AS r
    WHERE r.trigger_name = :trigger AND r.kind = :kind AND r.key >= :first AND r.key < :end AND {lives}
    ORDER BY r.key DESC LIMIT :limit
    """,
    words=_WORDS,
)

# All records of some kinds, the greatest key first, and the clock. In SQLite, spoilt keys are below BLOBs.
VIEW = statement(
    """
    SELECT clock.now, r.kind, r.key, r.version, r.value, r.changed_at
    FROM (SELECT {now} AS now) AS clock LEFT JOIN doubtless_records AS r
        ON r.trigger_name = :trigger AND r.kind {kinds} AND r.key >= :first AND {lives}
    ORDER BY r.kind, r.key DESC
    """,
    words=_WORDS,
)

# Delete the records of some keys; ``lives`` tells which had not expired.
DELETE = statement(
    """
    DELETE FROM doubtless_records AS r
    WHERE r.trigger_name = :trigger AND r.kind = :kind AND r.key >= :key AND r.key <= :last
    RETURNING COALESCE(expires_at > {now}, TRUE) AS lives
    """,
    words=_WORDS,
)

# Delete the records of single keys.
DELETE_EACH = statement(
    "DELETE FROM doubtless_records WHERE trigger_name = :trigger AND kind = :kind AND key {keys}",
    words=_WORDS,
)

# The triggers with records of a kind, or with lines of a log.
NAMED = statement("""
    WITH RECURSIVE recorded (trigger_name) AS (
        SELECT MIN(trigger_name) FROM doubtless_records
        UNION ALL
        SELECT (SELECT MIN(n.trigger_name) FROM doubtless_records AS n
                WHERE n.trigger_name > recorded.trigger_name)
        FROM recorded WHERE recorded.trigger_name IS NOT NULL
    ), logged (trigger_name) AS (
        SELECT MIN(trigger_name) FROM doubtless_log
        UNION ALL
        SELECT (SELECT MIN(n.trigger_name) FROM doubtless_log AS n
                WHERE n.trigger_name > logged.trigger_name)
        FROM logged WHERE logged.trigger_name IS NOT NULL
    )
    SELECT w.trigger_name FROM recorded AS w WHERE EXISTS (
        SELECT 1 FROM doubtless_records AS r WHERE r.trigger_name = w.trigger_name AND r.kind = :kind)
    UNION
    SELECT w.trigger_name FROM logged AS w WHERE EXISTS (
        SELECT 1 FROM doubtless_log AS l WHERE l.trigger_name = w.trigger_name AND l.kind = :log)
""")

# Delete some records that expired at an instant or later; two such calls do not wait for each other. An index
# keeps its dead entries while an old snapshot is open: from its beginning, each call would read more of them.
PURGE = statement(
    sqlite="""
    DELETE FROM doubtless_records WHERE rowid IN (
        SELECT rowid FROM doubtless_records WHERE expires_at >= :after AND expires_at <= {now}
        ORDER BY expires_at LIMIT :limit)
    RETURNING expires_at
    """,
    postgresql="""
    DELETE FROM doubtless_records WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM doubtless_records WHERE expires_at >= :after AND expires_at <= {now}
        ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING expires_at
    """,
)

# Delete some records that have not changed for long.
FORGET = statement("""
    DELETE FROM doubtless_records WHERE trigger_name = :trigger AND kind = :kind AND key IN (
        SELECT key FROM doubtless_records
        WHERE trigger_name = :trigger AND kind = :kind AND changed_at < {now} - CAST(:age AS BIGINT)
        LIMIT :limit)
    RETURNING key
""")

# Undo all changes of a step if one is refused, in any transaction.
SAVE, UNDO = statement("SAVEPOINT doubtless_step"), statement("ROLLBACK TO SAVEPOINT doubtless_step")

# Add lines; a line that is sent twice is added once.
APPEND = statement(
    """
    INSERT INTO doubtless_log (id, trigger_name, kind, about, written_at, line)
    SELECT w.id, CAST(:trigger AS TEXT), CAST(:kind AS TEXT), w.about, {now}, w.line FROM {lines}
    WHERE TRUE
    ON CONFLICT (id) DO NOTHING
    """,
    words=_WORDS,
)

# Some lines of a log, the newest first.
LATEST = statement("""
    SELECT id, written_at, line FROM doubtless_log
    WHERE trigger_name = :trigger AND kind = :kind AND (written_at, id) < (:at, :id)
    ORDER BY written_at DESC, id DESC LIMIT :limit
""")

# Some lines about something, the newest first.
ABOUT = statement("""
    SELECT id, written_at, line FROM doubtless_log
    WHERE trigger_name = :trigger AND kind = :kind AND about = :about AND (written_at, id) < (:at, :id)
    ORDER BY written_at DESC, id DESC LIMIT :limit
""")

# Delete the lines before the last ``kept`` lines of a log; of two such calls, the second finds less to do.
TRIM = statement("""
    DELETE FROM doubtless_log WHERE trigger_name = :trigger AND kind = :kind AND written_at < (
        SELECT written_at FROM doubtless_log WHERE trigger_name = :trigger AND kind = :kind
        ORDER BY written_at DESC, id DESC LIMIT 1 OFFSET :kept)
""")

# Delete the lines that are too old.
CUT = statement("""
    DELETE FROM doubtless_log
    WHERE trigger_name = :trigger AND kind = :kind AND written_at < {now} - CAST(:age AS BIGINT)
    RETURNING id
""")


def parameters(dialect: str, records: Sequence[Record]) -> Mapping[str, Any]:
    """Return the parameters of ``{puts}`` and ``{asked}``."""
    if dialect == Dialect.POSTGRESQL:
        return {
            "keys": [record.key for record in records],
            "versions": [record.version for record in records],
            "values": [record.value for record in records],
        }
    places: list[tuple[int, ...]] = []
    at = 1
    for record in records:
        key, value = len(record.key), len(record.value)
        places.append((at, key, at + key, value, record.version))
        at += key + value
    blob = b"".join(part for record in records for part in (record.key, record.value))
    return {"blob": blob, "places": json.dumps(places)}


def lines_of(dialect: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters of ``{lines}`` for each statement; for SQLite, one line per statement."""
    if dialect == Dialect.POSTGRESQL:
        yield {f"{name}s": [row[name] for row in rows] for name in ("id", "about", "line")}
    else:
        yield from rows
