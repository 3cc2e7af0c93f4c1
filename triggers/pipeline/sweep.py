"""What is done now and then for a trigger: delete expired entries, close parked copies that are settled.

A consumer does it every :data:`SWEEP_INTERVAL`, and so does the driver of a Spark query after its batches.
"""

import logging
from datetime import timedelta

from history.entry import EntryOutcome
from history.store import HistoryStore
from history.store.parking import ParkedKind, Parking

_log = logging.getLogger(__name__)

#: How often expired entries are deleted, as in the reference system.
SWEEP_INTERVAL = timedelta(minutes=10)


async def sweep(trigger: str, store: HistoryStore, parking: Parking | None = None) -> None:
    """Delete a trigger's expired entries and close its settled In Doubt copies; what is away waits."""
    try:
        deleted = await store.purge(trigger)
        closed = await close_settled(trigger, store, parking or store.parking)
    except Exception as error:  # noqa: BLE001  (whatever a store raises: the consumer can do without a sweep)
        minutes = SWEEP_INTERVAL.total_seconds() / 60
        _log.warning(
            "trigger %s: the sweep failed, and is tried again in %d minutes: %s",
            trigger,
            minutes,
            error,
            extra={"trigger": trigger},
        )
        return
    if deleted or closed:
        _log.info(
            "swept %d expired entries, closed %d parked copies", deleted, closed, extra={"trigger": trigger}
        )


async def close_settled(trigger: str, store: HistoryStore, parking: Parking) -> int:
    """Close In Doubt copies whose original has completed meanwhile: they are duplicates. Return how many."""
    copies = [
        parked
        for parked in await parking.list(trigger=trigger)
        if parked.kind is ParkedKind.IN_DOUBT and parked.uuid is not None
    ]
    entries = await store.lookup(trigger, [parked.uuid or "" for parked in copies])
    closed = 0
    for parked, entry in zip(copies, entries, strict=True):
        if entry is not None and entry.outcome is EntryOutcome.OK:
            closed += await parking.remove(parked)
            _log.info(
                "a parked copy is closed: its original completed, so it is a duplicate",
                extra={"trigger": trigger, "uuid": parked.uuid},
            )
    return closed
