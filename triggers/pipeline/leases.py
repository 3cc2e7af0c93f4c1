"""Renewing leases while services run, from a thread of its own.

A trigger with a ``lease`` presumes a started run alive until its lease is over. The keeper renews each lease
when a third of it has passed, from the claim until the entry is settled. It is a thread, so a service that
computes or blocks the event loop does not stop it; only code that holds the interpreter's lock for long can,
or a stopped process, and then the keeper says how late it was.

Most runs end long before that, so holding a lease costs next to nothing: a run is put into a set and taken
out again, and nobody is told. The thread looks at the set by its own clock, at the latest when a third of a
lease has passed: what was not there when it looked last is not due any sooner.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from history.bridge import drive
from history.entry import Entry, State
from history.errors import UnavailableError
from history.store import HistoryStore
from history.store.fingerprints import fingerprints_of
from history.support.forks import at_fork
from triggers.pipeline.bodies import outlast
from triggers.pipeline.run import Run

_log = logging.getLogger(__name__)

#: How many times a lease is renewed before it would be over: two renewals may fail.
RENEWALS_PER_LEASE = 3

#: How many times within a lease the thread looks at what is held, at most.
LOOKS_PER_LEASE = 30

#: How long :meth:`LeaseKeeper.close` waits for a renewal that hangs, in seconds.
CLOSING_PATIENCE = 5.0


class LeaseKeeper:
    """Renews the leases of one trigger's runs.

    Its thread is a daemon, starts with the first run and ends when nothing was held for a while. In a forked
    child nothing is held: what its parent runs, its parent renews. ``store`` is a blocking one; for a history
    that exists over an asyncio driver only, ``loop`` is the event loop it belongs to: it is then asked there,
    and a service that blocks the loop makes renewals late.
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
        self._interval = self._seconds / RENEWALS_PER_LEASE
        self._loop = loop
        self._ending: set[int] = set()
        self._begin_anew()
        at_fork(self, LeaseKeeper.forget)

    def _begin_anew(self) -> None:
        self._held: set[Run] = set()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = threading.Event()

    def hold(self, run: Run, asked: float) -> None:
        """Renew the lease of a run until it is let go; it was asked for at ``asked``, monotonic."""
        run.alive_until = asked + self._seconds
        self._held.add(run)
        if self._thread is None:
            self._start()

    def let_go(self, run: Run) -> None:
        """Renew its lease no longer."""
        self._held.discard(run)

    def close(self) -> None:
        """Stop the thread; leases that are still held run out."""
        self._closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSING_PATIENCE)

    async def aclose(self) -> None:
        """Do as :meth:`close` without holding up the event loop, which the thread may be waiting for."""
        await asyncio.to_thread(self.close)

    def forget(self) -> None:
        """Hold nothing, as a forked child does, which has inherited the set but not the thread."""
        closed = self._closed.is_set()
        self._begin_anew()
        if closed:
            self._closed.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None or self._closed.is_set():
                return
            thread = threading.Thread(target=self._run, name="doubtless-leases", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the interpreter is ending, or there are too many threads
                _log.warning("leases are not renewed: %s", error, extra={"trigger": self._trigger})
            else:
                self._thread = thread

    def _run(self) -> None:
        idle = False
        while True:
            pause, busy = self._look()
            if not busy and idle and self._retire():
                return
            idle = not busy
            if self._closed.wait(pause):
                return

    def _retire(self) -> bool:
        """End the thread, unless something came to be held meanwhile, without a word."""
        with self._starting:
            # In this order: who holds something after this line starts a thread, or is seen by the next one.
            self._thread = None
            if not self._held:
                return True
            self._thread = threading.current_thread()
            return False

    def _look(self) -> tuple[float, bool]:
        """Renew what is due; return the seconds until the next look, and whether anything was held."""
        looked = time.monotonic()
        held = list(self._held)
        for run in held:
            if self._due(run) <= looked and not self._closed.is_set():
                self._renew(run)
        # What failed just now is tried again with what is due next: a server that is away is not pressed.
        ahead = [due for run in list(self._held) if (due := self._due(run)) > looked]
        pause = min(ahead, default=looked + self._interval) - time.monotonic()
        return min(max(pause, self._seconds / LOOKS_PER_LEASE), self._interval), bool(held)

    def _due(self, run: Run) -> float:
        return run.alive_until - self._seconds + self._interval

    def _renew(self, run: Run) -> None:
        """Renew one lease; one that is lost is not renewed again."""
        uuid, fence = run.message.uuid, run.fence
        if uuid is None or fence is None or run.taken_by is not None:
            return
        asked = time.monotonic()
        if asked > run.alive_until:
            _log.warning(
                "a lease is renewed %.3f s late: others may have presumed this run dead",
                asked - run.alive_until,
                extra=self._extra(run),
            )
        try:
            taken_by = self._ask(self._renew_or_look(run, uuid, fence))
        except (UnavailableError, TimeoutError) as error:
            _log.warning("a lease could not be renewed: %s", error, extra=self._extra(run))
        except Exception:  # noqa: BLE001  (one renewal may fail, the others must go on)
            _log.exception("a lease could not be renewed", extra=self._extra(run))
        else:
            # A run that has come to its end settles its entry, and sees for itself whose it is.
            if taken_by is None:
                run.alive_until = asked + self._seconds
            elif run in self._held and run.end is None:
                self._lose(run, taken_by)

    def _ask(self, asking: Coroutine[Any, Any, str | None]) -> str | None:
        if self._loop is None:
            return drive(asking)
        if self._loop.is_closed():
            asking.close()
            self._closed.set()  # with its loop the history's connections have ended, and whatever ran there
            return None
        asked = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            return asked.result(self._seconds)
        except TimeoutError:
            asked.cancel()
            raise

    async def _renew_or_look(self, run: Run, uuid: str, fence: int) -> str | None:
        """Renew; None, or who has the entry instead. A history that forgot the entry gave it to nobody."""
        owner = run.owner
        if await self.store.renew(self._trigger, uuid, fence, self._lease, owner=owner):
            kept = None if run.compared is None else fingerprints_of(self.store)
            if kept is not None:
                await outlast(kept, self._trigger, run, self._lease)
            return None
        entry = (await self.store.lookup(self._trigger, [uuid]))[0]
        if entry is None or (entry.fence == fence and entry.owner in {None, owner}):
            if entry is not None and entry.batch and entry.state is State.STARTED:
                self._tell_of_the_end(uuid, entry)
            return None
        return entry.owner or f"the owner of fence {entry.fence}"

    def _tell_of_the_end(self, uuid: str, entry: Entry) -> None:
        """Say, once for each batch, that it is forgotten before its lease would be over."""
        if entry.fence not in self._ending:
            self._ending.add(entry.fence)
            _log.error(
                "the history forgets the batch %s at %s, and then its messages are NEW: "
                "raise history_time_to_live above the time that a batch may take",
                entry.owner,
                entry.expires_at,
                extra={"trigger": self._trigger, "uuid": uuid, "fence": entry.fence},
            )

    def _lose(self, run: Run, taken_by: str) -> None:
        run.taken_by = taken_by
        _log.error(
            "the lease of %s is lost: %s has the entry now", run.owner, taken_by, extra=self._extra(run)
        )

    def _extra(self, run: Run) -> dict[str, object]:
        return {"trigger": self._trigger, "uuid": run.message.uuid, "fence": run.fence}
