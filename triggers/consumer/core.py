"""Consumers: one whose callers block, one for an event loop, and their common part.

A consumer has two shells. The workers' shell is over when the consumer is to drain. The shell of the work
beside them is over when the last worker has ended.
"""

from asyncio import CancelledError
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import open_history
from history.shell import Shell, TaskShell, ThreadShell
from history.store import HistoryStore
from history.support.paging import pieces_of
from triggers.consumer.crew import count_receivers, make_workers
from triggers.consumer.drain import WATCH_PAUSE, DrainSignals, Watch
from triggers.consumer.gate import Gate
from triggers.consumer.housekeeping import Housekeeping, Monitors, keep_alive
from triggers.consumer.loaded import keep_what_is_loaded
from triggers.consumer.options import (
    AnyTrigger,
    check_options,
    check_run,
    check_triggers,
    default_consumer_name,
)
from triggers.consumer.orders import Controllable, Heartbeat, first_orders, heartbeats_for
from triggers.consumer.worker import SUSPENDED_PAUSE, Worker
from triggers.metrics.answering import endpoint_of
from triggers.metrics.watched import Watched
from triggers.pipeline.duplicates import forwarding_to
from triggers.pipeline.pipeline import Observer
from triggers.pipeline.protocol import Pipeline
from triggers.providers.opening import open_provider
from triggers.providers.provider import Interruptible, Provider, ProviderUnavailableError, capabilities_of
from triggers.service.checking import pointing

if TYPE_CHECKING:
    from triggers.metrics.endpoint import Endpoint


#: How long monitors, sweeps and the last heartbeat may delay the end of a consumer, in seconds.
HOUSEKEEPING_PATIENCE = 5.0

#: How often deliveries that take long are looked for, in seconds.
LONG_CALLS_PAUSE = 1.0

#: How many receivers are kept alive one after the other: even with a slow provider, a round must end long
#: before the first receiver is due again.
KEPT_TOGETHER = 50


