"""The statements on ``doubtless_offsets``: one row for each partition that a consumer group reads."""

import json
from collections.abc import Iterable
from typing import Any, Final

from history.sql.statements.dialects import Dialect, Words, statement

#: ``{these}`` are the rows of some partitions of a group's topic; ``{locked}`` stops others from writing
#: them. On SQLite, BEGIN IMMEDIATE does this already.
_WORDS: Final[Words] = {
    "these": {
        Dialect.SQLITE: "group_name = :group AND topic = :topic "
        "AND number IN (SELECT value FROM json_each(:numbers))",
        Dialect.POSTGRESQL: "group_name = CAST(:group AS TEXT) AND topic = CAST(:topic AS TEXT) "
        "AND number = ANY (CAST(:numbers AS INTEGER[]))",
    },
    "locked": {Dialect.SQLITE: "", Dialect.POSTGRESQL: "FOR UPDATE"},
}

READ = statement(
    "SELECT number, next_offset, settled_beyond FROM doubtless_offsets WHERE {these}", words=_WORDS
)

# In the order of their numbers: so two transactions on the same partitions wait, without a deadlock.
LOCK = statement(
    "SELECT number, next_offset, settled_beyond FROM doubtless_offsets WHERE {these} "
    "ORDER BY number {locked}",
    words=_WORDS,
)

# Read them for a claim, and in the same round trip whether any of its messages has an entry.
READ_FOR_CLAIM = statement(
    """SELECT number, next_offset, settled_beyond, EXISTS (
        SELECT 1 FROM {wanted} CROSS JOIN doubtless_history AS h
        WHERE h.trigger_name = CAST(:trigger AS TEXT) AND h.digest = w.key
    ) AS known FROM doubtless_offsets WHERE {these}""",
    words=_WORDS,
)

# Begin a row; an existing row stays.
ADD = statement(
    """INSERT INTO doubtless_offsets (group_name, topic, number, next_offset, settled_beyond, changed_at)
    VALUES (:group, :topic, :number, :next, :beyond, {now}) ON CONFLICT DO NOTHING"""
)

# Write a row that is locked.
SAVE = statement(
    """UPDATE doubtless_offsets SET next_offset = :next, settled_beyond = :beyond, changed_at = {now}
    WHERE group_name = :group AND topic = :topic AND number = :number"""
)

FORGET = statement(
    "DELETE FROM doubtless_offsets WHERE group_name = :group AND topic = :topic RETURNING number"
)


def these(dialect: str, group: str, topic: str, numbers: Iterable[int]) -> dict[str, Any]:
    """Return the parameters of ``{these}``."""
    listed = sorted(numbers)
    form: object = json.dumps(listed) if dialect == Dialect.SQLITE else listed
    return {"group": group, "topic": topic, "numbers": form}
