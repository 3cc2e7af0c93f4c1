"""The blocking consumer: threads that receive, one that keeps house, and signals that end it gracefully."""

import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import open_history
from history.store import HistoryStore
from triggers.gate import Gate
from triggers.pipeline import Observer
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider
from triggers.trigger import Trigger
from triggers.upkeep import SWEEP_INTERVAL, sweep
from triggers.worker import Worker

_log = logging.getLogger(__name__)

#: How often the housekeeper looks around, in seconds.
HOUSEKEEPING_PAUSE = 0.1

AnyTrigger = Trigger[..., Any]


class Consumer:
    """Runs triggers in threads of this process until it is stopped.

    Each trigger gets ``concurrency`` workers, each with a receiver named ``<name>-<trigger>-<n>``. SIGTERM or
    SIGINT drains: what runs ends, what was fetched and not begun is given back. A second signal ends the
    process at once; entries it had started are In Doubt, as after any crash.

    Args:
        triggers: whose names must differ.
        provider: a URL or a provider.
        history: for triggers that name none.
        name: of this consumer, unique among the living; made of host and process by default.
        observe: told of each step of each message; the crash tests use it.
        parent: the id of a process without which this one drains and ends.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """

    def __init__(
        self,
        triggers: Sequence[AnyTrigger],
        provider: str | Provider,
        *,
        history: str | HistoryStore | None = None,
        name: str | None = None,
        observe: Observer | None = None,
        parent: int | None = None,
    ) -> None:
        check_triggers(triggers, history)
        self.name = name or default_consumer_name()
        self.provider = open_provider(provider) if isinstance(provider, str) else provider
        self._owns_provider = isinstance(provider, str)
        self.gates = [Gate(trigger) for trigger in triggers]
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._observe = observe
        self._parent = parent
        self._owned_store = open_history(history) if isinstance(history, str) else None
        store = self._owned_store if isinstance(history, str) else history
        for trigger in triggers:
            if store is not None:
                trigger.use_default_history(store)

    def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        Raises:
            ConfigurationError: a history or consumer name cannot be used.
            BaseException: what a service raised to end the process.
        """
        workers = [worker for gate in self.gates for worker in self._workers(gate)]
        threads = [self._thread(worker.name, self._guard(worker)) for worker in workers]
        restore = _on_signals(self._on_signal) if signals else []
        try:
            for thread in threads:
                thread.start()
            self._keep_house(workers, threads, until_idle)
            for thread in threads:
                thread.join()
        finally:
            for number, handler in restore:
                signal.signal(number, handler)
            self._close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Drain and end :meth:`run`; may be called from anywhere."""
        self._stop.set()

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """What became of the messages so far, by trigger."""
        return {gate.trigger.name: Counter(gate.counts) for gate in self.gates}

    def _workers(self, gate: Gate) -> list[Worker]:
        if gate.trigger.is_async:
            raise ConfigurationError(
                f"trigger {gate.trigger.name}", "its service is a coroutine function", "use AsyncConsumer"
            )
        pipeline = gate.trigger.pipeline(self._observe)
        return [
            Worker(
                name=f"{self.name}-{gate.trigger.name}-{number}",
                gate=gate,
                pipeline=pipeline,
                provider=self.provider,
                stopping=self._stop.is_set,
                pause=self._pause,
            )
            for number in range(gate.trigger.settings.concurrency)
        ]

    def _close(self) -> None:
        """Give back what this consumer opened itself."""
        for gate in self.gates:
            gate.trigger.close()
        if self._owned_store is not None:
            drive(self._owned_store.close())
        if self._owns_provider:
            drive(self.provider.close())

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _thread(self, name: str, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target, name=name, daemon=True)

    def _guard(self, worker: Worker) -> Callable[[], None]:
        def run() -> None:
            try:
                drive(worker.run())
            except BaseException as failure:  # noqa: BLE001  (raised again by run())
                self._failure = self._failure or failure
                self._stop.set()

        return run

    def _keep_house(
        self, workers: Sequence[Worker], threads: Sequence[threading.Thread], until_idle: float | None
    ) -> None:
        """Renew receivers, probe suspended triggers and sweep, until the consumer stops."""
        house = [Chores(gate, [worker for worker in workers if worker.gate is gate]) for gate in self.gates]
        quiet_since = time.monotonic()
        while not self._stop.wait(HOUSEKEEPING_PAUSE):
            for chores in house:
                drive(chores.do(time.monotonic()))
            if not all(worker.idle_rounds for worker in workers):
                quiet_since = time.monotonic()
            orphaned = self._parent is not None and os.getppid() != self._parent
            if orphaned or (until_idle is not None and time.monotonic() - quiet_since > until_idle):
                self.stop()
        while any(thread.is_alive() for thread in threads):
            for chores in house:
                drive(chores.keep_alive(time.monotonic()))
            for thread in threads:
                thread.join(HOUSEKEEPING_PAUSE)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._stop.is_set():
            os._exit(128 + number)
        _log.warning("%s: draining; once more to end at once", signal.Signals(number).name)
        self._stop.set()


