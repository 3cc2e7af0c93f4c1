"""Renewing leases while services run, from a thread of its own.

A trigger with a ``lease`` presumes a started run alive until its lease is over. The keeper renews each lease
when a third of it has passed, from the claim until the entry is settled. It is a thread, so a service that
computes or blocks the event loop does not stop it; only code that holds the interpreter's lock for long can,
or a stopped process, and then the keeper says how late it was.

Most runs end long before that, so holding a lease costs next to nothing: a run is put into a set and taken
out again, and nobody is told. The thread looks at the set by its own clock, at the latest when a third of a
lease has passed: what was not there when it looked last is not due any sooner. All that is due is renewed by
one call for 200 leases, where the history can do that. Of one that is lost the others notice nothing.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from weakref import WeakMethod

from history.bridge import drive
from history.entry import Entry, Fence, Renewal, State
from history.errors import UnavailableError
from history.message import Uuid
from history.store import CLAIM_BATCH, HistoryStore, ManyLeases
from history.store.fingerprints import fingerprints_of
from history.support.forks import at_fork
from triggers.pipeline.bodies import outlast
from triggers.pipeline.run import Run

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Done by the thread with the history that leases are renewed in.
Errand = Callable[[HistoryStore], Coroutine[Any, Any, None]]

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
        self._most = CLAIM_BATCH if isinstance(store, ManyLeases) else 1
        self._ending: set[int] = set()
        self._begin_anew()
        at_fork(self, LeaseKeeper.forget)

    def _begin_anew(self) -> None:
        self._held: set[Run] = set()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = threading.Event()
        self._idle = False
        #: What is to be done from when on, monotonic, by its name.
        self._errands: dict[str, tuple[float, Errand]] = {}

    def do_soon(self, name: str, errand: "Errand") -> None:
        """Have the thread do something with the history, well before a lease that began now is over.

        Once, under one name; until it is done where the history is away.
        """
        self._errands.setdefault(name, (time.monotonic() + self._seconds / LOOKS_PER_LEASE, errand))
        if self._thread is None:
            self._start()

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
            # The thread keeps nothing alive: of a keeper that nobody has any more, it ends at once.
            step = WeakMethod(self._step, partial(_end, self._closed))
            thread = threading.Thread(
                target=_run, args=(step, self._closed), name="doubtless-leases", daemon=True
            )
            self._idle = False
            try:
                thread.start()
            except RuntimeError as error:  # the interpreter is ending, or there are too many threads
                _log.warning("leases are not renewed: %s", error, extra={"trigger": self._trigger})
            else:
                self._thread = thread

    def _step(self) -> float | None:
        """Look once; return the seconds until the next look, None when the thread is to end."""
        pause, busy = self._look()
        if not busy and self._idle and self._retire():
            return None
        self._idle = not busy
        return pause

    def _retire(self) -> bool:
        """End the thread, unless something came to be held meanwhile, without a word."""
        with self._starting:
            # In this order: who holds something after this line starts a thread, or is seen by the next one.
            self._thread = None
            if not self._held and not self._errands:
                return True
            self._thread = threading.current_thread()
            return False

    def _look(self) -> tuple[float, bool]:
        """Renew what is due; return the seconds until the next look, and whether anything was held."""
        looked = time.monotonic()
        self._run_errands(looked)
        held = list(self._held)
        due = [run for run in held if self._due(run) <= looked and _is_renewed(run)]
        for start in range(0, len(due), self._most):
            some = [run for run in due[start : start + self._most] if run in self._held]
            if some and not self._closed.is_set():
                self._tell_of_delay(some)
                self._renew(some)
        # What failed just now is tried again with what is due next: a server that is away is not pressed.
        ahead = [at for run in list(self._held) if (at := self._due(run)) > looked]
        errands = [at for at, _ in list(self._errands.values())]
        pause = min(ahead + errands, default=looked + self._interval) - time.monotonic()
        busy = bool(held or errands)
        return min(max(pause, self._seconds / LOOKS_PER_LEASE), self._interval), busy

    def _run_errands(self, now: float) -> None:
        for name, (due, errand) in list(self._errands.items()):
            if due > now or self._closed.is_set():
                continue
            del self._errands[name]
            try:
                self._ask(errand(self.store))
            except Exception as error:  # noqa: BLE001  (the leases are to be renewed, whatever becomes of it)
                if _is_absence(error):
                    self._errands.setdefault(name, (now + self._interval, errand))
                else:
                    _log.warning("%s failed", name, exc_info=error, extra={"trigger": self._trigger})

    def _due(self, run: Run) -> float:
        return run.alive_until - self._seconds + self._interval

    def _renew(self, runs: Sequence[Run]) -> None:
        """Renew some leases in one call; one that is lost is not renewed again."""
        asked = time.monotonic()
        try:
            renewed = self._ask(self._renew_in_one_call(runs))
        except Exception as error:  # noqa: BLE001  (one renewal may fail, the others must go on)
            if len(runs) == 1 or _is_absence(error):
                self._tell_of_failure(runs, error)
                return
            for run in runs:
                self._renew([run])
            return
        for run, done in zip(runs, renewed or (), strict=False):
            self._note(run, asked, renewed=done)

    def _note(self, run: Run, asked: float, *, renewed: bool) -> None:
        """Note until when a lease lasts that was asked for then, or who has the entry instead."""
        taken_by = None
        if not renewed or run.compared is not None:
            try:
                taken_by = self._ask(self._look_after(run, renewed=renewed))
            except Exception as error:  # noqa: BLE001  (as above)
                self._tell_of_failure([run], error)
                return
        # A run that has come to its end settles its entry, and sees for itself whose it is.
        if taken_by is None:
            run.alive_until = asked + self._seconds
        elif run in self._held and run.end is None:
            self._lose(run, taken_by)

    def _ask(self, asking: Coroutine[Any, Any, T]) -> T | None:
        """Return what the history says; None where it has ended with its event loop."""
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

    async def _renew_in_one_call(self, runs: Sequence[Run]) -> Sequence[bool]:
        """Renew; there is one run where the history renews one at a time."""
        store, renewals = self.store, [_renewal_of(run) for run in runs]
        if isinstance(store, ManyLeases):
            return await store.renew_many(self._trigger, renewals, self._lease)
        return [
            await store.renew(self._trigger, uuid, fence, self._lease, owner=owner)
            for uuid, fence, owner in renewals
        ]

    async def _look_after(self, run: Run, *, renewed: bool) -> str | None:
        """Return None, or who has the entry instead; a history that forgot it gave it to nobody.

        Where bodies are compared, what is kept of the body is prolonged with the lease.
        """
        uuid, fence, owner = _renewal_of(run)
        if renewed:
            if (kept := fingerprints_of(self.store)) is not None:
                await outlast(kept, self._trigger, run, self._lease)
            return None
        entry = (await self.store.lookup(self._trigger, [uuid]))[0]
        if entry is None or (entry.is_of(fence) and entry.owner in {None, owner}):
            if entry is not None and entry.batch and entry.state is State.STARTED:
                self._tell_of_the_end(uuid, entry)
            return None
        return entry.owner or f"the owner of fence {entry.fence}"

    def _tell_of_delay(self, runs: Sequence[Run]) -> None:
        now = time.monotonic()
        if late := [run for run in runs if now > run.alive_until]:
            one = len(late) == 1
            _log.warning(
                "%s renewed %.3f s late: others may have presumed %s dead",
                "a lease is" if one else f"{len(late)} leases are",
                max(now - run.alive_until for run in late),
                "this run" if one else "these runs",
                extra=self._extra(late[0]),
            )

    def _tell_of_failure(self, runs: Sequence[Run], error: Exception) -> None:
        which = "a lease" if len(runs) == 1 else f"{len(runs)} leases"
        if _is_absence(error):
            _log.warning("%s could not be renewed: %s", which, error, extra=self._extra(runs[0]))
        else:
            _log.error("%s could not be renewed", which, exc_info=error, extra=self._extra(runs[0]))

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


def _is_renewed(run: Run) -> bool:
    """Whether a run that is held has a lease, and is not known to have lost it."""
    return run.message.uuid is not None and run.fence is not None and run.taken_by is None


def _renewal_of(run: Run) -> Renewal:
    return Renewal(Uuid(run.message.uuid or ""), Fence(run.fence or 0), run.owner)


def _is_absence(error: Exception) -> bool:
    """Whether an error says that the history is away, rather than what is wrong with what it was asked."""
    return isinstance(error, UnavailableError | TimeoutError)


def _run(weak: "WeakMethod[Callable[[], float | None]]", closed: threading.Event) -> None:
    while (step := weak()) is not None and (pause := step()) is not None:
        del step
        if closed.wait(pause):
            return


def _end(closed: threading.Event, _: object) -> None:
    closed.set()
