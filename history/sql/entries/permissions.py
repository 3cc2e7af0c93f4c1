"""The statements of each use of a history in PostgreSQL, to check the privileges of its role."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from history.sql.database.engine import AnyConnection, Pooled, fetch
from history.sql.database.permissions import Need, needs_of, refusals_of, statements_of
from history.sql.entries.fences import STEP_OVER
from history.sql.entries.lineage import HISTORY
from history.sql.statements import entries, records
from history.sql.statements.dialects import Dialect, Statement, statement
from history.sql.tables.history import READ_META, Prepared
from history.store.inspection import Capability, Refusal

_UPKEEP = (entries.PURGE, entries.PURGE_AHEAD, entries.BATCHES_AHEAD, entries.PURGE_BATCHES)
_LOOKING = (entries.PIECE_END, entries.SCAN, entries.FORGET, entries.STATS, entries.TRIGGERS)
_BATCHES = (
    entries.CLAIM_FOR_BATCH,
    entries.RETIRE_BATCH,
    entries.OPEN_BATCH,
    entries.COMPLETE_BATCH,
    entries.RELEASE_BATCH,
    entries.ADOPT,
    entries.RENEW_WHOLE_BATCH,
)

#: SQLite: a statement that needs no privilege except to write the file.
_NOTHING = statement("SELECT 1")


_OTHERS = [*_UPKEEP, *_LOOKING, *_BATCHES]

_RECORDS = [records.PUT, records.FOLLOW, records.GET, records.PAGE, records.DELETE, records.PURGE]

_STATEMENTS: Mapping[Capability, Sequence[Statement]] = {
    Capability.MESSAGES: [
        *(statement for statement in statements_of(entries) if statement not in _OTHERS),
        *(READ_META, STEP_OVER, HISTORY.read, HISTORY.note, *HISTORY.steps),
    ],
    Capability.PARKING: [
        *_RECORDS,
        *(records.HOLD, records.COUNT, records.DELETE_EACH, records.NAMED, entries.SETTLE),
        *(records.APPEND, records.LATEST),
    ],
    Capability.CONTROL: _RECORDS,
    Capability.UPKEEP: _UPKEEP,
    Capability.JOURNAL: [records.APPEND, records.LATEST, records.ABOUT, records.TRIM],
    Capability.SECURITY: [records.APPEND, records.LATEST, records.CUT],
    Capability.JOINING: [*_RECORDS, records.HOLD, records.DELETE_EACH, entries.SETTLE, entries.FAIL],
    Capability.RESULTS: _RECORDS,
    Capability.FINGERPRINTS: _RECORDS,
    Capability.BATCHES: [*_BATCHES, *_RECORDS, records.FORGET],
    Capability.CHARTS: _RECORDS,
    Capability.DESK: [*_RECORDS, records.APPEND, records.LATEST, records.ABOUT],
    Capability.LOOKING: _LOOKING,
}


async def refusals_in(database: Prepared, capabilities: Collection[Capability]) -> Sequence[Refusal]:
    """Return what the role may not do; see :class:`~history.store.inspection.TellingRefusals`."""
    if database.dialect is Dialect.SQLITE:
        await database.run("looking whether it can be written", _begin, atomic=True)
        return []
    needs: dict[str, frozenset[Need]] = {
        capability: needs_of(_STATEMENTS[capability], "doubtless_")
        for capability in Capability
        if capability in capabilities
    }
    # Without the greeting: it reads a table that may be refused to the role.
    inner = replace(database.inner, greet=None) if isinstance(database.inner, Pooled) else database.inner
    return await inner.run("asking what its role may do", lambda connection: refusals_of(connection, needs))


async def _begin(connection: AnyConnection) -> None:
    await fetch(connection, _NOTHING)
