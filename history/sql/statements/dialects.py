"""One SQL text for two databases: the words in which SQLite and PostgreSQL differ.

A text of :mod:`history.sql.statements.entries` serves both, except for four words. ``{now}`` is the server's
clock, and ``{fence}`` the next fence. ``{wanted}`` is the digests of a call as a relation ``w (key, fence,
outcome, owner)``. ``{held}`` joins to it the rows ``h`` of these digests and ``b`` of their batches. If that
is not enough, there are two texts. A module with its own statements brings its own words.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from sqlalchemy import Dialect as DriverDialect
from sqlalchemy import text


class Dialect(StrEnum):
    """The dialect of a text; the values are SQLAlchemy's names."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


#: The replacement of a word: a text, or one for each database. It may use other words. ``{}`` is the text
#: after the word in its braces: ``{text m.uuid}``.
Meaning = str | Mapping[Dialect, str]

Words = Mapping[str, Meaning]


class Sql:
    """One text for one database, compiled once for each style in which a driver takes parameters.

    SQLAlchemy's own way compiles it for each engine and looks it up for each call, which takes as long as all
    its other work.
    """

    __slots__ = ("_clause", "_compiled")

    def __init__(self, sql: str) -> None:
        self._clause = text(sql)
        self._compiled: dict[str, tuple[str, Sequence[str] | None]] = {}

    def __str__(self) -> str:
        """Return the text as it was written, with its parameters as ``:name``."""
        return self._clause.text

    def compiled(self, dialect: DriverDialect) -> tuple[str, Sequence[str] | None]:
        """Return the text for a driver, and the names of its parameters if it takes them by position."""
        ready = self._compiled.get(dialect.paramstyle)
        if ready is None:
            made = self._clause.compile(dialect=dialect)
            order = made.positiontup if made.positional else None
            ready = self._compiled[dialect.paramstyle] = (made.string, order)
        return ready


#: A prepared statement, by the name of the dialect.
Statement = Mapping[str, Sql]

#: The words in which the two differ.
#:
#: SQLite gets the digests as one BLOB, and their values as one JSON array, so that the text of a statement
#: does not depend on how many there are. PostgreSQL's clock is in a subquery, so that it is read once.
#:
#: PostgreSQL's ``{held}`` looks up one row per digest, as the first that is not smaller, because the index
#: can serve that. A plain join was planned as a scan if the table was small when it was last analyzed. A
#: prepared plan stays while the table grows: claims became 20 times slower within seconds.
_DIFFERENT: Words = {
    "now": {
        Dialect.SQLITE: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        Dialect.POSTGRESQL: "(SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT))",
    },
    "fence": {
        Dialect.SQLITE: "(SELECT value FROM doubtless_meta WHERE name = 'fence')",
        Dialect.POSTGRESQL: "nextval('doubtless_fences')",
    },
    "binary": {Dialect.SQLITE: "BLOB", Dialect.POSTGRESQL: "BYTEA"},
    "wanted": {
        Dialect.SQLITE: """(
            SELECT substr(:keys, 16 * key + 1, 16) AS key,
                   json_extract(value, '$[0]') AS fence, json_extract(value, '$[1]') AS outcome,
                   json_extract(value, '$[2]') AS owner
            FROM json_each(:wishes)
        ) AS w""",
        Dialect.POSTGRESQL: """unnest(
            CAST(:keys AS BYTEA[]), CAST(:fences AS BIGINT[]), CAST(:outcomes AS TEXT[]),
            CAST(:owners AS TEXT[])
        ) AS w (key, fence, outcome, owner)""",
    },
    "held": {
        Dialect.SQLITE: """{wanted} CROSS JOIN clock CROSS JOIN doubtless_history AS h
        LEFT JOIN doubtless_batches AS b ON b.number = h.batch""",
        Dialect.POSTGRESQL: """{wanted} CROSS JOIN clock CROSS JOIN LATERAL (
            SELECT * FROM doubtless_history AS n
            WHERE (n.trigger_name, n.digest) >= (CAST(:trigger AS TEXT), w.key)
            ORDER BY n.trigger_name, n.digest LIMIT 1
        ) AS h LEFT JOIN LATERAL (
            SELECT * FROM doubtless_batches AS n WHERE n.number >= h.batch ORDER BY n.number LIMIT 1
        ) AS b ON b.number = h.batch""",
    },
}

