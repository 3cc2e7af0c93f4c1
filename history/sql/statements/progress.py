"""Every SQL statement on the records of batches, each a named block with its purpose."""

from history.sql.statements.dialects import statement

# The record of one batch.
READ = statement("""
    SELECT document FROM doubtless_progress
    WHERE trigger_name = :trigger AND query = :query AND batch = :batch
""")

# The first record of a batch, unless there is one.
INSERT = statement("""
    INSERT INTO doubtless_progress (trigger_name, query, batch, revision, changed_at, document)
    VALUES (:trigger, :query, :batch, :revision, :changed_at, :document)
    ON CONFLICT DO NOTHING
    RETURNING revision
""")

# The record that follows the one that is held.
UPDATE = statement("""
    UPDATE doubtless_progress SET revision = :revision, changed_at = :changed_at, document = :document
    WHERE trigger_name = :trigger AND query = :query AND batch = :batch AND revision = :revision - 1
    RETURNING revision
""")

# Forget what a query did long ago, and what was left behind by checkpoints that were reset.
FORGET = statement("""
    DELETE FROM doubtless_progress
    WHERE trigger_name = :trigger AND query = :query AND (batch <= :batch OR batch > :far)
""")

# The records of a query, the greatest batch first.
BATCHES = statement("""
    SELECT query, batch, document FROM doubtless_progress
    WHERE trigger_name = :trigger AND query = :query ORDER BY batch DESC LIMIT :limit
""")

# The record of each query that changed last, found in one pass: this is asked before every batch.
LATEST = statement("""
    WITH ranked AS (
        SELECT query, batch, ROW_NUMBER() OVER (
            PARTITION BY query ORDER BY changed_at DESC, batch DESC) AS rank
        FROM doubtless_progress WHERE trigger_name = :trigger
    )
    SELECT p.query, p.batch, p.document FROM ranked JOIN doubtless_progress AS p
        ON p.trigger_name = :trigger AND p.query = ranked.query AND p.batch = ranked.batch
    WHERE ranked.rank = 1
    ORDER BY p.query
""")

# Forget some records that have not changed since.
PURGE = statement("""
    DELETE FROM doubtless_progress WHERE trigger_name = :trigger AND (query, batch) IN (
        SELECT query, batch FROM doubtless_progress
        WHERE trigger_name = :trigger AND changed_at < :before LIMIT :limit)
    RETURNING batch
""")
