"""Every SQL statement on kept results, each a named block with its purpose."""

from history.sql.statements.dialects import statement

# Keep what a run answered, unless a run with a greater fence has kept something that still lives.
PUT = statement("""
    INSERT INTO doubtless_results (trigger_name, digest, fence, data, expires_at)
    VALUES (:trigger, :digest, :fence, :data, {now} + :time_to_live)
    ON CONFLICT (trigger_name, digest) DO UPDATE
    SET fence = excluded.fence, data = excluded.data, expires_at = excluded.expires_at
    WHERE doubtless_results.fence <= excluded.fence OR doubtless_results.expires_at <= {now}
    RETURNING fence
""")

# What is kept and still lives.
GET = statement("""
    SELECT fence, data FROM doubtless_results
    WHERE trigger_name = :trigger AND digest = :digest AND expires_at > {now}
""")

# Whatever a run answers next is the first answer.
FORGET = statement("""
    DELETE FROM doubtless_results
    WHERE trigger_name = :trigger AND digest = :digest AND expires_at > {now}
    RETURNING digest
""")

# Some whose time to live is over; two that do this at once do not wait for each other.
PURGE = statement(
    sqlite="""
    DELETE FROM doubtless_results WHERE (trigger_name, digest) IN (
        SELECT trigger_name, digest FROM doubtless_results WHERE expires_at <= {now}
        ORDER BY expires_at LIMIT :limit)
    """,
    postgresql="""
    DELETE FROM doubtless_results WHERE (trigger_name, digest) IN (
        SELECT trigger_name, digest FROM doubtless_results WHERE expires_at <= {now}
        ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED)
    """,
)
