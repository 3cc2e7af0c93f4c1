"""Every SQL statement of the parking lot, each a named block with its purpose."""

from history.sql.statements.dialects import statement

# Keep a message; parking it again replaces the copy.
PARK = statement("""
    INSERT INTO doubtless_parked (trigger_name, id, parked_at, document)
    VALUES (:trigger, :id, :parked_at, :document)
    ON CONFLICT (trigger_name, id) DO UPDATE SET
        parked_at = excluded.parked_at, document = excluded.document
""")

# Find by the beginning of an id; not with LIKE, for an id is no pattern.
FIND = statement("""
    SELECT document FROM doubtless_parked
    WHERE SUBSTR(id, 1, LENGTH(:beginning)) = :beginning
      AND (CAST(:trigger AS TEXT) IS NULL OR trigger_name = :trigger)
    LIMIT 2
""")

# List the oldest.
LIST = statement("""
    SELECT document FROM doubtless_parked
    WHERE CAST(:trigger AS TEXT) IS NULL OR trigger_name = :trigger
    ORDER BY parked_at, id
    LIMIT :limit
""")

# Take one out.
REMOVE = statement("DELETE FROM doubtless_parked WHERE trigger_name = :trigger AND id = :id RETURNING id")

# Count them.
COUNT = statement("""
    SELECT COUNT(*) FROM doubtless_parked WHERE CAST(:trigger AS TEXT) IS NULL OR trigger_name = :trigger
""")
