"""Every SQL statement of the document history, each a named block with its purpose.

The words in braces are explained in :mod:`history.sql.statements.dialects`.
"""

from history.sql.statements.dialects import statement

# Read the entries that are alive.
LOOKUP = statement("""
    WITH clock AS (SELECT {now} AS now)
    SELECT {entry}, FALSE AS written
    FROM {held}
    WHERE h.trigger_name = :trigger AND h.digest = w.key AND {alive}
""")

# SQLite, in a transaction: take the next :count fences, return the last of them. If the row is gone, or does
# not hold a fence, they go on after the microseconds since 1970, above all granted ones; see fences.py.
DRAW_FENCES = statement("""
    INSERT INTO doubtless_meta (name, value) VALUES ('fence', {now} * 1000 + :count)
    ON CONFLICT (name) DO UPDATE SET value = CASE
        WHEN typeof(doubtless_meta.value) = 'integer'
            AND doubtless_meta.value BETWEEN 0 AND 4611686018427387904
        THEN doubtless_meta.value + :count ELSE excluded.value END
    RETURNING value
""")

# Write the anchor: a row without a trigger, which nothing deletes. It is missing if the table was emptied.
ANCHOR = statement("""
    INSERT INTO doubtless_history (trigger_name, digest, state, outcome, fence, started_at, expires_at)
    VALUES ('', CAST('' AS {binary}), 'completed', 'ok', 0, 0, 4611686018427387904)
    ON CONFLICT DO NOTHING
    RETURNING fence
""")

# The anchor, if it is there.
READ_ANCHOR = statement("SELECT fence FROM doubtless_history WHERE trigger_name = ''")

# Whether the anchor was ever written; and note that it was.
READ_ANCHORED = statement("SELECT value FROM doubtless_meta WHERE name = 'anchor'")
NOTE_ANCHORED = statement(
    "INSERT INTO doubtless_meta (name, value) VALUES ('anchor', 1) ON CONFLICT DO NOTHING"
)

# SQLite, in a transaction that found these digests absent: write their entries.
WRITE = statement("""
    WITH clock AS (SELECT {now} AS now)
    INSERT INTO doubtless_history
        (trigger_name, digest, state, owner, fence, started_at, lease_until, expires_at)
    SELECT :trigger, w.key, 'started', :owner, w.fence, clock.now,
        clock.now + :lease, clock.now + :time_to_live
    FROM {wanted} CROSS JOIN clock
    WHERE TRUE
    {overwrite}
    RETURNING digest, state, outcome, owner, fence, started_at, lease_until, expires_at,
        FALSE AS batch, started_at AS now, TRUE AS written, {anchored}
""")

# The same for the open batch :number.
WRITE_FOR_BATCH = statement("""
    INSERT INTO doubtless_history (trigger_name, digest, fence, started_at, expires_at, batch)
    SELECT :trigger, w.key, b.number, b.started_at, b.expires_at, b.number
    FROM {wanted} CROSS JOIN doubtless_batches AS b
    WHERE b.number = :number AND b.state = 'started'
    {overwrite}
    RETURNING digest, 'started' AS state, NULL AS outcome, :owner AS owner, fence, started_at,
        :lease_until AS lease_until, expires_at, TRUE AS batch, :now AS now, TRUE AS written, {anchored}
""")

# PostgreSQL: claim in one statement. A row that was dead when the statement began may be overwritten while it
# has the same fence, because a dead fence stays dead. Checking its expiry or its batch again would be wrong:
# a batch that was opened since is invisible here. If a uuid gets no answer, another claim took it meanwhile:
# ask again. Sorted, so that two claims of the same uuids never deadlock.
CLAIM = statement("""
    WITH {standing},
    written AS (
        INSERT INTO doubtless_history AS h
            (trigger_name, digest, state, owner, fence, started_at, lease_until, expires_at)
        SELECT CAST(:trigger AS TEXT), w.key, 'started', CAST(:owner AS TEXT), {fence}, clock.now,
            clock.now + CAST(:lease AS BIGINT), clock.now + CAST(:time_to_live AS BIGINT)
        FROM {wanted} CROSS JOIN clock
        WHERE w.key NOT IN (SELECT s.digest FROM standing AS s WHERE s.alive)
        ORDER BY w.key
        {overwrite}
        WHERE (h.digest, h.fence) IN (SELECT s.digest, s.fence FROM standing AS s WHERE NOT s.alive)
        RETURNING h.*
    )
    SELECT digest, state, outcome, owner, fence, started_at, lease_until, expires_at, FALSE AS batch,
        started_at AS now, TRUE AS written, {anchored}
    FROM written
    UNION ALL
    SELECT digest, state, outcome, owner, fence, started_at, lease_until, expires_at, batch, now, FALSE, TRUE
    FROM standing WHERE alive
""")

