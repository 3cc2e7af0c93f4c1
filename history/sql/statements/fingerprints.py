"""Every SQL statement on fingerprints, each a named block with its purpose."""

import json
from collections.abc import Mapping
from typing import Any

from history.sql.statements.dialects import Dialect, statement

# Keep those of the first bodies, for longer when they come again, and return the ones that are kept.
# In the order of the digests, so that two calls never wait for each other.
FIRST = statement(
    """
    INSERT INTO doubtless_fingerprints (trigger_name, digest, fingerprint, expires_at)
    SELECT CAST(:trigger AS TEXT), w.digest, w.fingerprint, {now} + CAST(:time_to_live AS BIGINT)
    FROM {bodies}
    WHERE TRUE
    ORDER BY w.digest
    ON CONFLICT (trigger_name, digest) DO UPDATE
    SET fingerprint = CASE WHEN doubtless_fingerprints.expires_at <= {now}
            THEN excluded.fingerprint ELSE doubtless_fingerprints.fingerprint END,
        expires_at = CASE WHEN doubtless_fingerprints.expires_at <= {now}
                OR (doubtless_fingerprints.fingerprint = excluded.fingerprint
                    AND doubtless_fingerprints.expires_at < excluded.expires_at)
            THEN excluded.expires_at ELSE doubtless_fingerprints.expires_at END
    RETURNING digest, fingerprint
    """,
    words={
        "bodies": {
            Dialect.SQLITE: """(
                SELECT substr(:digests, 16 * key + 1, 16) AS digest,
                       substr(:fingerprints, 8 * key + 1, 8) AS fingerprint
                FROM json_each(:numbers)
            ) AS w""",
            Dialect.POSTGRESQL: """unnest(
                CAST(:digests AS BYTEA[]), CAST(:fingerprints AS BYTEA[])
            ) AS w (digest, fingerprint)""",
        }
    },
)

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


def bodies(dialect: str, fingerprints: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the parameters of ``{bodies}``: fingerprints by the digests of their uuids."""
    if dialect == Dialect.POSTGRESQL:
        return {"digests": list(fingerprints), "fingerprints": list(fingerprints.values())}
    return {
        "digests": b"".join(fingerprints),
        "fingerprints": b"".join(fingerprints.values()),
        "numbers": json.dumps(list(range(len(fingerprints)))),
    }
