"""What a consumer does besides receiving: keep receivers alive, check histories, wake triggers, sweep.

A monitor is user code and may hang, and a sweep may take its time; a receiver that is not kept alive for that
long loses what it holds to other consumers. So each trigger's chores have a thread (or task) of their own.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from history.bridge import settled
from history.errors import ConfigurationError
from triggers.gate import Gate
from triggers.judge import owner_token
from triggers.pipeline import Pipeline
from triggers.upkeep import SWEEP_INTERVAL, sweep
from triggers.worker import Worker

_log = logging.getLogger(__name__)

#: How often the chores are looked at, in seconds.
HOUSEKEEPING_PAUSE = 0.1

#: How often an unreachable history is asked whether it is back.
HISTORY_PROBE = timedelta(seconds=1)

#: How long the entry of a probe stands that nobody came to release.
PROBE_TIME_TO_LIVE = timedelta(minutes=1)

#: Waits for so many seconds, or shorter when there is no more to wait for.
Pause = Callable[[float], Awaitable[None] | None]

#: Calls a monitor where it may take its time.
Ask = Callable[[Callable[[], bool]], Awaitable[bool] | bool]


async def keep_alive(workers: Sequence[Worker], *, over: Callable[[], bool], pause: Pause) -> None:
    """Keep the receivers of all workers alive until ``over``, which is when the last worker has ended."""
    while not over():
        for worker in workers:
            await worker.keep_alive(time.monotonic())
        await settled(pause(HOUSEKEEPING_PAUSE))


@dataclass(slots=True, kw_only=True)
class Chores:
    """What is due from time to time for one trigger of one consumer; instants are monotonic seconds.

    ``checked`` says that somebody else checks the history at the start.
    """

    gate: Gate
    pipeline: Pipeline
    ask: Ask
    checked: bool = False
    _check_due: float = float("-inf")
    _seen_suspended: bool = False
    _probe_due: float = 0.0
    _asked_at: float = float("-inf")
    _sweep_due: float | None = field(default=None)

    async def run(self, *, stopping: Callable[[], bool], pause: Pause) -> None:
        """Do what is due until the consumer stops."""
        while not stopping():
            await self.do(time.monotonic())
            await settled(pause(HOUSEKEEPING_PAUSE))

    async def do(self, now: float) -> None:
        """Do what is due.

        Raises:
            ConfigurationError: the history may silently forget.
        """
        await self._check(now)
        if self.gate.suspended is None:
            await self._sweep(now)
        else:
            await self._wake(now)

    async def _check(self, now: float) -> None:
        """Check the history once, before the first message does; one that is away is asked again."""
        store = self.pipeline.judge.store
        if self.checked or store is None or now < self._check_due:
            return
        try:
            warnings = await store.check()
        except ConfigurationError:
            raise
        except Exception:  # noqa: BLE001  (whatever a store raises: the first message will meet it, too)
            self._check_due = now + HISTORY_PROBE.total_seconds()
            return
        self.checked = True
        for warning in warnings:
            _log.warning("%s", warning, extra=self._extra)

    async def _wake(self, now: float) -> None:
        """Resume the trigger when the history answers and the monitor, if there is one, says so."""
        if not self._seen_suspended:
            self._seen_suspended, self._probe_due = True, self._first_probe(now)
        if now < self._probe_due:
            return
        if not await self._history_answers():
            self._probe_due = now + HISTORY_PROBE.total_seconds()
        elif not await self._monitor_agrees(now):
            self._probe_due = now + self._monitor_interval
        else:
            # Before it resumes: it may be suspended again before anybody looks here.
            self._seen_suspended = False
            self.gate.resume()

    def _first_probe(self, now: float) -> float:
        if self.gate.by_history:
            return now + HISTORY_PROBE.total_seconds()
        if self.gate.trigger.settings.monitor is None:
            # There is nothing that could have changed for the better, but time.
            return now + self._monitor_interval
        # At once, but for a monitor whose "available" has just proved wrong: each resumption costs the
        # messages a delivery, and after max_delivery_count of them they are rejected.
        return max(now, self._asked_at + self._monitor_interval)

    @property
    def _monitor_interval(self) -> float:
        return self.gate.trigger.settings.monitor_interval.total_seconds()

    async def _history_answers(self) -> bool:
        """Tell whether the history takes claims; to read is not enough: a full server can do that, too."""
        store, name = self.pipeline.judge.store, self.gate.trigger.name
        if store is None:
            return True
        token = owner_token()
        uuid = f"doubtless-probe:{token}"
        try:
            claims = await store.claim(name, [uuid], token, time_to_live=PROBE_TIME_TO_LIVE)
            await store.release(name, uuid, claims[0].fence)
        except Exception as error:  # noqa: BLE001  (whatever a store raises: it does not take claims)
            _log.warning("trigger %s stays suspended: %s", name, error, extra=self._extra)
            return False
        return True

    async def _monitor_agrees(self, now: float) -> bool:
        """Ask the monitor; one that fails counts as "not available", as in the reference system."""
        monitor = self.gate.trigger.settings.monitor
        if monitor is None:
            return True
        self._asked_at = now
        try:
            return bool(await settled(self.ask(monitor)))
        except Exception as error:  # noqa: BLE001  (the monitor is user code)
            _log.warning("its monitor failed: %r", error, extra=self._extra)
            return False

    async def _sweep(self, now: float) -> None:
        store = self.pipeline.judge.store
        if store is None:
            return
        if self._sweep_due is not None and now >= self._sweep_due:
            self._sweep_due = None
            await sweep(self.gate.trigger.name, store, self.pipeline.lot.primary)
        if self._sweep_due is None:
            self._sweep_due = now + SWEEP_INTERVAL.total_seconds()

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self.gate.trigger.name}
