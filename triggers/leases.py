"""Renewing leases while services run, from a thread of its own.

A trigger with a ``lease`` presumes a started run alive until its lease is over. The keeper renews each
running lease when a third of it has passed. It is a thread, so a service that computes or blocks the event
loop does not stop it; only code that holds the interpreter's lock for long can, or a stopped process, and
then the keeper says how late it was.
"""

import asyncio
import heapq
import itertools
import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta

from history.bridge import drive
from history.entry import Entry, State
from history.errors import UnavailableError
from history.store import HistoryStore
from triggers.failures import LeaseLostError
from triggers.run import Run

_log = logging.getLogger(__name__)

#: How many times a lease is renewed before it would be over: two renewals may fail.
RENEWALS_PER_LEASE = 3

#: How long :meth:`LeaseKeeper.close` waits for a renewal that hangs, in seconds.
CLOSING_PATIENCE = 5.0


@dataclass(slots=True, eq=False)
class HeldLease:
    """The lease of one run; ``taken_by`` says who has the entry, once it is known that this run has not."""

    uuid: str
    fence: int
    owner: str
    alive_until: float
    taken_by: str | None = None
    lost: threading.Event = field(default_factory=threading.Event)
    ended: bool = False

    def check(self) -> None:
        """Raise when another owner has the entry.

        Raises:
            LeaseLostError: it has.
        """
        if self.lost.is_set():
            raise LeaseLostError(self.uuid, self.owner, self.taken_by or "another owner")


class LeaseKeeper:
    """Renews the leases of one trigger's runs; its thread starts with the first of them and is a daemon.

    ``store`` is a blocking one; for a history that exists over an asyncio driver only, ``loop`` is the event
    loop it belongs to: it is then asked there, and a service that blocks the loop makes renewals late.
    """

    def __init__(
        self,
        trigger: str,
        lease: timedelta,
        store: HistoryStore,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.store = store
        self._trigger = trigger
        self._lease = lease
        self._seconds = lease.total_seconds()
        self._loop = loop
        self._due: list[tuple[float, int, HeldLease]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ending: set[int] = set()

    def hold(self, run: Run) -> HeldLease | None:
        """Renew a lease, which was granted just now, until its ``ended`` is set; None without a claim."""
        if run.message.uuid is None or run.fence is None or run.owner is None:
            return None
        now = time.monotonic()
        held = HeldLease(run.message.uuid, run.fence, run.owner, now + self._seconds)
        with self._changed:
            self._push(held, now)
            if self._thread is None or not self._thread.is_alive():  # a forked child inherits a dead one
                self._thread = threading.Thread(target=self._run, name="doubtless-leases", daemon=True)
                self._thread.start()
            self._changed.notify()
        return held

    def close(self) -> None:
        """Stop the thread; leases that are still held run out."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSING_PATIENCE)

    def _push(self, held: HeldLease, now: float) -> None:
        heapq.heappush(self._due, (now + self._seconds / RENEWALS_PER_LEASE, next(self._order), held))

    def _run(self) -> None:
        while (held := self._next()) is not None:
            self._renew(held)

    def _next(self) -> HeldLease | None:
        """Wait for the next lease that is due; None when the keeper is closed."""
        with self._changed:
            while not self._closed:
                while self._due and self._due[0][2].ended:
                    heapq.heappop(self._due)
                if not self._due:
                    self._changed.wait()
                elif (wait := self._due[0][0] - time.monotonic()) > 0:
                    self._changed.wait(wait)
                else:
                    return heapq.heappop(self._due)[2]
            return None

    def _renew(self, held: HeldLease) -> None:
        """Renew one lease and plan its next renewal; one that is lost is not renewed again."""
        asked = time.monotonic()
        if asked > held.alive_until:
            _log.warning(
                "a lease is renewed %.3f s late: others may have presumed this run dead",
                asked - held.alive_until,
                extra=self._extra(held),
            )
        try:
            taken_by = self._ask(held)
        except UnavailableError as error:
            _log.warning("a lease could not be renewed: %s", error, extra=self._extra(held))
        except Exception:  # noqa: BLE001  (one renewal may fail, the others must go on)
            _log.exception("a lease could not be renewed", extra=self._extra(held))
        else:
            held.alive_until = asked + self._seconds
            if taken_by is not None and not held.ended:
                self._lose(held, taken_by)
                return
        with self._changed:
            self._push(held, time.monotonic())

    def _ask(self, held: HeldLease) -> str | None:
        asking = self._renew_or_look(held)
        if self._loop is None:
            return drive(asking)
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    async def _renew_or_look(self, held: HeldLease) -> str | None:
        """Renew; None, or who has the entry instead. A history that forgot the entry gave it to nobody."""
        if await self.store.renew(self._trigger, held.uuid, held.fence, self._lease):
            return None
        entry = (await self.store.lookup(self._trigger, [held.uuid]))[0]
        if entry is None or entry.fence == held.fence:
            if entry is not None and entry.batch and entry.state is State.STARTED:
                self._tell_of_the_end(held, entry)
            return None
        return entry.owner or f"the owner of fence {entry.fence}"

    def _tell_of_the_end(self, held: HeldLease, entry: Entry) -> None:
        """Say, once for each batch, that it is forgotten before its lease would be over."""
        if entry.fence not in self._ending:
            self._ending.add(entry.fence)
            _log.error(
                "the history forgets the batch %s at %s, and then its messages are NEW: "
                "raise history_time_to_live above the time that a batch may take",
                entry.owner,
                entry.expires_at,
                extra=self._extra(held),
            )

    def _lose(self, held: HeldLease, taken_by: str) -> None:
        held.taken_by = taken_by
        held.lost.set()
        _log.error(
            "the lease of %s is lost: %s has the entry now",
            held.owner,
            taken_by,
            extra=self._extra(held),
        )

    def _extra(self, held: HeldLease) -> dict[str, object]:
        return {"trigger": self._trigger, "uuid": held.uuid, "fence": held.fence}
