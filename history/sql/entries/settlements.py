"""How a SQL history settles and renews: write if the fence is still the same, and only else look it up."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from history.entry import Renewal, Settlement, State, digest
from history.errors import HistoryUnavailableError
from history.sql.database.engine import AnyConnection, AnyRow, fetch
from history.sql.database.riders import Ending
from history.sql.entries.claims import ATTEMPTS, entry_of, look_up
from history.sql.statements.dialects import Dialect, wanted
from history.sql.statements.entries import (
    RENEW,
    RENEW_WHOLE_BATCH,
    SETTLE,
    SETTLE_ALL,
)
from history.store import milliseconds


async def settle_entries(
    connection: AnyConnection,
    *,
    trigger: str,
    wishes: Mapping[bytes, Settlement],
    once: Collection[bytes] = (),
) -> Mapping[bytes, bool]:
    """Complete or release entries by digest; return for each whether it is now as requested.

    For the digests in ``once``, it is not if the entry was settled before.

    Raises:
        HistoryUnavailableError: others kept getting in the way.
    """
    answers: dict[bytes, bool] = {}
    pending = sorted(wishes)
    for _ in range(ATTEMPTS):
        answers |= dict.fromkeys(
            await _write(connection, trigger, [(key, wishes[key]) for key in pending]), True
        )
        pending = [key for key in pending if key not in answers]
        if not pending:
            return answers
        entries = {row.digest: entry_of(row) for row in await look_up(connection, trigger, pending)}
        for key in pending:
            wish, entry = wishes[key], entries.get(key)
            if entry is None:
                answers[key] = wish.outcome is None and key not in once
            elif entry.fence != wish.fence or entry.state is State.COMPLETED:
                same = entry.fence == wish.fence and entry.outcome == wish.outcome
                answers[key] = same and key not in once
            elif wish.owner not in {None, entry.owner}:
                answers[key] = False
        pending = [key for key in pending if key not in answers]
    raise HistoryUnavailableError(f"settling: others kept changing the same entries ({ATTEMPTS} attempts)")


async def _write(
    connection: AnyConnection, trigger: str, wishes: Sequence[tuple[bytes, Settlement]]
) -> Sequence[bytes]:
    """Write the possible settlements; return their digests."""
    values = _values(connection.dialect.name, wishes)
    rows = await fetch(connection, SETTLE, trigger=trigger, **values)
    return [row.digest for row in rows if row.expires_at]


def completion_of(trigger: str, settlements: Sequence[Settlement]) -> Ending | None:
    """Return the completion of entries at the end of their transaction, on PostgreSQL; None for a release."""
    wishes = {
        digest(settlement.uuid): settlement for settlement in settlements if settlement.outcome is not None
    }
    if len(wishes) < len(settlements):
        return None
    return SETTLE_ALL, {"trigger": trigger, **_values(Dialect.POSTGRESQL, sorted(wishes.items()))}


def _values(dialect: str, wishes: Sequence[tuple[bytes, Settlement]]) -> dict[str, object]:
    return wanted(
        dialect,
        [key for key, _ in wishes],
        [wish.fence for _, wish in wishes],
        [wish.outcome for _, wish in wishes],
        [wish.owner for _, wish in wishes],
    )


async def renew_entries(
    connection: AnyConnection, *, trigger: str, renewals: Mapping[bytes, Renewal], lease: timedelta
) -> frozenset[bytes]:
    """Prolong leases of entries, by digest, or of their batches; return the digests with a longer lease."""
    keys = sorted(renewals)
    asked = [renewals[key] for key in keys]
    fences, owners = [renewal.fence for renewal in asked], [renewal.owner for renewal in asked]
    values = wanted(connection.dialect.name, keys, fences, [None] * len(keys), owners)
    rows = await fetch(connection, RENEW, trigger=trigger, lease=milliseconds(lease), **values)
    renewed = {bytes(row.digest) for row in rows if row.expires_at}
    others = {key: renewals[key] for key in keys if key not in renewed}
    if others:
        renewed |= await _renew_held(connection, trigger, others, lease)
    return frozenset(renewed)


async def _renew_held(
    connection: AnyConnection, trigger: str, renewals: Mapping[bytes, Renewal], lease: timedelta
) -> set[bytes]:
    """Prolong the leases of the open batches with these entries; return the digests of the entries."""
    held: dict[str, list[tuple[bytes, int]]] = {}
    for row in await look_up(connection, trigger, list(renewals)):
        entry, renewal = entry_of(row), renewals[row.digest]
        owned = entry.fence == renewal.fence and renewal.owner in {None, entry.owner}
        if entry.batch and entry.state is State.STARTED and entry.owner is not None and owned:
            held.setdefault(entry.owner, []).append((row.digest, entry.fence))
    renewed: set[bytes] = set()
    for token in sorted(held):
        rows = await renew_batch(connection, trigger=trigger, token=token, lease=lease)
        renewed |= {key for key, number in held[token] if any(row.number == number for row in rows)}
    return renewed


async def renew_batch(
    connection: AnyConnection, *, trigger: str, token: str, lease: timedelta
) -> Sequence[AnyRow]:
    """Prolong the lease in the one row of an open batch; return its number, or nothing."""
    return await fetch(connection, RENEW_WHOLE_BATCH, trigger=trigger, token=token, lease=milliseconds(lease))


def turns_of(uuids: Sequence[str]) -> Sequence[dict[bytes, int]]:
    """Part uuids, by their indexes, so that no turn has a digest twice: the second has to wait."""
    rounds: list[dict[bytes, int]] = []
    met: dict[bytes, int] = {}
    for index, uuid in enumerate(uuids):
        key = digest(uuid)
        number = met[key] = met.get(key, -1) + 1
        if number == len(rounds):
            rounds.append({})
        rounds[number][key] = index
    return rounds