class ConsumerCore(Controllable):
    """One consumer; ``Consumer`` drives it, ``AsyncConsumer`` awaits it."""

    _make_shell: ClassVar[type[ThreadShell | TaskShell]]

    def __init__(
        self,
        triggers: Sequence[AnyTrigger],
        provider: str | Provider,
        *,
        history: str | HistoryStore | None = None,
        name: str | None = None,
        observe: Observer | None = None,
        parent: int | None = None,
        metrics: str | None = None,
    ) -> None:
        with pointing():
            check_options(
                triggers,
                provider,
                history=history,
                name=name,
                observe=observe,
                parent=parent,
                metrics=metrics,
            )
            opened = open_provider(provider) if isinstance(provider, str) else provider
            remembering = capabilities_of(opened).remembering
            if history is None and remembering is not None:
                history = remembering.history
            check_triggers(triggers, history)
        self._crew: Shell = self._make_shell()
        self._house: Shell = self._make_shell()
        self.name = name or default_consumer_name()
        self.provider = opened if self._crew.blocking else opened.for_asyncio()
        self._owns_provider = self.provider is not provider
        self.gates = [Gate(trigger, threads=self._crew.blocking) for trigger in triggers]
        self._watched = Watched(self.gates, monotonic())
        self._endpoint: Endpoint | None = None
        if metrics is not None:
            self._endpoint = endpoint_of(metrics, self._watched)
        self._failure: BaseException | None = None
        self._has_run = False
        self._observe = observe
        self._parent = parent
        self._store = open_history(history) if isinstance(history, str) else history
        self._owned_stores = [self._store] if isinstance(history, str) and self._store is not None else []
        self._heartbeats: list[Heartbeat] = []
        for trigger in triggers:
            if self._store is not None:
                trigger.use_default_history(self._store)

    def stop(self) -> None:
        """Drain and end :meth:`run`; not for signal handlers.

        For a ``Consumer``, call it from any thread; for an ``AsyncConsumer``, from the thread of its event
        loop.
        """
        self._crew.over.set()

    @property
    def metrics_address(self) -> str | None:
        """Where metrics are served, as ``host:port``, with the real port while it runs; None without."""
        return None if self._endpoint is None else str(self._endpoint.address)

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """The results of the messages so far, by trigger."""
        return {gate.trigger.name: Counter(gate.counts) for gate in self.gates}

    @property
    def parked(self) -> dict[str, int]:
        """How many messages were parked so far, by trigger."""
        return {gate.trigger.name: gate.parked for gate in self.gates}

    async def _run(
        self, *, signals: bool, until_idle: float | None, started: Callable[[], object] | None
    ) -> None:
        check_run(signals=signals, until_idle=until_idle, started=started)
        if self._has_run:
            problem = "this consumer has run already, and has given back what it opened"
            raise ConfigurationError("run", problem, f"make another {type(self).__name__}")
        self._has_run = True
        drain = DrainSignals()
        try:
            housekeeping, workers = self._make()
            self._begin_watch()
            if signals:  # so this process belongs to the consumer
                keep_what_is_loaded()
            with drain if signals else nullcontext(), self._endpoint or nullcontext():
                watch = Watch(workers, drain, until_idle=until_idle, parent=self._parent)
                await self._consume(housekeeping, workers, watch, started)
        finally:
            await self._close()
        if self._failure is not None:
            raise self._failure

    def _make(self) -> tuple[list[Housekeeping], list[Worker]]:
        """Make the parts of a run, one housekeeping for each trigger."""
        kept: list[Housekeeping] = []
        workers: list[Worker] = []
        monitors = Monitors()
        for gate in self.gates:
            pipeline = self._pipeline_of(gate.trigger).waiting(partial(self._pause, gate)).holding(gate.hold)
            if isinstance(gate.trigger.settings.on_duplicate, str):
                pipeline = pipeline.forwarding(forwarding_to(self.provider))
            gate.lot = pipeline.lot
            checked = pipeline.store in [other.pipeline.store for other in kept]
            monitor = monitors.of(gate.trigger.settings.monitor)
            kept.append(
                Housekeeping(gate=gate, pipeline=pipeline, shell=self._crew, monitor=monitor, checked=checked)
            )
            workers += make_workers(self.name, gate, pipeline, provider=self.provider, shell=self._crew)
        stores = [(housekeeping.gate, housekeeping.pipeline.store) for housekeeping in kept]
        self._heartbeats = heartbeats_for(self.name, stores, self._default_store(stores))
        return kept, workers

    def _pipeline_of(self, trigger: AnyTrigger) -> Pipeline:
        if not self._crew.blocking:
            return trigger.async_pipeline(self._observe)
        if trigger.is_async:
            raise ConfigurationError(
                f"trigger {trigger.name}", "its service is a coroutine function", "use AsyncConsumer"
            )
        return trigger.pipeline(self._observe)

    async def _pause(self, gate: Gate, seconds: float) -> bool:
        """Wait before a service is run again; return whether to recover its message instead."""
        due = monotonic() + seconds
        while (left := due - monotonic()) > 0 and not gate.disabled:
            if await self._crew.over.wait(min(left, SUSPENDED_PAUSE)):
                return True
        return gate.disabled or self._crew.over.is_set()

    def _default_store(self, stores: Sequence[tuple[Gate, HistoryStore | None]]) -> HistoryStore | None:
        """Return the store for the heartbeats of triggers without a history, in the form of this consumer."""
        if self._store is None or self._crew.blocking or all(store is not None for _, store in stores):
            return self._store
        twin = self._store.for_asyncio()
        if twin is not self._store:
            self._owned_stores.append(twin)
        return twin

    def _begin_watch(self) -> None:
        self._watched.beat, self._watched.draining = monotonic(), False

    async def _consume(
        self,
        housekeeping: Sequence[Housekeeping],
        workers: Sequence[Worker],
        watch: Watch,
        started: Callable[[], object] | None,
    ) -> None:
        """Run everything until the consumer stops and the last worker has ended."""
        crew, house, ended = self._crew, self._house, Event()
        # In a thread of its own, because a service that hangs may block the event loop.
        name = f"{self.name}-long-calls"
        watching = Thread(target=self._name_long_calls, args=(ended,), name=name, daemon=True)
        watching.start()
        try:
            await self._check_room(count_receivers(workers))
            if started is not None:
                started()
            for heartbeat in self._heartbeats:
                self._spawn(house, self._beside("beat"), partial(heartbeat.run, house))
            await first_orders(self._heartbeats, crew)
            for worker in workers:
                self._spawn(crew, worker.name, worker.run)
            for some in pieces_of(workers, KEPT_TOGETHER):
                self._spawn(house, self._beside("keep-alive"), partial(keep_alive, some, house))
            for kept in housekeeping:
                self._spawn(house, self._beside("chores"), kept.run)
                if kept.monitor is not None:
                    self._spawn(house, self._beside("monitor"), kept.wait_for_monitor)
            while not await crew.over.wait(WATCH_PAUSE):
                self._watched.beat = monotonic()
                if watch.is_over():
                    crew.over.set()
        except BaseException:
            crew.cancel()
            raise
        finally:
            try:
                await self._end()
            finally:
                ended.set()
                watching.join(HOUSEKEEPING_PATIENCE)

    def _name_long_calls(self, ended: Event) -> None:
        """Log deliveries that take long, until the consumer has ended."""
        while not ended.wait(LONG_CALLS_PAUSE):
            for gate in self.gates:
                gate.name_long_calls()

    async def _check_room(self, receivers: int) -> None:
        """Refuse to start if the provider has no room for the workers; not if it is unavailable."""
        bounded = capabilities_of(self.provider).bounded
        if bounded is not None:
            with suppress(ProviderUnavailableError):
                await bounded.check_room(receivers)

    async def _end(self) -> None:
        self._crew.over.set()
        self._watched.draining = True
        if (interruptible := capabilities_of(self.provider).interruptible) is not None:
            self._spawn(self._house, self._beside("stop"), partial(self._interrupt, interruptible))
        try:
            await self._crew.join()
        finally:
            self._house.over.set()
            await self._house.join(HOUSEKEEPING_PATIENCE)

    async def _interrupt(self, provider: Interruptible) -> None:
        """Interrupt receivers that are being opened, even if a worker opens one at this moment."""
        provider.interrupt()
        while not await self._house.over.wait(WATCH_PAUSE):
            provider.interrupt()

    def _beside(self, purpose: str) -> str:
        """Return the name of a thread; tasks beside the workers have one name for all purposes."""
        return f"{self.name}-{purpose if self._house.blocking else 'house'}"

    def _spawn(self, shell: Shell, name: str, run: Callable[[], Awaitable[None]]) -> None:
        async def watched() -> None:
            try:
                await run()
            except BaseException as failure:  # noqa: BLE001  (raised again by run())
                # Not from here: a SystemExit that leaves a task ends the event loop under all other tasks.
                self._note(failure)

        shell.spawn(name, watched)

    def _note(self, failure: BaseException) -> None:
        """Make the run end with a failure; the cancellation of a hanging task at the end does not count."""
        if not (self._house.over.is_set() and isinstance(failure, CancelledError)):
            self._failure = self._failure or failure
        self._crew.over.set()

    async def _close(self) -> None:
        """Close what this consumer opened itself."""
        for gate in self.gates:
            if self._crew.blocking:
                gate.trigger.close()
            else:
                await gate.trigger.aclose()
        for store in self._owned_stores:
            await store.close()
        if self._owns_provider:
            await self.provider.close()


