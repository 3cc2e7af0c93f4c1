"""How a SQL history completes or releases batches: by the one row of each in the ledger."""

from collections.abc import Sequence

from history.entry import EntryOutcome, State
from history.errors import HistoryUnavailableError
from history.sql.database.engine import AnyConnection, fetch
from history.sql.entries.claims import ATTEMPTS
from history.sql.records import apply_changes
from history.sql.statements.entries import COMPLETE_BATCH, LEDGER, RELEASE_BATCH
from history.store import BatchOwner
from history.store.records import Change, is_done


async def settle_batches(
    connection: AnyConnection,
    *,
    trigger: str,
    owners: Sequence[BatchOwner],
    outcome: EntryOutcome | None,
    changes: Sequence[Change],
) -> bool:
    """Complete or release the rows of the ledger, and make changes; return whether all is now as requested.

    Several rows need a transaction: what was looked at first may have changed when it is written.

    Raises:
        HistoryUnavailableError: others got in the way.
    """
    if len(owners) == 1 and not changes:
        return await settle_batch(connection, trigger=trigger, owner=owners[0], outcome=outcome)
    for owner in owners:
        if not await _may_settle(connection, trigger, owner, outcome):
            return False
    if not is_done(changes, await apply_changes(connection, trigger=trigger, changes=changes)):
        return False
    for owner in owners:
        if not await settle_batch(connection, trigger=trigger, owner=owner, outcome=outcome):
            raise HistoryUnavailableError(
                f"settling batches: others kept changing them ({ATTEMPTS} attempts)"
            )
    return True


async def _may_settle(
    connection: AnyConnection, trigger: str, owner: BatchOwner, outcome: EntryOutcome | None
) -> bool:
    standing = await fetch(connection, LEDGER, trigger=trigger, token=owner.token)
    if not standing:
        return outcome is None
    return standing[0].state != State.COMPLETED or bool(standing[0].outcome == outcome)


async def settle_batch(
    connection: AnyConnection, *, trigger: str, owner: BatchOwner, outcome: EntryOutcome | None
) -> bool:
    """Complete or release the one row of the ledger; return whether the batch is now as requested.

    Raises:
        HistoryUnavailableError: others kept getting in the way.
    """
    named = {"trigger": trigger, "token": owner.token}
    for _ in range(ATTEMPTS):
        if outcome is None:
            written = await fetch(connection, RELEASE_BATCH, **named)
        else:
            written = await fetch(connection, COMPLETE_BATCH, **named, outcome=outcome.value)
        if written:
            return True
        standing = await fetch(connection, LEDGER, **named)
        if not standing:
            return outcome is None
        if standing[0].state == State.COMPLETED:
            return bool(standing[0].outcome == outcome)
    raise HistoryUnavailableError(f"settling a batch: others kept changing it ({ATTEMPTS} attempts)")
