"""The periodic work for a trigger: delete expired entries, and close parked copies that are settled.

A consumer does it every :data:`SWEEP_INTERVAL`, and so does the driver of a Spark query after its batches.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from history.beside.parking import Parking
from history.entry import EntryOutcome
from history.store import HistoryStore
from history.store.parking import ParkedKind, ParkedLabel

_log = logging.getLogger(__name__)

#: How often expired entries are deleted, as in webMethods.
SWEEP_INTERVAL = timedelta(minutes=10)

#: How many parked messages a sweep looks at; the next sweep continues from there.
LOOKED_AT = 10_000

#: How many parked messages one call looks at.
PAGE = 200


class Closed(NamedTuple):
    """How many copies were closed. ``cursor`` is where the next walk continues, None at the end."""

    copies: int
    cursor: str | None


async def sweep(
    trigger: str, store: HistoryStore, parking: Parking | None, cursor: str | None = None
) -> str | None:
    """Delete a trigger's expired entries and close settled In Doubt copies; what is away waits.

    It looks at about :data:`LOOKED_AT` parked messages, starting at ``cursor``, and returns where the next
    sweep continues.
    """
    try:
        deleted = await store.purge(trigger)
        closed = Closed(0, None)
        if parking is not None:
            closed = await close_settled(trigger, store, parking, cursor=cursor, limit=LOOKED_AT)
    except Exception as error:  # noqa: BLE001  (any error of a store: the consumer can do without a sweep)
        minutes = SWEEP_INTERVAL.total_seconds() / 60
        _log.warning(
            "trigger %s: the sweep failed, and is tried again in %d minutes: %s",
            trigger,
            minutes,
            error,
            extra={"trigger": trigger},
        )
        return None
    if deleted or closed.copies:
        _log.info(
            "swept %d expired entries, closed %d parked copies",
            deleted,
            closed.copies,
            extra={"trigger": trigger},
        )
    return closed.cursor


async def close_settled(
    trigger: str,
    store: HistoryStore,
    parking: Parking,
    *,
    cursor: str | None = None,
    limit: int | None = None,
) -> Closed:
    """Close In Doubt copies if their original has completed meanwhile: they are duplicates.

    Without ``limit`` it looks at all parked messages, else at about ``limit``, starting at ``cursor``. It
    reads only their labels.
    """
    closed = looked_at = 0
    while True:
        page = await parking.labels(trigger=trigger, cursor=cursor, limit=PAGE)
        closed += await _close(trigger, store, parking, page.labels)
        looked_at, cursor = looked_at + PAGE, page.cursor
        if cursor is None or (limit is not None and looked_at >= limit):
            return Closed(closed, cursor)


async def _close(trigger: str, store: HistoryStore, parking: Parking, labels: Sequence[ParkedLabel]) -> int:
    copies = [label for label in labels if label.kind is ParkedKind.IN_DOUBT and label.uuid is not None]
    if not copies:
        return 0
    entries = await store.lookup(trigger, [label.uuid or "" for label in copies])
    closed = 0
    for label, entry in zip(copies, entries, strict=True):
        if entry is not None and entry.outcome is EntryOutcome.OK:
            closed += await parking.remove(label)
            _log.info(
                "a parked copy is closed: its original completed, so it is a duplicate",
                extra={"trigger": trigger, "uuid": label.uuid},
            )
    return closed
