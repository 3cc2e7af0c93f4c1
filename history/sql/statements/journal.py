"""Every SQL statement on the journal and the security log, each a named block with its purpose."""

from history.sql.statements.dialects import statement

# Add a line; one that is sent twice stands there once.
APPEND = statement("""
    INSERT INTO doubtless_journal (id, trigger_name, digest, written_at, document)
    VALUES (:id, :trigger, :digest, {now}, :document)
    ON CONFLICT (id) DO NOTHING
""")

# The last lines about a uuid.
READ = statement("""
    SELECT id, written_at, document FROM doubtless_journal
    WHERE trigger_name = :trigger AND digest = :digest
    ORDER BY written_at DESC, id DESC LIMIT :limit
""")

# The last lines of a trigger.
LATEST = statement("""
    SELECT id, written_at, document FROM doubtless_journal
    WHERE trigger_name = :trigger
    ORDER BY written_at DESC, id DESC LIMIT :limit
""")

# Forget the lines before the last so many of a trigger; two that do this at once find less to do.
TRIM = statement("""
    DELETE FROM doubtless_journal WHERE trigger_name = :trigger AND written_at < (
        SELECT written_at FROM doubtless_journal WHERE trigger_name = :trigger
        ORDER BY written_at DESC, id DESC LIMIT 1 OFFSET :kept)
""")

# Records of the security log, the newest first: the lines of the journal that are of no trigger.
SECURITY = statement("""
    SELECT id, written_at, document FROM doubtless_journal
    WHERE trigger_name = '' AND (written_at, id) < (:at, :id)
    ORDER BY written_at DESC, id DESC LIMIT :limit
""")

# Delete records of the security log that are too old.
DELETE_SECURITY = statement("""
    DELETE FROM doubtless_journal WHERE trigger_name = '' AND written_at < {now} - :age
""")
