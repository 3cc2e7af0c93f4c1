"""The asyncio consumer: the blocking one's workers and chores, as tasks of the running event loop."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from history.opening import open_history
from history.store import HistoryStore
from triggers.consumer import (
    HOUSEKEEPING_PAUSE,
    AnyTrigger,
    Chores,
    check_triggers,
    default_consumer_name,
)
from triggers.gate import Gate
from triggers.pipeline import Observer
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider
from triggers.worker import Worker


class AsyncConsumer:
    """Runs triggers as tasks until it is stopped; arguments and behaviour as of ``Consumer``.

    Services that are plain functions run on the event loop's own thread, so that they and the completion can
    share a transaction; keep them short, or use the blocking consumer.
    """

    def __init__(
        self,
        triggers: Sequence[AnyTrigger],
        provider: str | Provider,
        *,
        history: str | HistoryStore | None = None,
        name: str | None = None,
        observe: Observer | None = None,
    ) -> None:
        check_triggers(triggers, history)
        self.name = name or default_consumer_name()
        opened = open_provider(provider) if isinstance(provider, str) else provider
        self.provider = opened.for_asyncio()
        self.gates = [Gate(trigger) for trigger in triggers]
        self._stop = asyncio.Event()
        self._observe = observe
        store = open_history(history) if isinstance(history, str) else history
        for trigger in triggers:
            if store is not None:
                trigger.use_default_history(store)

    async def run(self, *, signals: bool = False, until_idle: float | None = None) -> None:
        """Consume until :meth:`stop`, a signal, or ``until_idle`` seconds without a message.

        Raises:
            ConfigurationError: a history or consumer name cannot be used.
            BaseException: what a service raised to end the process.
        """
        workers = [worker for gate in self.gates for worker in self._workers(gate)]
        if signals:
            self._listen()
        tasks = [asyncio.create_task(self._guard(worker), name=worker.name) for worker in workers]
        house = [Chores(gate, [worker for worker in workers if worker.gate is gate]) for gate in self.gates]
        keeper = asyncio.create_task(self._keep_house(workers, house, until_idle))
        try:
            results = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
            await self._close()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def stop(self) -> None:
        """Drain and end :meth:`run`; call it on the event loop's thread."""
        self._stop.set()

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """What became of the messages so far, by trigger."""
        return {gate.trigger.name: Counter(gate.counts) for gate in self.gates}

    def _workers(self, gate: Gate) -> list[Worker]:
        pipeline = gate.trigger.async_pipeline(self._observe)
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

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _guard(self, worker: Worker) -> None:
        try:
            await worker.run()
        finally:
            self._stop.set()

    async def _keep_house(
        self, workers: Sequence[Worker], house: Sequence[Chores], until_idle: float | None
    ) -> None:
        """Do the chores while anything runs; the receivers are kept alive to the end of the drain."""
        quiet_since = time.monotonic()
        while True:
            await asyncio.sleep(HOUSEKEEPING_PAUSE)
            for chores in house:
                await (chores.keep_alive if self._stop.is_set() else chores.do)(time.monotonic())
            if not all(worker.idle_rounds for worker in workers):
                quiet_since = time.monotonic()
            if until_idle is not None and time.monotonic() - quiet_since > until_idle:
                self.stop()

    async def _close(self) -> None:
        for gate in self.gates:
            await gate.trigger.aclose()
        await self.provider.close()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        if self._stop.is_set():
            os._exit(128 + number)
        self._stop.set()