# PostgreSQL: the same for the batch :number, while it is open.
CLAIM_FOR_BATCH = statement("""
    WITH {standing},
    written AS (
        INSERT INTO doubtless_history AS h (trigger_name, digest, fence, started_at, expires_at, batch)
        SELECT CAST(:trigger AS TEXT), w.key, b.number, b.started_at, b.expires_at, b.number
        FROM {wanted} CROSS JOIN doubtless_batches AS b
        WHERE b.number = :number AND b.state = 'started'
          AND w.key NOT IN (SELECT s.digest FROM standing AS s WHERE s.alive)
        ORDER BY w.key
        {overwrite}
        WHERE (h.digest, h.fence) IN (SELECT s.digest, s.fence FROM standing AS s WHERE NOT s.alive)
        RETURNING h.*
    )
    SELECT digest, 'started' AS state, NULL AS outcome, CAST(:owner AS TEXT) AS owner, fence, started_at,
        CAST(:lease_until AS BIGINT) AS lease_until, expires_at, TRUE AS batch, CAST(:now AS BIGINT) AS now,
        TRUE AS written, {anchored}
    FROM written
    UNION ALL
    SELECT digest, state, outcome, owner, fence, started_at, lease_until, expires_at, batch, now, FALSE, TRUE
    FROM standing WHERE alive
""")

# The batch of a token, if it is alive.
LEDGER = statement("""
    WITH clock AS (SELECT {now} AS now)
    SELECT b.number, b.state, b.outcome, b.lease_until, clock.now
    FROM doubtless_batches AS b CROSS JOIN clock
    WHERE b.trigger_name = :trigger AND b.token = :token AND NOT b.retired AND b.expires_at > clock.now
""")

# Set aside a batch that is over, so that its token can be opened again under a new number.
RETIRE_BATCH = statement("""
    UPDATE doubtless_batches SET retired = TRUE
    WHERE trigger_name = :trigger AND token = :token AND NOT retired
      AND (state = 'completed' OR expires_at <= {now})
""")

# Open a batch, unless that was done already.
OPEN_BATCH = statement("""
    WITH clock AS (SELECT {now} AS now)
    INSERT INTO doubtless_batches (number, trigger_name, token, state, started_at, lease_until, expires_at)
    SELECT {fence}, CAST(:trigger AS TEXT), CAST(:token AS TEXT), 'started', clock.now,
        clock.now + CAST(:lease AS BIGINT), clock.now + CAST(:time_to_live AS BIGINT)
    FROM clock
    WHERE TRUE
    ON CONFLICT (trigger_name, token) WHERE NOT retired DO NOTHING
""")

# Complete every entry that an open batch still owns.
COMPLETE_BATCH = statement("""
    UPDATE doubtless_batches SET state = 'completed', outcome = :outcome, lease_until = NULL
    WHERE trigger_name = :trigger AND token = :token AND NOT retired
      AND state = 'started' AND expires_at > {now}
    RETURNING number
""")

# Release a batch: an entry without its batch in the ledger is absent.
RELEASE_BATCH = statement("""
    DELETE FROM doubtless_batches
    WHERE trigger_name = :trigger AND token = :token AND NOT retired
      AND state = 'started' AND expires_at > {now}
    RETURNING number
""")

# Replace a STARTED entry that still has the expected fence, or a failed one if :failed.
TAKE_OVER = statement("""
    WITH clock AS (SELECT {now} AS now)
    UPDATE doubtless_history AS h SET
        state = 'started', outcome = NULL, owner = :owner, fence = {fence}, started_at = clock.now,
        lease_until = clock.now + CAST(:lease AS BIGINT),
        expires_at = clock.now + CAST(:time_to_live AS BIGINT), batch = NULL
    FROM clock
    WHERE h.trigger_name = :trigger AND h.digest = :key AND h.fence = :expected_fence
      AND COALESCE({owner} = CAST(:expected_owner AS TEXT), CAST(:expected_owner AS TEXT) IS NULL)
      AND h.expires_at > clock.now
      AND ((h.owner IS NULL OR h.owner <> :owner) AND {started} OR CAST(:failed AS BOOLEAN) AND {failed})
    RETURNING fence
""")

# Move STARTED entries that still have their fence, or are the batch's already, into the open batch :number.
ADOPT = statement("""
    UPDATE doubtless_history AS h SET
        state = NULL, outcome = NULL, owner = NULL, lease_until = NULL,
        fence = o.number, started_at = o.started_at, expires_at = o.expires_at, batch = o.number
    FROM {wanted} CROSS JOIN doubtless_batches AS o
    WHERE h.trigger_name = :trigger AND h.digest = w.key AND h.fence IN (w.fence, o.number)
      AND o.number = :number AND h.expires_at > {now} AND {started}
    RETURNING digest
""")