class Chores:
    """What is due from time to time for one trigger of one consumer; instants are monotonic seconds."""

    def __init__(self, gate: Gate, workers: Sequence[Worker]) -> None:
        self._gate = gate
        self._workers = workers
        self._alive_due = 0.0
        self._sweep_due = 0.0
        self._probe_due: float | None = None

    async def do(self, now: float) -> None:
        """Do what is due."""
        await self.keep_alive(now)
        await self._probe(now)
        await self._sweep(now)

    async def keep_alive(self, now: float) -> None:
        """Renew the receivers, if it is time."""
        if now < self._alive_due:
            return
        intervals = [w.receiver.keep_alive_interval.total_seconds() for w in self._workers if w.receiver]
        self._alive_due = now + min(intervals, default=HOUSEKEEPING_PAUSE)
        for worker in self._workers:
            await worker.keep_alive()

    async def _probe(self, now: float) -> None:
        gate = self._gate
        if gate.suspended is None:
            self._probe_due = None
            return
        if self._probe_due is None:
            # A monitor is asked at once; without one there is nothing new to learn yet.
            asks = gate.trigger.settings.monitor is not None
            self._probe_due = now if asks else now + gate.probe_interval.total_seconds()
        if now >= self._probe_due:
            self._probe_due = now + gate.probe_interval.total_seconds()
            await gate.probe(self._workers[0].pipeline.judge.store)

    async def _sweep(self, now: float) -> None:
        store = self._workers[0].pipeline.judge.store
        if store is None or now < self._sweep_due or self._gate.suspended is not None:
            return
        first = self._sweep_due == 0.0
        self._sweep_due = now + SWEEP_INTERVAL.total_seconds()
        if not first:
            await sweep(self._gate.trigger.name, store)


def check_triggers(triggers: Sequence[AnyTrigger], history: object) -> None:
    """Refuse what cannot run in one consumer: no trigger, a name used twice, a history that nobody names."""
    if not triggers:
        raise ConfigurationError("triggers", "there is none to run", "decorate a function with @trigger")
    for name, times in Counter(trigger.name for trigger in triggers).items():
        if times > 1:
            raise ConfigurationError(
                f"trigger {name}", f"{times} triggers have this name", "give each a name= of its own"
            )
    for trigger in triggers:
        if history is None and trigger.needs_history:
            trigger.open_store()  # raises, and says what to do


def default_consumer_name() -> str:
    """Return a name that no other living consumer has: host, process and start time."""
    return f"{socket.gethostname()}-{os.getpid()}-{time.time_ns() // 1_000_000 % 100_000_000:x}"


def _on_signals(handler: Callable[[int, FrameType | None], None]) -> list[tuple[int, Any]]:
    return [(number, signal.signal(number, handler)) for number in (signal.SIGTERM, signal.SIGINT)]
