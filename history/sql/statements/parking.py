"""Every SQL statement of the parking lot, each a named block with its purpose."""

from history.sql.statements.dialects import Dialect, Words, statement

#: The ids of a call, as a relation of one column.
_WORDS: Words = {
    "ids": {
        Dialect.SQLITE: "(SELECT value FROM json_each(:ids))",
        Dialect.POSTGRESQL: "(SELECT unnest(CAST(:ids AS TEXT[])))",
    },
}

# Park a message; parking it again replaces the copy.
PARK = statement("""
    INSERT INTO doubtless_parked (trigger_name, id, parked_at, document)
    VALUES (:trigger, :id, :parked_at, :document)
    ON CONFLICT (trigger_name, id) DO UPDATE SET
        parked_at = excluded.parked_at, document = excluded.document
""")

# Label a message that is about to be parked, and count its copies; a label alone counts for nothing.
LABEL = statement("""
    INSERT INTO doubtless_parked_labels AS l (trigger_name, id, parked_at, copies, label)
    VALUES (:trigger, :id, :parked_at, 1, :label)
    ON CONFLICT (trigger_name, id) DO UPDATE SET
        parked_at = excluded.parked_at, label = excluded.label,
        copies = 1 + CASE WHEN EXISTS (
            SELECT 1 FROM doubtless_parked AS p
            WHERE p.trigger_name = excluded.trigger_name AND p.id = excluded.id
        ) THEN l.copies ELSE 0 END
""")

# Find by the beginning of an id; without LIKE, because an id is not a pattern.
FIND = statement("""
    SELECT p.trigger_name, p.id, p.parked_at, p.document, COALESCE(l.copies, 1) AS copies
    FROM doubtless_parked AS p
    LEFT JOIN doubtless_parked_labels AS l ON l.trigger_name = p.trigger_name AND l.id = p.id
    WHERE SUBSTR(p.id, 1, LENGTH(:beginning)) = :beginning
      AND (CAST(:trigger AS TEXT) IS NULL OR p.trigger_name = :trigger)
    LIMIT 2
""")

# Find by a trigger and a whole id: by the primary key, so it is quick with many messages.
FIND_WHOLE = statement("""
    SELECT p.trigger_name, p.id, p.parked_at, p.document, COALESCE(l.copies, 1) AS copies
    FROM doubtless_parked AS p
    LEFT JOIN doubtless_parked_labels AS l ON l.trigger_name = p.trigger_name AND l.id = p.id
    WHERE p.trigger_name = :trigger AND p.id = :id
""")

# List the oldest.
LIST = statement("""
    SELECT p.trigger_name, p.id, p.parked_at, p.document, COALESCE(l.copies, 1) AS copies
    FROM doubtless_parked AS p
    LEFT JOIN doubtless_parked_labels AS l ON l.trigger_name = p.trigger_name AND l.id = p.id
    WHERE CAST(:trigger AS TEXT) IS NULL OR p.trigger_name = :trigger
    ORDER BY p.parked_at, p.id
    LIMIT :limit
""")

# The labels after a trigger and an id, in the order of the primary key; the document if a label is stale.
_LABELS = """
    SELECT p.trigger_name, p.id, p.parked_at, COALESCE(l.copies, 1) AS copies, l.label,
        CASE WHEN l.label IS NULL THEN p.document END AS document
    FROM doubtless_parked AS p
    LEFT JOIN doubtless_parked_labels AS l
        ON l.trigger_name = p.trigger_name AND l.id = p.id AND l.parked_at = p.parked_at
"""
LABELS = statement(f"""
    {_LABELS}
    WHERE (p.trigger_name, p.id) > (:after_trigger, :after_id)
    ORDER BY p.trigger_name, p.id LIMIT :limit
""")
LABELS_OF_ONE = statement(f"""
    {_LABELS}
    WHERE p.trigger_name = :trigger AND p.id > :after_id
    ORDER BY p.trigger_name, p.id LIMIT :limit
""")

# The labels of the messages with a uuid, by its digest.
LABELS_OF_UUID = statement(f"""
    {_LABELS}
    JOIN doubtless_parked_uuids AS u ON u.trigger_name = p.trigger_name AND u.id = p.id
    WHERE u.digest = :digest AND (CAST(:trigger AS TEXT) IS NULL OR p.trigger_name = :trigger)
""")