#: An entry, and the ledger's row if a batch holds its state.
ENTRY = """
    h.digest, COALESCE(b.state, h.state) AS state, COALESCE(b.outcome, h.outcome) AS outcome,
    COALESCE(b.token, h.owner) AS owner, h.fence, h.started_at,
    COALESCE(b.lease_until, h.lease_until) AS lease_until, h.expires_at,
    h.batch IS NOT NULL AS batch, clock.now
"""
#: Whether it is there: an expired entry, or one of a released batch, is absent.
ALIVE = "h.expires_at > clock.now AND (h.batch IS NULL OR b.number IS NOT NULL)"

#: Whether the row ``h`` is STARTED, by itself or by its batch.
STARTED = """(h.state = 'started' OR EXISTS (
    SELECT 1 FROM doubtless_batches AS b WHERE b.number = h.batch AND b.state = 'started'))"""

#: The owner of the row ``h``: its own, or that of its batch.
OWNER = "COALESCE(h.owner, (SELECT b.token FROM doubtless_batches AS b WHERE b.number = h.batch))"

#: Whether the entry ``h`` is failed, by itself or by its batch.
FAILED = """(h.outcome = 'failed' OR EXISTS (
    SELECT 1 FROM doubtless_batches AS b WHERE b.number = h.batch AND b.outcome = 'failed'))"""

#: PostgreSQL: the clock, and the rows that the digests of a call had when the statement began.
STANDING = """clock AS MATERIALIZED (SELECT {now} AS now),
    standing AS MATERIALIZED (
        SELECT {entry}, {alive} AS alive
        FROM {held}
        WHERE h.trigger_name = CAST(:trigger AS TEXT) AND h.digest = w.key
    )"""

#: Whether the anchor is there: it is the first row, so the index serves it, as it serves ``{held}``.
ANCHORED = """(
        SELECT n.trigger_name FROM doubtless_history AS n
        WHERE (n.trigger_name, n.digest) >= ('', CAST('' AS {binary}))
        ORDER BY n.trigger_name, n.digest LIMIT 1
    ) = '' AS anchored"""

#: Overwrite a row that is dead.
OVERWRITE = """ON CONFLICT (trigger_name, digest) DO UPDATE SET
        state = excluded.state, outcome = excluded.outcome, owner = excluded.owner, fence = excluded.fence,
        started_at = excluded.started_at, lease_until = excluded.lease_until,
        expires_at = excluded.expires_at, batch = excluded.batch"""

#: The words that each statement may use.
WORDS: Words = {
    **_DIFFERENT,
    "standing": STANDING,
    "anchored": ANCHORED,
    "overwrite": OVERWRITE,
    "entry": ENTRY,
    "alive": ALIVE,
    "started": STARTED,
    "owner": OWNER,
    "failed": FAILED,
}

_WORD = re.compile(r"\{(\w+)(?: ([\w.]+))?\}")


def statement(
    template: str = "",
    *,
    sqlite: str | None = None,
    postgresql: str | None = None,
    words: Words | None = None,
) -> Statement:
    """Prepare a statement once for each database, from a common text or from one text for each.

    ``words`` are a module's own, in addition to :data:`WORDS` or instead of it. Any other word is a KeyError.
    """
    meanings = WORDS if words is None else {**WORDS, **words}
    texts = {Dialect.SQLITE: sqlite, Dialect.POSTGRESQL: postgresql}
    return {
        dialect: Sql(_filled(template if own is None else own, dialect, meanings))
        for dialect, own in texts.items()
    }


def _filled(template: str, dialect: Dialect, words: Words) -> str:
    """Return a template with its words, and the words in their meanings, replaced."""

    def meant(word: re.Match[str]) -> str:
        meaning = words[word[1]]
        chosen = meaning if isinstance(meaning, str) else meaning[dialect]
        return _filled(chosen.replace("{}", word[2] or ""), dialect, words)

    return _WORD.sub(meant, template)


def wanted(
    dialect: str,
    keys: Sequence[bytes],
    fences: Sequence[int] | None = None,
    outcomes: Sequence[str | None] | None = None,
    owners: Sequence[str | None] | None = None,
) -> dict[str, Any]:
    """Return the parameters of ``{wanted}``; fences and other values that are not given may be anything."""
    if dialect == Dialect.POSTGRESQL:
        optional = {"fences": fences, "outcomes": outcomes, "owners": owners}
        return {"keys": list(keys), **{name: list(column or ()) for name, column in optional.items()}}
    columns = [fences or range(len(keys)), *(column for column in (outcomes, owners) if column is not None)]
    return {"keys": b"".join(keys), "wishes": json.dumps(list(zip(*columns, strict=True)))}


def quoted_name(name: str) -> str:
    """Return a name as SQL. SQLAlchemy's own way doubles percent signs, as a statement does again."""
    return '"' + name.replace('"', '""') + '"'
