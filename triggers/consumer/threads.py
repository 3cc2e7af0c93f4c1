"""The blocking consumer: threads that receive, threads that keep house, signals that end it gracefully."""

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import open_history
from history.store import HistoryStore
from triggers.consumer.crew import hire
from triggers.consumer.drain import WATCH_PAUSE, DrainSignals, Watch
from triggers.consumer.gate import Gate
from triggers.consumer.housekeeping import Housekeeping, keep_alive
from triggers.consumer.monitors import Monitors
from triggers.consumer.options import check_options, check_run
from triggers.consumer.orders import Beater, Steerable, first_orders, hire_beaters
from triggers.consumer.worker import Worker
from triggers.declaration.decorator import Trigger
from triggers.pipeline.pipeline import Observer
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider, capabilities_of
from triggers.service.checking import pointing
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)

#: How long monitors, sweeps and the last beat may keep a consumer that has ended otherwise, in seconds.
CHORES_PATIENCE = 5.0

AnyTrigger = Trigger[..., Any]

#: What a thread runs.
Work = Callable[[], Coroutine[Any, Any, None]]


class Consumer(Steerable):
    """Runs triggers in threads of this process until it is stopped.

    Each trigger gets ``concurrency`` workers, each with a receiver named ``<name>-<trigger>-<n>``. SIGTERM or
    SIGINT drains: what runs ends, what was fetched and not begun is given back. A second signal ends the
    process at once; entries it had started are In Doubt, as after any crash.

    Once a second it tells its histories of its triggers, and obeys the orders that they bring.

    Args:
        triggers: whose names must differ.
        provider: a URL or a provider.
        history: for triggers that name none; by default the provider's, if it brings one.
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
        with pointing():
            check_options(triggers, provider, history=history, name=name, observe=observe, parent=parent)
            self.provider = open_provider(provider) if isinstance(provider, str) else provider
            remembering = capabilities_of(self.provider).remembering
            if history is None and remembering is not None:
                history = remembering.history
            check_triggers(triggers, history)
        self.name = name or default_consumer_name()
        self._owns_provider = isinstance(provider, str)
        self.gates = [Gate(trigger) for trigger in triggers]
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._observe = observe
        self._parent = parent
        self._owned_store = open_history(history) if isinstance(history, str) else None
        store = self._owned_store if isinstance(history, str) else history
        self._default_store = store
        self._beaters: list[Beater] = []
        for trigger in triggers:
            if store is not None:
                trigger.use_default_history(store)

    def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        Without ``signals``, a KeyboardInterrupt drains, too, and is raised then.

        Raises:
            ConfigurationError: a history or consumer name cannot be used.
            BaseException: what a service raised to end the process.
        """
        check_run(signals=signals, until_idle=until_idle)
        drain = DrainSignals()
        try:
            chores, workers = self._hire()
            with drain if signals else nullcontext():
                watch = Watch(workers, drain, until_idle=until_idle, parent=self._parent)
                self._work(chores, workers, watch)
        finally:
            self._close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Drain and end :meth:`run`; may be called from any thread, but not from a signal handler."""
        self._stop.set()

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """What became of the messages so far, by trigger."""
        return {gate.trigger.name: Counter(gate.counts) for gate in self.gates}

    def _hire(self) -> tuple[list[Housekeeping], list[Worker]]:
        chores: list[Housekeeping] = []
        workers: list[Worker] = []
        monitors = Monitors()
        for gate in self.gates:
            if gate.trigger.is_async:
                raise ConfigurationError(
                    f"trigger {gate.trigger.name}", "its service is a coroutine function", "use AsyncConsumer"
                )
            pipeline = gate.trigger.pipeline(self._observe)
            checked = pipeline.store in [one.pipeline.store for one in chores]
            monitor = monitors.of(gate.trigger.settings.monitor)
            chores.append(
                Housekeeping(
                    gate=gate, pipeline=pipeline, ask=lambda ask: ask(), monitor=monitor, checked=checked
                )
            )
            workers += hire(
                self.name,
                gate,
                pipeline,
                provider=self.provider,
                stopping=self._stop.is_set,
                pause=self._pause,
                semaphore=threading.Semaphore,
            )
        stores = [(one.gate, one.pipeline.store) for one in chores]
        self._beaters = hire_beaters(self.name, stores, self._default_store)
        return chores, workers

    def _work(self, chores: Sequence[Housekeeping], workers: Sequence[Worker], watch: Watch) -> None:
        """Run all threads until the consumer stops and the last worker has ended."""
        crew: list[threading.Thread] = []
        house: list[threading.Thread] = []
        try:
            for beater in self._beaters:
                beats = partial(beater.run, over=self._ended.is_set, pause=self._pause_to_the_end)
                house.append(self._start(f"{self.name}-beat", beats))
            drive(first_orders(self._beaters, stopping=self._stop.is_set, pause=self._pause))
            crew.extend(self._start(worker.name, worker.run) for worker in workers)
            alive = partial(keep_alive, workers, over=self._ended.is_set, pause=self._pause_to_the_end)
            house.append(self._start(f"{self.name}-keep-alive", alive))
            for one in chores:
                tidy = partial(one.run, stopping=self._stop.is_set, pause=self._pause)
                house.append(self._start(f"{self.name}-chores", tidy))
            while not self._stop.wait(WATCH_PAUSE):
                if watch.is_over():
                    self.stop()
        finally:
            self._stop.set()
            for thread in crew:
                thread.join()
            self._ended.set()
            deadline = time.monotonic() + CHORES_PATIENCE
            for thread in house:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, name: str, work: Work) -> threading.Thread:
        def run() -> None:
            try:
                drive(work())
            except BaseException as failure:  # noqa: BLE001  (raised again by run())
                self._failure = self._failure or failure
                self._stop.set()

        # A daemon, so that a second KeyboardInterrupt ends the process although a service hangs.
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

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

    def _pause_to_the_end(self, seconds: float) -> None:
        self._ended.wait(seconds)


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
        _warn_of_forgetting(trigger.settings)


def _warn_of_forgetting(settings: Settings) -> None:
    """Say at the start that the history will have forgotten a message that may still come again."""
    horizon, remembered = settings.redelivery_horizon, settings.history_time_to_live
    if horizon is not None and horizon > remembered:
        _log.warning(
            "trigger %s: messages may come again for %s, and the history forgets them after %s: "
            "raise history_time_to_live, or say forgotten='in_doubt'",
            settings.name,
            horizon,
            remembered,
            extra={"trigger": settings.name},
        )


def default_consumer_name() -> str:
    """Return a name that no other living consumer has: host, process and random bytes.

    Not the time: copies of one container start at once, and each of them is process 1.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(5).hex()}"
