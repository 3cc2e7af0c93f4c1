"""The lease of a micro-batch: while the driver lives, other processes wait for its rows.

The executors claim with the lease, and the driver renews it for the whole batch, a third of a lease after the
last time. So a shorter batch costs nothing more. If the driver dies, the lease ends by itself; the next run
of the same batch does not wait for that, see :mod:`triggers.spark.batch.owners`.
"""

import logging
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Self

from history.bridge import drive
from history.errors import UnavailableError
from history.store import BatchLeases, BatchOwner
from triggers.pipeline.leases import RENEWALS_PER_LEASE
from triggers.spark.batch.owners import BatchRun
from triggers.spark.connections import history_at
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: How long the end of a batch waits for a renewal that hangs, in seconds.
CLOSING_PATIENCE = 5.0


def with_possible_lease(settings: BatchSettings) -> BatchSettings:
    """Return the settings; without a lease if the history cannot renew the lease of a batch."""
    if settings.trigger.lease is None or isinstance(history_at(settings.history), BatchLeases):
        return settings
    return replace(settings, trigger=replace(settings.trigger, lease=None))


@dataclass(slots=True)
class BatchLease:
    """Renews the lease of one run of a batch, in a separate thread, until it is left."""

    settings: BatchSettings
    run: BatchRun
    _owners: list[BatchOwner] = field(default_factory=list[BatchOwner])
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _entered_at: float = 0.0
    _warned: bool = False

    def __enter__(self) -> Self:
        """Begin to renew, if there is a lease."""
        lease = self.settings.trigger.lease
        if lease is not None:
            self._entered_at = time.monotonic()
            self.renew_also(self.run.owner)
            interval = lease.total_seconds() / RENEWALS_PER_LEASE
            self._thread = threading.Thread(
                target=self._renew_every, args=(interval,), name="doubtless-batch-lease", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop renewing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(CLOSING_PATIENCE)

    def renew_also(self, *owners: BatchOwner) -> None:
        """Renew the entries of these owners of the run from now on."""
        self._owners += [owner for owner in owners if owner not in self._owners]

    def _renew_every(self, interval: float) -> None:
        while not self._ended.wait(interval):
            for owner in list(self._owners):
                self._renew(owner)

    def _renew(self, owner: BatchOwner) -> None:
        lease, store = self.settings.trigger.lease, history_at(self.settings.history)
        assert lease is not None  # noqa: S101  (the thread exists only with it)
        assert isinstance(store, BatchLeases)  # noqa: S101  (as above)
        try:
            renewed = drive(store.renew_batch(self.settings.name, owner, lease))
        except UnavailableError as error:
            _log.warning(
                "the lease of batch %s could not be renewed: %s", owner.token, error, extra=self._extra
            )
        except Exception:  # noqa: BLE001  (one renewal may fail, the next ones must go on)
            _log.exception("the lease of batch %s could not be renewed", owner.token, extra=self._extra)
        else:
            if not renewed:
                self._warn_of_the_end()

    def _warn_of_the_end(self) -> None:
        """Log, once, that the history forgets the batch before its lease would end.

        Then it refuses a lease. It also refuses before the first row is claimed, when there is nothing to
        renew.
        """
        lease, remembered = self.settings.trigger.lease, self.settings.trigger.history_time_to_live
        seconds = time.monotonic() - self._entered_at
        if self._warned or lease is None or seconds + lease.total_seconds() < remembered.total_seconds():
            return
        self._warned = True
        _log.error(
            "batch %s runs for %.0f s, and %s after its first claim the history forgets its rows, which are "
            "NEW then: raise history_time_to_live above the time that a batch may take",
            self.run.owner.token,
            seconds,
            remembered,
            extra=self._extra,
        )

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self.settings.name, "query": self.run.lineage, "batch": self.run.batch}