# Complete or release (outcome NULL) STARTED entries that still have their fence, and owner, if one is given;
# an entry of a batch leaves the batch. An upsert, because it uses the unique index whatever the planner
# estimates, in the order of the digests.
#
# A release makes the row a tombstone, dead since 1970. A digest without a row gets one as well (expires_at 0
# distinguishes it from success). A tombstone has its fence negated: the open batch may claim the uuid again
# under the old fence, and a dead fence must stay dead, see CLAIM.
_SETTLE = """
    INSERT INTO doubtless_history AS h
        (trigger_name, digest, state, outcome, owner, fence, started_at, expires_at)
    SELECT CAST(:trigger AS TEXT), w.key, CASE WHEN w.outcome IS NULL THEN 'released' ELSE 'completed' END,
        w.outcome, w.owner, -w.fence, 0, 0
    FROM {wanted}
    WHERE TRUE
    ORDER BY w.key
    ON CONFLICT (trigger_name, digest) DO UPDATE SET
        state = excluded.state, outcome = excluded.outcome, lease_until = NULL, batch = NULL,
        fence = CASE WHEN excluded.outcome IS NULL THEN -h.fence ELSE h.fence END,
        expires_at = CASE WHEN excluded.outcome IS NULL THEN 1 ELSE h.expires_at END,
        owner = {owner}
    WHERE h.fence = -excluded.fence AND (excluded.owner IS NULL OR excluded.owner = {owner})
      AND h.expires_at > {now} AND {started}
    RETURNING digest, expires_at
"""
SETTLE = statement(_SETTLE)

# Turn an entry that is COMPLETED ok into a failed one.
FAIL = statement("""
    UPDATE doubtless_history SET outcome = 'failed'
    WHERE trigger_name = :trigger AND digest = :digest AND fence = :fence
      AND state = 'completed' AND outcome = 'ok'
""")

# PostgreSQL: the same for completions, at the end of the transaction that has claimed them; fails if one of
# them cannot be written.
SETTLE_ALL = statement(
    sqlite="SELECT 1",
    postgresql="""
    WITH settled AS ({settle})
    SELECT 1 / CAST(COUNT(*) FILTER (WHERE expires_at <> 0) = cardinality(CAST(:keys AS BYTEA[])) AS INTEGER)
    FROM settled
""",
    words={"settle": _SETTLE},
)

# Prolong the leases of STARTED entries that still have their fence, and owner, if one is given. Prolong their
# lives to twice the longest time that they may have run. An upsert that leaves a tombstone for a digest
# without a row, as SETTLE does.
RENEW = statement("""
    WITH clock AS (SELECT {now} AS now)
    INSERT INTO doubtless_history AS h
        (trigger_name, digest, state, owner, fence, started_at, lease_until, expires_at)
    SELECT CAST(:trigger AS TEXT), w.key, 'released', w.owner, -w.fence, 0,
        clock.now + CAST(:lease AS BIGINT), 0
    FROM {wanted} CROSS JOIN clock
    WHERE TRUE
    ORDER BY w.key
    ON CONFLICT (trigger_name, digest) DO UPDATE SET
        lease_until = excluded.lease_until,
        expires_at = CASE WHEN h.expires_at < 2 * excluded.lease_until - h.started_at
            THEN 2 * excluded.lease_until - h.started_at ELSE h.expires_at END
    WHERE h.fence = -excluded.fence AND h.state = 'started' AND h.expires_at > {now}
      AND h.owner = COALESCE(excluded.owner, h.owner)
    RETURNING digest, expires_at
""")

# Prolong the lease of all that an open batch holds, unless that would outlive the batch.
RENEW_WHOLE_BATCH = statement("""
    UPDATE doubtless_batches SET lease_until = {now} + CAST(:lease AS BIGINT)
    WHERE trigger_name = :trigger AND token = :token AND NOT retired
      AND state = 'started' AND expires_at >= {now} + CAST(:lease AS BIGINT)
    RETURNING number
""")

# The end of a piece that begins after a digest. Without it, a scan would also read all expired rows, however
# many, until it found enough that are alive.
PIECE_END = statement("""
    SELECT digest FROM doubtless_history
    WHERE trigger_name = :trigger AND digest > :after AND digest <= :end
    ORDER BY digest LIMIT 1 OFFSET :skip
""")

# Read the entries of a piece, in the order of the digests.
SCAN = statement("""
    WITH clock AS (SELECT {now} AS now)
    SELECT {entry}, FALSE AS written
    FROM doubtless_history AS h CROSS JOIN clock LEFT JOIN doubtless_batches AS b ON b.number = h.batch
    WHERE h.trigger_name = :trigger AND h.digest > :after AND h.digest <= :end AND {alive}
    ORDER BY h.digest
""")

