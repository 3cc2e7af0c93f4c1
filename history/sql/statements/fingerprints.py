"""Every SQL statement on fingerprints, each a named block with its purpose."""

from history.sql.statements.dialects import statement

# Keep that of the first body, for longer when it comes again, and return the one that is kept.
FIRST = statement("""
    INSERT INTO doubtless_fingerprints (trigger_name, digest, fingerprint, expires_at)
    VALUES (:trigger, :digest, :fingerprint, {now} + :time_to_live)
    ON CONFLICT (trigger_name, digest) DO UPDATE
    SET fingerprint = CASE WHEN doubtless_fingerprints.expires_at <= {now}
            THEN excluded.fingerprint ELSE doubtless_fingerprints.fingerprint END,
        expires_at = CASE WHEN doubtless_fingerprints.expires_at <= {now}
                OR (doubtless_fingerprints.fingerprint = excluded.fingerprint
                    AND doubtless_fingerprints.expires_at < excluded.expires_at)
            THEN excluded.expires_at ELSE doubtless_fingerprints.expires_at END
    RETURNING fingerprint
""")

# Whatever body comes next is the first one.
FORGET = statement("""
    DELETE FROM doubtless_fingerprints
    WHERE trigger_name = :trigger AND digest = :digest AND expires_at > {now}
    RETURNING digest
""")

# Some whose time to live is over; two that do this at once do not wait for each other.
PURGE = statement(
    sqlite="""
    DELETE FROM doubtless_fingerprints WHERE (trigger_name, digest) IN (
        SELECT trigger_name, digest FROM doubtless_fingerprints WHERE expires_at <= {now}
        ORDER BY expires_at LIMIT :limit)
    """,
    postgresql="""
    DELETE FROM doubtless_fingerprints WHERE (trigger_name, digest) IN (
        SELECT trigger_name, digest FROM doubtless_fingerprints WHERE expires_at <= {now}
        ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED)
    """,
)
