"""The driver's work after a batch: delete expired entries, and close parked copies that are settled.

If no service shares the history, nobody else does it.
"""

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from history.bridge import drive
from history.store import HistoryStore
from history.store.parking import Parking
from history.store.progress import RECORDS_KEPT_FOR
from triggers.pipeline.parking.sweep import LOOKED_AT, SWEEP_INTERVAL, close_settled
from triggers.spark.connections import history_at
from triggers.spark.report import BatchReport
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: How long a purge goes on without finding anything to delete, in seconds.
LOOKING = 0.005

#: A batch deletes at most this many times its own number of rows: any backlog shrinks, without a long pause.
ARREARS = 2


@dataclass(slots=True)
class Purging:
    """Deletes the expired entries of one trigger, some after each batch. ``cursor`` is the next place.

    A failure is logged, and the next batch tries again: no batch fails because of it.
    """

    settings: BatchSettings
    cursor: str | None = None
    _sweep_due: float = field(default=float("-inf"))
    _parked_cursor: str | None = field(default=None)

    def after(self, report: BatchReport) -> None:
        """Do the work that is due after a batch."""
        name = self.settings.name
        try:
            store = history_at(self.settings.history)
            self._purge(store, ARREARS * report.rows)
            if time.monotonic() >= self._sweep_due:
                self._sweep_due = time.monotonic() + SWEEP_INTERVAL.total_seconds()
                self._sweep(store)
        except Exception as error:  # noqa: BLE001  (any error of a store: the batch is completed)
            self.cursor = self._parked_cursor = None
            _log.warning(
                "expired entries could not be deleted, the next batch tries again: %s",
                error,
                extra={"trigger": name},
            )

    def _purge(self, store: HistoryStore, most: int) -> None:
        """Delete some expired entries; each piece takes the server a few milliseconds."""
        enough, deleted = time.monotonic() + LOOKING, 0
        while True:
            some, self.cursor = drive(store.purge_some(self.settings.name, self.cursor))
            deleted += some
            if self.cursor is None or (time.monotonic() > enough and (not some or deleted >= most)):
                return

    def _sweep(self, store: HistoryStore) -> None:
        drive(store.progress.purge_records(self.settings.name, datetime.now(UTC) - RECORDS_KEPT_FOR))
        name, parking, cursor = self.settings.name, self._parking(store), self._parked_cursor
        closed = drive(close_settled(name, store, parking, cursor=cursor, limit=LOOKED_AT))
        self._parked_cursor = closed.cursor

    def _parking(self, store: HistoryStore) -> Parking:
        """Return where this trigger's rows are parked, by ``foreach_batch`` or by the trigger itself."""
        given = self.settings.parking or self.settings.trigger.parking
        if given is None:
            return store.parking
        return history_at(given).parking if isinstance(given, str) else given
