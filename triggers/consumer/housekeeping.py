"""The work of a consumer beside receiving: keep receivers alive, check histories, wake triggers, sweep.

A monitor is user code and may hang, and a sweep may take long. A receiver that is not kept alive meanwhile
loses its messages to other consumers. So each trigger's housekeeping has its own thread (or task), and so has
the waiting for its monitor.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from history.bridge import settled
from history.circuit import CircuitOpenError
from history.errors import ConfigurationError
from history.shell import Shell
from history.store.owners import owner_token
from history.support.rendering import told_of
from history.support.user_code import is_failure
from triggers.consumer.gate import Gate
from triggers.consumer.worker import Worker
from triggers.detection.suspension import Suspension
from triggers.pipeline.parking.sweep import SWEEP_INTERVAL, sweep
from triggers.pipeline.protocol import Pipeline

_log = logging.getLogger(__name__)

#: The thread of a monitor under asyncio, where it must not block the event loop.
MONITOR_THREAD = "doubtless-monitor"

#: How often housekeeping checks whether something is due, in seconds.
HOUSEKEEPING_PAUSE = 0.1

#: How often an unavailable history is probed.
HISTORY_PROBE = timedelta(seconds=1)

#: How often an otherwise unused history is probed, so that an outage is noticed.
HISTORY_LOOK = timedelta(seconds=5)

#: How often the messages in the local parking file are counted.
FILE_LOOK = timedelta(seconds=5)

#: How long the entry of a probe exists if nobody releases it.
PROBE_TIME_TO_LIVE = timedelta(minutes=1)

#: The uuid of a lookup that only tests whether the history answers.
LOOKED_FOR = "doubtless-look"

#: A trigger's monitor function.
Asked = Callable[[], bool]


async def keep_alive(workers: Sequence[Worker], shell: Shell) -> None:
    """Keep the receivers of all workers alive until the shell is over: when the last worker has ended."""
    while not shell.over.is_set():
        for worker in workers:
            await worker.keep_alive(time.monotonic())
        await shell.over.wait(HOUSEKEEPING_PAUSE)


@dataclass(slots=True, eq=False)
class Monitor:
    """One resource monitor of one consumer, and its last answer; safe between threads.

    Several triggers may wait for it. One of them asks, and a yes is valid for all that were suspended when it
    was asked, as in webMethods. Instants are monotonic seconds.
    """

    ask: Asked
    asked_at: float = float("-inf")
    _agreed_at: float = float("-inf")
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def agreed_since(self, instant: float) -> bool:
        """Whether it was asked after this instant, and agreed."""
        return self._agreed_at >= instant

    def begin(self, now: float, interval: float, *, unless_before: float = float("-inf")) -> bool:
        """Whether to ask it now, unless another trigger already does; :meth:`end` must follow.

        It is not asked twice in ``interval`` seconds, unless it was last asked before ``unless_before``.
        """
        if not self._asking.acquire(blocking=False):
            return False
        if now < self.asked_at + interval and self.asked_at >= unless_before:
            self._asking.release()
            return False
        self.asked_at = now
        return True

    def end(self, *, agreed: bool) -> None:
        """Note its answer."""
        if agreed:
            self._agreed_at = self.asked_at
        self._asking.release()


class Monitors:
    """The monitors of one consumer, one for each function that its triggers name."""

    def __init__(self) -> None:
        self._known: list[Monitor] = []

    def of(self, ask: Asked | None) -> Monitor | None:
        """Return the monitor that asks this function; the same for equal functions."""
        if ask is None:
            return None
        for known in self._known:
            if known.ask == ask:
                return known
        self._known.append(Monitor(ask))
        return self._known[-1]


@dataclass(slots=True, kw_only=True)
class Housekeeping:
    """The periodic work for one trigger of one consumer; instants are monotonic seconds.

    ``monitor`` is the trigger's, maybe shared with others of the consumer; by default, its own monitor.
    ``checked`` means that another part checks the history at the start.
    """

    gate: Gate
    pipeline: Pipeline
    shell: Shell
    monitor: Monitor | None = None
    checked: bool = False
    _check_due: float = float("-inf")
    _seen_suspension: int = 0
    _suspended_at: float = 0.0
    _probe_due: float = 0.0
    _monitor_due: float = 0.0
    _look_due: float = 0.0
    _file_due: float = 0.0
    _sweep_due: float | None = field(default=None)
    _sweep_cursor: str | None = field(default=None)

    def __post_init__(self) -> None:
        self.monitor = self.monitor or Monitors().of(self.gate.trigger.settings.monitor)

    async def run(self) -> None:
        """Do the due work until the shell is over, except to wake a trigger with a monitor."""
        while not self.shell.over.is_set():
            await self.do(time.monotonic())
            if self.monitor is None:
                await self.wake(time.monotonic())
            await self.shell.over.wait(HOUSEKEEPING_PAUSE)

    async def wait_for_monitor(self) -> None:
        """Wake the trigger, as its monitor says, until the shell is over."""
        while not self.shell.over.is_set():
            await self.wake(time.monotonic())
            await self.shell.over.wait(HOUSEKEEPING_PAUSE)

    async def do(self, now: float) -> None:
        """Do the due work, except to wake the trigger.

        Raises:
            ConfigurationError: the history may silently forget, or cannot be used with these settings.
        """
        await self._check(now)
        if now >= self._file_due:
            self._file_due = now + FILE_LOOK.total_seconds()
            self.pipeline.lot.look(self.gate.name)
        if not self.gate.wakes:
            await self._look(now)
            await self._sweep(now)

    async def _look(self, now: float) -> None:
        """Test whether the history answers: without messages, nothing else would notice an outage."""
        store = self.pipeline.store
        if store is None or now < self._look_due:
            return
        try:
            with self.gate.history_calls.begun():
                await store.lookup(self.gate.trigger.name, [LOOKED_FOR])
        except Exception as error:  # noqa: BLE001  (any error of a store: it does not answer)
            self.gate.history_away = str(error)
        else:
            self.gate.history_away = None
        pause = HISTORY_LOOK if self.gate.history_away is None else HISTORY_PROBE
        self._look_due = time.monotonic() + pause.total_seconds()

    async def _check(self, now: float) -> None:
        """Check the history once, before the first message needs it; later again if it is unavailable."""
        store = self.pipeline.store
        if self.checked or store is None or now < self._check_due:
            return
        try:
            with self.gate.history_calls.begun():
                warnings = await store.check()
        except ConfigurationError:
            raise
        except Exception:  # noqa: BLE001  (any error of a store: the first message will meet it, too)
            self._check_due = now + HISTORY_PROBE.total_seconds()
            return
        self.checked = True
        for warning in warnings:
            _log.warning("%s", warning, extra=self._extra)

    async def wake(self, now: float) -> None:
        """Resume the trigger if it waits, and the history and, if the table needs it, the monitor agree."""
        if not self.gate.wakes:
            return
        if self._seen_suspension != self.gate.suspensions:
            self._begin_to_wait(now)
        if now < self._probe_due or (now < self._monitor_due and not self._monitor_agreed()):
            return
        try:
            answers = await self._history_answers()
        except CircuitOpenError:
            return  # the circuit already probes it, and has logged this; here each look is free
        if not answers:
            self._probe_due = now + HISTORY_PROBE.total_seconds()
        # A suspension that began while the monitor was asked needs another answer.
        elif await self._monitor_agrees(now) and self._seen_suspension == self.gate.suspensions:
            self.gate.resume()

    def _begin_to_wait(self, now: float) -> None:
        self._seen_suspension, self._suspended_at = self.gate.suspensions, now
        self._probe_due = self._monitor_due = now
        if self.gate.suspension is Suspension.HISTORY:
            self._probe_due = now + HISTORY_PROBE.total_seconds()
        elif self.monitor is not None:
            # Immediately, except after a monitor answered "available" wrongly: each resumption costs the
            # messages a delivery, and after max_delivery_count of them they are rejected.
            self._monitor_due = max(now, self.monitor.asked_at + self._monitor_interval)

    def _monitor_agreed(self) -> bool:
        """Whether the monitor agreed when another trigger asked it."""
        return self.monitor is not None and self.monitor.agreed_since(self._suspended_at)

    @property
    def _monitor_interval(self) -> float:
        return self.gate.trigger.settings.monitor_interval.total_seconds()

    async def _history_answers(self) -> bool:
        """Return whether the history accepts claims. A read is not enough: a full server can still read."""
        store, name = self.pipeline.store, self.gate.trigger.name
        if store is None:
            return True
        token = owner_token()
        uuid = f"doubtless-probe:{token}"
        try:
            claims = await store.claim(name, [uuid], token, time_to_live=PROBE_TIME_TO_LIVE)
            await store.release(name, uuid, claims[0].fence, owner=token)
        except (CircuitOpenError, ConfigurationError):
            raise
        except Exception as error:  # noqa: BLE001  (any error of a store: it does not take claims)
            _log.warning(
                "trigger %s stays suspended: its history takes no claims: %s", name, error, extra=self._extra
            )
            return False
        return True

    async def _monitor_agrees(self, now: float) -> bool:
        """Ask the monitor; a failure counts as "not available", as in webMethods."""
        monitor = self.monitor
        if monitor is None or self._monitor_agreed():
            return True
        agreed = False
        # An unavailable history says nothing about the monitor, which may be asked once more.
        by_history = self.gate.suspension is Suspension.HISTORY
        before = self._suspended_at if by_history else float("-inf")
        if monitor.begin(now, self._monitor_interval, unless_before=before):
            try:
                agreed = _decided(await settled(await self.shell.call(MONITOR_THREAD, monitor.ask)))
            except BaseException as error:
                if not is_failure(error):
                    raise
                _log.warning(
                    "trigger %s stays suspended: its monitor failed: %s",
                    self.gate.trigger.name,
                    told_of(error, self.gate.trigger.settings.redaction),
                    extra=self._extra,
                )
            finally:
                monitor.end(agreed=agreed)
        # Another trigger may ask it for longer than an interval; the history need not be asked all that time.
        wait = HISTORY_PROBE.total_seconds()
        self._monitor_due = max(now + wait, monitor.asked_at + self._monitor_interval)
        return agreed

    async def _sweep(self, now: float) -> None:
        store = self.pipeline.store
        if store is None:
            return
        if self._sweep_due is not None and now >= self._sweep_due:
            self._sweep_due = None
            name, parking = self.gate.trigger.name, self.pipeline.parking
            self._sweep_cursor = await sweep(name, store, parking, self._sweep_cursor)
        if self._sweep_due is None:
            self._sweep_due = now + SWEEP_INTERVAL.total_seconds()

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self.gate.trigger.name}


def _decided(answer: object) -> bool:
    """Return the answer of a monitor.

    Raises:
        TypeError: it is neither True nor False: the text "false" is true, as is a generator.
    """
    if answer is True or answer is False:
        return answer
    raise TypeError(f"it returned a {type(answer).__qualname__}: return True or False")