class Consumer(ConsumerCore):
    """Runs triggers in threads of this process until it is stopped.

        Consumer([book], "redis://127.0.0.1:6379/0", history="redis://127.0.0.1:6379/0").run(signals=True)

    Each trigger gets ``concurrency`` workers. Each worker has a receiver named ``<name>-<trigger>-<n>``.

    SIGTERM or SIGINT drains: running messages end, and fetched messages that have not begun are recovered. A
    second signal ends the process immediately. Entries that it had started are then In Doubt, as after any
    crash.

    Once a second, the consumer reports its triggers to its histories, and carries out the commands that it
    finds there.

    Args:
        triggers: the triggers to run. Their names must differ.
        provider: a URL or a provider.
        history: for triggers that do not name a history. By default: the provider's history, if it has one.
        name: the name of this consumer, unique among running consumers. By default: made of host and process.
        observe: called with each step of each message; the crash tests use it.
        parent: the id of a process. If that process ends, this one drains and ends as well.

    Raises:
        ConfigurationError: it names the problem and the remedy.
    """

    _make_shell = ThreadShell

    def run(
        self,
        *,
        signals: bool = False,
        until_idle: float | None = None,
        started: Callable[[], object] | None = None,
    ) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        ``started`` is called once, after all settings were accepted and before the first message.
        With ``signals``, the process belongs to the consumer: signals drain it, and what is loaded so far is
        not garbage collected. Without, a KeyboardInterrupt also drains the consumer. It is raised after that.

        Raises:
            ConfigurationError: a history or consumer name cannot be used, or it has run already.
            BaseException: an exception of a service that ends the process.
        """
        drive(self._run(signals=signals, until_idle=until_idle, started=started))


class AsyncConsumer(ConsumerCore):
    """Runs triggers as tasks until it is stopped. Arguments and behaviour are those of ``Consumer``.

        await AsyncConsumer([book], "redis://127.0.0.1:6379/0", history="redis://127.0.0.1:6379/0").run()

    Services that are plain functions run on the thread of the event loop, so that they and the completion can
    share a transaction. Keep them short, or use the blocking consumer. Monitors run in threads.

    If you cancel :meth:`run`, the running services are cancelled, and their messages are In Doubt.
    :meth:`stop` lets the services end.
    """

    _make_shell = TaskShell

    async def run(
        self,
        *,
        signals: bool = False,
        until_idle: float | None = None,
        started: Callable[[], object] | None = None,
    ) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        ``started`` is called once, after all settings were accepted and before the first message.
        With ``signals``, the process belongs to the consumer, as for ``Consumer``.

        Raises:
            ConfigurationError: a history or consumer name cannot be used, or it has run already.
            BaseException: an exception of a service that ends the process.
        """
        await self._run(signals=signals, until_idle=until_idle, started=started)
