"""The asyncio consumer: the blocking one's workers and chores, as tasks of the running event loop."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from typing import Any

from history.bridge import settled
from history.opening import open_history
from history.store import HistoryStore
from triggers.consumer.crew import hire
from triggers.consumer.drain import WATCH_PAUSE, DrainSignals, Watch
from triggers.consumer.gate import Gate
from triggers.consumer.housekeeping import Housekeeping, keep_alive
from triggers.consumer.monitors import Monitors
from triggers.consumer.options import check_options, check_run
from triggers.consumer.orders import Beater, Steerable, first_orders, hire_beaters
from triggers.consumer.threads import CHORES_PATIENCE, AnyTrigger, check_triggers, default_consumer_name
from triggers.consumer.worker import Worker
from triggers.pipeline.pipeline import Observer
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider
from triggers.service.checking import pointing


class AsyncConsumer(Steerable):
    """Runs triggers as tasks until it is stopped; arguments and behaviour as of ``Consumer``.

    Services that are plain functions run on the event loop's own thread, so that they and the completion can
    share a transaction; keep them short, or use the blocking consumer. Monitors run in threads.

    Cancelling :meth:`run` cancels the services that run, and leaves their messages In Doubt; :meth:`stop`
    lets them end.
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
            check_triggers(triggers, history)
            opened = open_provider(provider) if isinstance(provider, str) else provider
        self.name = name or default_consumer_name()
        self.provider = opened.for_asyncio()
        self._owns_provider = self.provider is not provider
        self.gates = [Gate(trigger) for trigger in triggers]
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._observe = observe
        self._parent = parent
        store = open_history(history) if isinstance(history, str) else history
        self._given_store = self._default_store = store
        self._beaters: list[Beater] = []
        for trigger in triggers:
            if store is not None:
                trigger.use_default_history(store)

    async def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

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
                await self._work(chores, workers, watch)
        finally:
            await self._close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Drain and end :meth:`run`; call it on the event loop's thread."""
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
            pipeline = gate.trigger.async_pipeline(self._observe)
            checked = pipeline.store in [one.pipeline.store for one in chores]
            monitor = monitors.of(gate.trigger.settings.monitor)
            chores.append(
                Housekeeping(
                    gate=gate, pipeline=pipeline, ask=_ask_in_thread, monitor=monitor, checked=checked
                )
            )
            workers += hire(
                self.name,
                gate,
                pipeline,
                provider=self.provider,
                stopping=self._stop.is_set,
                pause=self._pause,
                semaphore=asyncio.Semaphore,
            )
        stores = [(one.gate, one.pipeline.store) for one in chores]
        if self._given_store is not None and any(store is None for _, store in stores):
            self._default_store = self._given_store.for_asyncio()
        self._beaters = hire_beaters(self.name, stores, self._default_store)
        return chores, workers

    async def _work(self, chores: Sequence[Housekeeping], workers: Sequence[Worker], watch: Watch) -> None:
        """Run all tasks until the consumer stops and the last worker has ended."""
        crew: list[asyncio.Task[None]] = []
        alive = keep_alive(workers, over=self._ended.is_set, pause=self._pause_to_the_end)
        tidying = [one.run(stopping=self._stop.is_set, pause=self._pause) for one in chores]
        beating = [one.run(over=self._ended.is_set, pause=self._pause_to_the_end) for one in self._beaters]
        house = [self._start(f"{self.name}-house", work) for work in (alive, *tidying, *beating)]
        try:
            await first_orders(self._beaters, stopping=self._stop.is_set, pause=self._pause)
            crew += [self._start(worker.name, worker.run()) for worker in workers]
            while not self._stop.is_set():
                await self._pause(WATCH_PAUSE)
                if watch.is_over():
                    self.stop()
            await asyncio.gather(*crew)
        finally:
            self._stop.set()
            for task in crew:
                task.cancel()  # where it has not ended: run() was cancelled
            await asyncio.gather(*crew, return_exceptions=True)
            self._ended.set()
            _, hanging = await asyncio.wait(house, timeout=CHORES_PATIENCE)
            for task in hanging:
                task.cancel()

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        async def run() -> None:
            try:
                await work
            except BaseException as failure:  # noqa: BLE001  (raised again by run())
                # Not from here: a SystemExit that leaves a task ends the event loop under all the others.
                if not self._ended.is_set():  # after that, chores that hang are cancelled
                    self._failure = self._failure or failure
                self._stop.set()

        return asyncio.create_task(run(), name=name)

    async def _close(self) -> None:
        """Give back what this consumer opened itself."""
        for gate in self.gates:
            await gate.trigger.aclose()
        if self._default_store is not None and self._default_store is not self._given_store:
            await self._default_store.close()
        if self._owns_provider:
            await self.provider.close()

    async def _pause(self, seconds: float) -> None:
        await _wait(self._stop, seconds)

    async def _pause_to_the_end(self, seconds: float) -> None:
        await _wait(self._ended, seconds)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def _ask_in_thread(monitor: Callable[[], bool]) -> bool:
    """Ask a monitor without holding up the event loop; one that is a coroutine function is awaited.

    Not with ``asyncio.to_thread``: the event loop would not end before a monitor that hangs.
    """
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()
    answers: Future[Awaitable[bool] | bool] = Future()

    def ask() -> None:
        try:
            answers.set_result(monitor())
        except BaseException as error:  # noqa: BLE001  (raised again below)
            answers.set_exception(error)
        with suppress(RuntimeError):  # the event loop has ended without it
            loop.call_soon_threadsafe(answered.set)

    threading.Thread(target=ask, name="doubtless-monitor", daemon=True).start()
    await answered.wait()
    return bool(await settled(answers.result()))
