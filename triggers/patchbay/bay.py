"""The Patch Bay: the components of a file, running in this process."""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from history.beside.kept import beside_of
from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import open_history
from history.shell import TaskShell, ThreadShell
from history.store import HistoryStore
from triggers.consumer.core import AsyncConsumer, Consumer
from triggers.consumer.drain import WATCH_PAUSE, DrainSignals, Watch
from triggers.consumer.options import check_process, check_run
from triggers.metrics.answering import answering
from triggers.patchbay.components import Sources, give_context, load_component
from triggers.patchbay.context import MessageContext
from triggers.patchbay.inputs import AnyTrigger, WiredProvider, local_destinations, wire_inputs
from triggers.patchbay.outputs import Outputs
from triggers.patchbay.releaser import Releaser
from triggers.patchbay.wiring.checks import is_local, limbo_url
from triggers.patchbay.wiring.model import PatchBayFile
from triggers.pipeline.parking.lot import ParkingLot
from triggers.pipeline.pipeline import Observer
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider
from triggers.service.checking import check_able, check_kind, check_plain, pointing

if TYPE_CHECKING:
    from triggers.providers.sqljms.limbo.limbo import Clock

#: How long the release loop may take to end, in seconds.
PATIENCE = 5.0


class PatchBay:
    """Wires the components of a file to their destinations and runs them until it is stopped.

    The life cycle: components are made, and get their message context. Inputs are opened. After each of them
    can receive, sources are started. At the end inputs drain, then sources must stop. A Patch Bay that only
    sends need not run: see :meth:`context`.

    Args:
        file: the wiring; see :func:`~triggers.patchbay.wiring.toml_reader.read_patchbay`.
        history: for components that name none, instead of the file's.
        providers: providers to use instead of opening the file's URLs, by name; their owner closes them.
        name: the name of the consumer, unique among running consumers.
        observe: receives each step of each message; the crash tests use it.
        parent: the id of a process; without it, this process drains and ends.
        metrics: where it serves metrics while it runs, as ``host:port``.
        clock: the present time for limbo, in ms since 1970; the server's clock by default.

    Raises:
        ConfigurationError: an argument is wrong, or a component cannot be loaded or does not fit the file.

    Guarantee: as of each input's trigger. If history, limbo, effects and SQL-JMS destinations share one
    database, a message, its entry, the effects and the sent messages are atomic. Otherwise a message that
    waits in limbo is sent at least once, under one uuid.
    """

    def __init__(
        self,
        file: PatchBayFile,
        *,
        history: str | HistoryStore | None = None,
        providers: Mapping[str, Provider] | None = None,
        name: str | None = None,
        observe: Observer | None = None,
        parent: int | None = None,
        metrics: str | None = None,
        clock: "Clock" = lambda: None,
    ) -> None:
        with pointing():
            check_kind("file", file, PatchBayFile, "give what read_patchbay returns")
            check_process(history=history, name=name, observe=observe, parent=parent, metrics=metrics)
            check_plain("clock", clock, remedy="give a function without parameters")
            _check_providers(file, providers or {})
        self.file = file
        self._name, self._observe, self._parent, self._clock = name, observe, parent, clock
        self._metrics = metrics
        self._history = file.patchbay.history if history is None else history
        self._owned: list[Provider] = []
        self._stop = threading.Event()
        self._has_run = False
        self._failure: BaseException | None = None
        self._consumer: Consumer | AsyncConsumer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._async_outputs: Outputs | None = None
        self.contexts = {
            component.name: MessageContext(
                component.name, outputs=lambda: self.outputs, async_outputs=lambda: self.async_outputs
            )
            for component in file.components
        }
        self.components = {
            component.name: load_component(component.name, component.component)
            for component in file.components
        }
        self.inputs = wire_inputs(file, self.components, self.contexts)
        self._received = [wired for wired in self.inputs if not wired.local]
        self._local = local_destinations(file, self.inputs)
        self.sources = Sources(
            {component.name: self.components[component.name] for component in file.source},
            self.contexts,
            self._fail,
        )
        for key, component in self.components.items():
            give_context(key, component, self.contexts[key])
        self.outputs = self._open_outputs(providers or {})

    def _open_outputs(self, offered: Mapping[str, Provider]) -> Outputs:
        providers: dict[str, Provider] = {}
        for name, entry in self.file.providers.items():
            if is_local(entry.url):
                continue
            if name not in offered:
                self._owned.append(open_provider(entry.url))
            providers[name] = offered[name] if name in offered else self._owned[-1]
        url, limbo = limbo_url(self.file), None
        if url is not None:
            from triggers.providers.sqljms.limbo.limbo import Limbo  # noqa: PLC0415  (loads a driver)

            name, lease = self.file.patchbay.name or socket.gethostname(), self.file.patchbay.lease
            limbo = Limbo.from_url(url, name=name, lease=lease, clock=self._clock)
        return Outputs(self.file, providers, limbo, ThreadShell(), self._local)

    @property
    def async_outputs(self) -> Outputs:
        """The same providers and limbo over asyncio drivers, for the running event loop.

        Raises:
            ConfigurationError: it runs on another event loop.
        """
        loop = asyncio.get_running_loop()
        if self._async_outputs is None:
            url, limbo = limbo_url(self.file), self.outputs.limbo
            twin = None if url is None or limbo is None else limbo.for_asyncio(url)
            providers = {name: provider.for_asyncio() for name, provider in self.outputs.providers.items()}
            self._async_outputs, self._loop = (
                Outputs(self.file, providers, twin, TaskShell(), self._local),
                loop,
            )
        if self._loop is not loop:
            raise ConfigurationError("asend", "the Patch Bay belongs to another event loop", "use send there")
        return self._async_outputs

    def context(self, component: str) -> MessageContext:
        """Return the message context of a component, for code elsewhere that sends in its name.

        Raises:
            ConfigurationError: the file has no component of this name.
        """
        if component not in self.contexts:
            raise ConfigurationError(
                f"component {component!r}", "is not in the file", "add it, or correct the name"
            )
        return self.contexts[component]

    @property
    def triggers(self) -> Sequence[AnyTrigger]:
        """The trigger of each input, except those of local destinations: their senders call them."""
        return [wired.trigger for wired in self._received]

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """The results of the messages so far, by trigger."""
        return {} if self._consumer is None else self._consumer.counts

    @property
    def parked(self) -> dict[str, int]:
        """How many messages were parked so far, by trigger."""
        return {} if self._consumer is None else self._consumer.parked

    def run(
        self,
        *,
        signals: bool = False,
        until_idle: float | None = None,
        started: Callable[[], object] | None = None,
    ) -> None:
        """Run until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        ``started`` is called once, after all settings were accepted.

        Raises:
            ConfigurationError: a history or a consumer's name cannot be used, or it has run already.
            BaseException: an exception of a source, or of a service that ends the process.
        """
        if self.sources.needs_loop or any(wired.trigger.is_async for wired in self.inputs):
            asyncio.run(self.arun(signals=signals, until_idle=until_idle, started=started))
            return
        check_run(signals=signals, until_idle=until_idle, started=started)
        self._note_run()
        provider = self._wired(self.outputs, time.sleep)
        with _Background(self, provider, self._history):
            if self._received:
                self._consumer = Consumer(self.triggers, provider, **self._consuming())
                if not self._stop.is_set():
                    self._consumer.run(signals=signals, until_idle=until_idle, started=started)
            else:
                self._wait(signals=signals, until_idle=until_idle, started=started)
        self._raise()

    async def arun(
        self,
        *,
        signals: bool = False,
        until_idle: float | None = None,
        started: Callable[[], object] | None = None,
    ) -> None:
        """Run on the running event loop, like :meth:`run`. The release loop and plain sources use threads."""
        check_run(signals=signals, until_idle=until_idle, started=started)
        self._note_run()
        provider = self._wired(self.async_outputs, asyncio.sleep)
        try:
            with _Background(self, provider, self._history):
                starting = asyncio.create_task(self._start_tasks(provider), name="doubtless-sources")
                try:
                    await self._receive(provider, signals=signals, until_idle=until_idle, started=started)
                finally:
                    self._stop.set()
                    await starting
                    for context in self.contexts.values():
                        context.stop()
                    await self.sources.ask_to_stop()
                    await self.sources.stop_tasks()
        finally:
            await self._aclose()
        self._raise()

    def _note_run(self) -> None:
        if self._has_run:
            problem = "this Patch Bay has run already, and its sources were told to end"
            raise ConfigurationError("run", problem, "make another PatchBay")
        self._has_run = True

    async def _receive(
        self,
        provider: WiredProvider,
        *,
        signals: bool,
        until_idle: float | None,
        started: Callable[[], object] | None,
    ) -> None:
        if not self._received:
            await asyncio.to_thread(self._wait, signals=False, until_idle=until_idle, started=started)
            return
        self._consumer = AsyncConsumer(self.triggers, provider, **self._consuming())
        if not self._stop.is_set():
            await self._consumer.run(signals=signals, until_idle=until_idle, started=started)

    def stop(self) -> None:
        """Drain and end :meth:`run`; may be called from any thread, but not from a signal handler."""
        self._stop.set()
        if isinstance(self._consumer, AsyncConsumer) and self._loop is not None:
            self._loop.call_soon_threadsafe(self._consumer.stop)
        elif self._consumer is not None:
            self._consumer.stop()

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.stop()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _consuming(self) -> dict[str, Any]:
        return {
            "history": self._history,
            "name": self._name,
            "observe": self._observe,
            "parent": self._parent,
            "metrics": self._metrics,
        }

    def _wired(self, outputs: Outputs, sleep: Callable[[float], Any]) -> WiredProvider:
        inputs = {wired.trigger.name: wired for wired in self._received}
        provider = WiredProvider(inputs, outputs, twin=lambda: provider, sleep=sleep)
        if not inputs:
            provider.ready.set()
        return provider

    async def _start_tasks(self, provider: WiredProvider) -> None:
        # In a thread: a thread or a task may open the receivers.
        while not await asyncio.to_thread(provider.ready.wait, WATCH_PAUSE):
            if self._stop.is_set():
                return
        if not self._stop.is_set():
            self.sources.start_tasks()

    def _wait(self, *, signals: bool, until_idle: float | None, started: Callable[[], object] | None) -> None:
        """Wait if there is nothing to receive."""
        drain = DrainSignals()
        watch = Watch([], drain, until_idle=until_idle, parent=self._parent)
        with drain if signals else nullcontext(), answering(self._metrics) as watched:
            if started is not None:
                started()
            while not self._stop.wait(WATCH_PAUSE):
                watched.beat = time.monotonic()
                if watch.is_over():
                    return

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    async def _aclose(self) -> None:
        outputs, self._async_outputs = self._async_outputs, None
        if outputs is not None:
            await outputs.close()
            for name, provider in outputs.providers.items():
                if provider is not self.outputs.providers[name]:
                    await provider.close()

    def close(self) -> None:
        """Close the connections that were opened for this Patch Bay."""
        drive(self.outputs.close())
        for provider in self._owned:
            drive(provider.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_providers(file: PatchBayFile, offered: Mapping[str, Provider]) -> None:
    """Refuse a provider that no entry of the file is for: the file's own URL would be opened instead."""
    for name, provider in offered.items():
        if name not in file.providers:
            names = ", ".join(sorted(file.providers)) or "none"
            raise ConfigurationError(
                "providers", f"the file has no provider {name!r}, only: {names}", "correct the name"
            )
        check_able(f"providers[{name!r}]", provider, ("send", "open_receiver"), "give a provider")


class _Background:
    """Threads beside the consumer: the release loop, and the start and end of the sources."""

    def __init__(self, bay: PatchBay, provider: WiredProvider, history: str | HistoryStore | None) -> None:
        self._bay = bay
        self._provider = provider
        self._over = threading.Event()
        self._store = open_history(history) if isinstance(history, str) else None
        kept = beside_of(self._store if isinstance(history, str) else history)
        lot = ParkingLot(None if kept is None else kept.parking)
        self._releaser = Releaser(outputs=bay.outputs, lot=lot)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> None:
        if self._bay.outputs.limbo is not None:
            self._spawn("release", self._releaser.run(over=self._over.is_set, pause=self._pause))
        self._spawn("start", self._start_sources())

    def _spawn(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        thread = threading.Thread(target=drive, args=(work,), name=f"doubtless-{what}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _pause(self, seconds: float) -> None:
        self._over.wait(seconds)

    async def _start_sources(self) -> None:
        while not self._provider.ready.wait(WATCH_PAUSE):
            if self._over.is_set():
                return
        if not self._over.is_set() and not self._bay.stopping:
            self._bay.sources.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        drive(self._bay.sources.ask_to_stop())
        self._bay.sources.join()
        drive(self._releaser.lot.close())
        if self._store is not None:
            drive(self._store.close())