# Delete a trigger's rows among the :limit rows that expired first. In the order of the index on expiry, which
# all triggers share: a search for only one trigger's rows would have no limit. Checked twice, because the row
# may have been claimed again meanwhile.
#
# PostgreSQL goes on after a row, and returns the number of rows that it saw, and the last of them. An index
# keeps its dead entries while an old snapshot is open, so a piece that began at the start would read those of
# all earlier pieces. It deletes by place, because the planner knows nothing about ``seen``. It leaves rows
# that are locked: another purge deletes them, or a claim overwrites them.
PURGE = statement(
    sqlite="""
    DELETE FROM doubtless_history
    WHERE trigger_name = :trigger AND expires_at <= {now} AND digest IN (
        SELECT w.digest FROM (
            SELECT trigger_name, digest FROM doubtless_history
            WHERE expires_at >= :after AND expires_at <= {now} ORDER BY expires_at LIMIT :limit
        ) AS w WHERE w.trigger_name = :trigger)
    RETURNING fence
    """,
    postgresql="""
    WITH seen AS MATERIALIZED (
        SELECT ctid AS place, trigger_name, digest, expires_at FROM doubtless_history
        WHERE (expires_at, digest) > (CAST(:after AS BIGINT), CAST(:key AS BYTEA)) AND expires_at <= {now}
        ORDER BY expires_at, digest LIMIT :limit
    ), gone AS (
        DELETE FROM doubtless_history WHERE ctid = ANY (ARRAY(
            SELECT h.ctid FROM doubtless_history AS h
            WHERE h.ctid = ANY (ARRAY(SELECT place FROM seen WHERE trigger_name = CAST(:trigger AS TEXT)))
                AND h.expires_at <= {now}
            FOR UPDATE OF h SKIP LOCKED))
        RETURNING fence
    )
    SELECT (SELECT COUNT(*) FROM gone WHERE fence > 0) AS deleted, COUNT(*) OVER () AS seen,
        expires_at, digest
    FROM seen ORDER BY expires_at DESC, digest DESC LIMIT 1
    """,
)

# SQLite: the number of these rows, and when the last of them expired.
PURGE_AHEAD = statement(
    sqlite="""
    SELECT COUNT(*), MAX(w.expires_at) FROM (
        SELECT expires_at FROM doubtless_history
        WHERE expires_at >= :after AND expires_at <= {now} ORDER BY expires_at LIMIT :limit
    ) AS w
"""
)

# The next batches after a number: how many, and the last.
BATCHES_AHEAD = statement("""
    SELECT COUNT(*), MAX(w.number) FROM (
        SELECT number FROM doubtless_batches WHERE number > :after ORDER BY number LIMIT :limit
    ) AS w
""")

# Delete batches after their time to live, which is also that of their entries.
PURGE_BATCHES = statement(
    sqlite="""
    DELETE FROM doubtless_batches
    WHERE number > :after AND number <= :last AND trigger_name = :trigger AND expires_at <= {now}
    """,
    postgresql="""
    DELETE FROM doubtless_batches WHERE ctid = ANY (ARRAY(
        SELECT b.ctid FROM doubtless_batches AS b
        WHERE b.number > :after AND b.number <= :last AND b.trigger_name = :trigger AND b.expires_at <= {now}
        FOR UPDATE OF b SKIP LOCKED))
    """,
)

# Delete one entry in any state; an entry that is not alive is absent already, and left to the purge.
FORGET = statement("""
    DELETE FROM doubtless_history AS h
    WHERE h.trigger_name = :trigger AND h.digest = :key AND h.expires_at > {now}
      AND (h.batch IS NULL OR EXISTS (SELECT 1 FROM doubtless_batches AS b WHERE b.number = h.batch))
    RETURNING digest
""")

# Count a piece's contents by state; entries of a released batch and tombstones are absent.
STATS = statement("""
    SELECT COUNT(*) FILTER (WHERE COALESCE(b.state, h.state) = 'started' AND h.expires_at > {now}),
        COUNT(*) FILTER (WHERE COALESCE(b.state, h.state) = 'completed' AND h.fence > 0)
    FROM doubtless_history AS h LEFT JOIN doubtless_batches AS b ON b.number = h.batch
    WHERE h.trigger_name = :trigger AND h.digest > :after AND h.digest <= :end
""")

# Step from each trigger's name to the next in the index, instead of reading all entries.
TRIGGERS = statement("""
    WITH RECURSIVE named (trigger_name) AS (
        SELECT MIN(trigger_name) FROM doubtless_history WHERE trigger_name > ''
        UNION ALL
        SELECT (SELECT MIN(h.trigger_name) FROM doubtless_history AS h
                WHERE h.trigger_name > named.trigger_name)
        FROM named WHERE named.trigger_name IS NOT NULL
    )
    SELECT trigger_name FROM named WHERE trigger_name IS NOT NULL
""")