# Whether an older version has parked messages, without the digest of their uuid.
ARE_OLDER = statement("""
    SELECT (SELECT COUNT(*) FROM doubtless_parked) > (SELECT COUNT(*) FROM doubtless_parked_uuids)
""")

# Store the uuid of a message that is about to be parked; without a uuid, the digest of the empty text.
NOTE_UUID = statement("""
    INSERT INTO doubtless_parked_uuids (trigger_name, id, digest) VALUES (:trigger, :id, :digest)
    ON CONFLICT (trigger_name, id) DO UPDATE SET digest = excluded.digest
""")

# One message, whole.
READ = statement("""
    SELECT trigger_name, id, parked_at, document, 1 AS copies FROM doubtless_parked
    WHERE trigger_name = :trigger AND id = :id
""")

# Remove one.
REMOVE = statement("DELETE FROM doubtless_parked WHERE trigger_name = :trigger AND id = :id RETURNING id")
REMOVE_LABEL = statement("DELETE FROM doubtless_parked_labels WHERE trigger_name = :trigger AND id = :id")
REMOVE_UUID = statement("DELETE FROM doubtless_parked_uuids WHERE trigger_name = :trigger AND id = :id")

# Remove many.
REMOVE_EACH = statement(
    "DELETE FROM doubtless_parked WHERE trigger_name = :trigger AND id IN {ids} RETURNING id", words=_WORDS
)
REMOVE_LABELS = statement(
    "DELETE FROM doubtless_parked_labels WHERE trigger_name = :trigger AND id IN {ids}", words=_WORDS
)
REMOVE_UUIDS = statement(
    "DELETE FROM doubtless_parked_uuids WHERE trigger_name = :trigger AND id IN {ids}", words=_WORDS
)

# Count all of them, or those of one trigger; each has its own statement, so that SQLite uses the key.
COUNT = statement("SELECT COUNT(*) FROM doubtless_parked")
COUNT_OF_ONE = statement("SELECT COUNT(*) FROM doubtless_parked WHERE trigger_name = :trigger")

# Which of these are parked; until the end of the transaction nobody else decides about them.
LOCK = statement(
    sqlite="SELECT id FROM doubtless_parked WHERE trigger_name = :trigger AND id IN {ids} ORDER BY id",
    postgresql="""
        SELECT id FROM doubtless_parked WHERE trigger_name = :trigger AND id IN {ids} ORDER BY id FOR UPDATE
    """,
    words=_WORDS,
)

# The decision of a token, if it was carried out.
DECIDED = statement("SELECT document FROM doubtless_decisions WHERE token = :token")

# Record a decision.
RECORD = statement("""
    INSERT INTO doubtless_decisions (trigger_name, token, decided_at, document)
    VALUES (:trigger, :token, {now}, :document)
""")

# The triggers with entries or decisions.
KNOWN_TRIGGERS = statement("""
    WITH RECURSIVE named (trigger_name) AS (
        SELECT MIN(trigger_name) FROM doubtless_history WHERE trigger_name > ''
        UNION ALL
        SELECT (SELECT MIN(h.trigger_name) FROM doubtless_history AS h
                WHERE h.trigger_name > named.trigger_name)
        FROM named WHERE named.trigger_name IS NOT NULL
    ), decided (trigger_name) AS (
        SELECT MIN(trigger_name) FROM doubtless_decisions
        UNION ALL
        SELECT (SELECT MIN(d.trigger_name) FROM doubtless_decisions AS d
                WHERE d.trigger_name > decided.trigger_name)
        FROM decided WHERE decided.trigger_name IS NOT NULL
    )
    SELECT trigger_name FROM named WHERE trigger_name IS NOT NULL
    UNION
    SELECT trigger_name FROM decided WHERE trigger_name IS NOT NULL
""")

# The decisions, the newest first.
DECISIONS = statement("""
    SELECT number, decided_at, document FROM doubtless_decisions
    WHERE trigger_name = :trigger AND number < :before ORDER BY number DESC LIMIT :limit
""")
