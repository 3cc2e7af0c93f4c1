"""Renew leases in a separate thread while services run.

A trigger with a ``lease`` presumes a started run alive until its lease ends. The keeper renews each lease
after a third of it has passed, from the claim until the entry is settled. Because it is a thread, a service
that computes or blocks the event loop does not stop it. Only code that holds the interpreter's lock for long
can stop it, or a stopped process; then the keeper logs how late it was.

Most runs end long before that, so holding a lease must cost next to nothing: a run is added to a set and
removed again, without any signal to the thread. The thread looks at the set by its own clock, at the latest
when a third of a lease has passed: a run that was not there at the last look is not due any sooner. One call
renews everything that is due, up to 200 leases, if the history supports that. A lost lease does not affect
the others.
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

from history.beside.kept import beside_of
from history.bridge import drive
from history.entry import Entry, Fence, Renewal, State
from history.errors import UnavailableError
from history.message import Uuid
from history.store import CLAIM_BATCH, HistoryStore, ManyLeases
from history.support.forks import at_fork
from history.support.paging import pieces_of
from triggers.pipeline.bodies import outlast
from triggers.pipeline.run import Run

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Work with the history that the thread does.
Errand = Callable[[HistoryStore], Coroutine[Any, Any, None]]

#: How many times a lease is renewed before it would end: two renewals may fail.
RENEWALS_PER_LEASE = 3

#: How many times within a lease the thread looks at the held runs, at most.
LOOKS_PER_LEASE = 30

#: How long :meth:`LeaseKeeper.close` waits for a renewal that hangs, in seconds.
CLOSING_PATIENCE = 5.0


class LeaseKeeper:
    """Renews the leases of one trigger's runs.

    Its thread is a daemon. It starts with the first run and ends when nothing was held for a while. A forked
    child holds nothing: its parent renews the runs of the parent. ``store`` is a blocking one. If a history
    exists only over an asyncio driver, ``loop`` is its event loop: the calls are made there, and a service
    that blocks the loop makes renewals late.
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
        #: The errands by name, each with the earliest time to run it (monotonic).
        self._errands: dict[str, tuple[float, Errand]] = {}

    def do_soon(self, name: str, errand: "Errand") -> None:
        """Have the thread run an errand with the history, well before a lease that began now ends.

        It runs once under one name, and is repeated while the history is unavailable.
        """
        self._errands.setdefault(name, (time.monotonic() + self._seconds / LOOKS_PER_LEASE, errand))
        if self._thread is None:
            self._start()

    def hold(self, runs: Sequence[Run], asked: float) -> None:
        """Renew the leases of runs until :meth:`let_go`; they were requested at ``asked`` (monotonic)."""
        until = asked + self._seconds
        for run in runs:
            run.alive_until = until
        self._held.update(runs)
        if runs and self._thread is None:
            self._start()

    def let_go(self, runs: Sequence[Run]) -> None:
        """Stop renewing the leases of runs."""
        self._held.difference_update(runs)

    def close(self) -> None:
        """Stop the thread; leases that are still held expire."""
        self._closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSING_PATIENCE)

    async def aclose(self) -> None:
        """Do the same as :meth:`close` without blocking the event loop, which the thread may need."""
        await asyncio.to_thread(self.close)

    def forget(self) -> None:
        """Hold nothing. For a forked child, which has inherited the set but not the thread."""
        closed = self._closed.is_set()
        self._begin_anew()
        if closed:
            self._closed.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None or self._closed.is_set():
                return
            # The thread keeps no object alive: if nobody has this keeper any more, the thread ends.
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
        """Look once; return the seconds until the next look, or None if the thread is to end."""
        pause, busy = self._look()
        if not busy and self._idle and self._retire():
            return None
        self._idle = not busy
        return pause

    def _retire(self) -> bool:
        """End the thread, unless a run was added meanwhile without a signal."""
        with self._starting:
            # In this order: a run that is added after this line starts a thread, or the next thread sees it.
            self._thread = None
            if not self._held and not self._errands:
                return True
            self._thread = threading.current_thread()
            return False

    def _look(self) -> tuple[float, bool]:
        """Renew the due leases; return the seconds until the next look, and whether anything was held."""
        looked = time.monotonic()
        self._run_errands(looked)
        held = list(self._held)
        due = [run for run in held if self._due(run) <= looked and _is_renewed(run)]
        for piece in pieces_of(due, self._most):
            some = [run for run in piece if run in self._held]
            if some and not self._closed.is_set():
                self._tell_of_delay(some)
                self._renew(some)
        # Renewals that failed just now wait for the next due ones, so that an unavailable server gets few
        # calls.
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
            except Exception as error:  # noqa: BLE001  (leases must be renewed in any case)
                if _is_absence(error):
                    self._errands.setdefault(name, (now + self._interval, errand))
                else:
                    _log.warning("%s failed", name, exc_info=error, extra={"trigger": self._trigger})

    def _due(self, run: Run) -> float:
        return run.alive_until - self._seconds + self._interval

    def _renew(self, runs: Sequence[Run]) -> None:
        """Renew some leases in one call; a lost lease is not renewed again."""
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
        """Note until when a lease lasts that was requested at ``asked``, or who has the entry instead."""
        taken_by = None
        if not renewed or run.compared is not None:
            try:
                taken_by = self._ask(self._look_after(run, renewed=renewed))
            except Exception as error:  # noqa: BLE001  (as above)
                self._tell_of_failure([run], error)
                return
        # A run that has ended settles its entry, and finds out itself who owns it.
        if taken_by is None:
            run.alive_until = asked + self._seconds
        elif run in self._held and run.end is None:
            self._lose(run, taken_by)

    def _ask(self, asking: Coroutine[Any, Any, T]) -> T | None:
        """Return the answer of the history; None if the history has ended with its event loop."""
        if self._loop is None:
            return drive(asking)
        if self._loop.is_closed():
            asking.close()
            self._closed.set()  # the history ended with its loop: its connections, and all that ran there
            return None
        asked = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            return asked.result(self._seconds)
        except TimeoutError:
            asked.cancel()
            raise

    async def _renew_in_one_call(self, runs: Sequence[Run]) -> Sequence[bool]:
        """Renew; there is only one run if the history renews one at a time."""
        store, renewals = self.store, [_renewal_of(run) for run in runs]
        if isinstance(store, ManyLeases):
            return await store.renew_many(self._trigger, renewals, self._lease)
        return [
            await store.renew(self._trigger, uuid, fence, self._lease, owner=owner)
            for uuid, fence, owner in renewals
        ]

    async def _look_after(self, run: Run, *, renewed: bool) -> str | None:
        """Return None, or who has the entry instead; if the history forgot it, nobody has it.

        If bodies are compared, the life of the fingerprint is extended with the lease.
        """
        uuid, fence, owner = _renewal_of(run)
        if renewed:
            if (kept := beside_of(self.store)) is not None:
                await outlast(kept.fingerprints, self._trigger, run, self._lease)
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
            is_single = len(late) == 1
            _log.warning(
                "%s renewed %.3f s late: others may have presumed %s dead",
                "a lease is" if is_single else f"{len(late)} leases are",
                max(now - run.alive_until for run in late),
                "this run" if is_single else "these runs",
                extra=self._extra(late[0]),
            )

    def _tell_of_failure(self, runs: Sequence[Run], error: Exception) -> None:
        which = "a lease" if len(runs) == 1 else f"{len(runs)} leases"
        if _is_absence(error):
            _log.warning("%s could not be renewed: %s", which, error, extra=self._extra(runs[0]))
        else:
            _log.error("%s could not be renewed", which, exc_info=error, extra=self._extra(runs[0]))

    def _tell_of_the_end(self, uuid: str, entry: Entry) -> None:
        """Log, once for each batch, that an entry expires before its lease ends."""
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
    """Whether a held run has a lease, and is not known to have lost it."""
    return run.message.uuid is not None and run.fence is not None and run.taken_by is None


def _renewal_of(run: Run) -> Renewal:
    return Renewal(Uuid(run.message.uuid or ""), Fence(run.fence or 0), run.owner)


def _is_absence(error: Exception) -> bool:
    """Whether an error means that the history is unavailable, and not that the request was wrong."""
    return isinstance(error, UnavailableError | TimeoutError)


def _run(weak: "WeakMethod[Callable[[], float | None]]", closed: threading.Event) -> None:
    while (step := weak()) is not None and (pause := step()) is not None:
        del step
        if closed.wait(pause):
            return


def _end(closed: threading.Event, _: object) -> None:
    closed.set()
