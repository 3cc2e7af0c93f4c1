"""Shared parts of the consumer tests: blocking or asyncio consumers beside the test, and look-ups."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from history import Entry, Message, Parked
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import AsyncConsumer, Consumer, open_provider, trigger
from triggers.consumer.gate import Gate
from triggers.consumer.options import AnyTrigger
from triggers.providers import Provider


class Running:
    """A consumer in another thread, inside a ``with`` block; at its end it is stopped, and must end."""

    def __init__(self, consumer: Consumer | AsyncConsumer, until_idle: float | None = None) -> None:
        self._consumer = consumer
        self._until_idle = until_idle
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="consumer under test")

    @property
    def alive(self) -> bool:
        """Whether ``run`` has not ended."""
        return self._thread.is_alive()

    @property
    def counts(self) -> dict[str, Any]:
        """The outcomes of the messages so far, by trigger."""
        return {name: dict(counts) for name, counts in self._consumer.counts.items()}

    @property
    def gates(self) -> Sequence[Gate]:
        return self._consumer.gates

    def stop(self) -> None:
        if isinstance(self._consumer, Consumer):
            self._consumer.stop()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._consumer.stop)

    def join(self) -> None:
        """Wait until ``run`` has ended, and raise what it raised."""
        self._thread.join(PATIENCE)
        assert not self.alive, "the consumer does not end"
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        try:
            if isinstance(self._consumer, Consumer):
                self._consumer.run(until_idle=self._until_idle)
            else:
                asyncio.run(self._run_async(self._consumer))
        except BaseException as failure:  # noqa: BLE001  (raised again by join())
            self._failure = failure

    async def _run_async(self, consumer: AsyncConsumer) -> None:
        self._loop = asyncio.get_running_loop()
        await consumer.run(until_idle=self._until_idle)

    def __enter__(self) -> Self:
        self._thread.start()
        if isinstance(self._consumer, AsyncConsumer):
            eventually(lambda: self._loop is not None or not self.alive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.alive:
            self.stop()
        self.join()


@dataclass(frozen=True, slots=True)
class Lane:
    """Blocking or asyncio: the same test drives either kind of consumer."""

    asyncio: bool
    folder: Path

    def trigger(self, destination: str, work: Callable[[Message], object], **settings: Any) -> AnyTrigger:
        """Make a trigger of a function that may block; under asyncio it does so in a thread."""

        def service(message: Message) -> object:
            return work(message)

        async def async_service(message: Message) -> object:
            return await asyncio.to_thread(work, message)

        settings = {"name": destination, "local_parking_file": self.folder / "parked.sqlite3", **settings}
        return trigger(destination, **settings)(async_service if self.asyncio else service)

    def noting(self, destination: str, **settings: Any) -> tuple[AnyTrigger, list[str | None]]:
        """Make a trigger that notes the uuid of each message. Return the trigger and the list of uuids."""
        ran: list[str | None] = []
        return self.trigger(destination, lambda message: ran.append(message.uuid), **settings), ran

    def consumer(
        self, triggers: Sequence[AnyTrigger], provider: str | Provider, **options: Any
    ) -> Consumer | AsyncConsumer:
        return (AsyncConsumer if self.asyncio else Consumer)(triggers, provider, **options)

    def running(self, consumer: Consumer | AsyncConsumer) -> Running:
        return Running(consumer)

    def run(
        self,
        triggers: Sequence[AnyTrigger],
        provider: str | Provider,
        *,
        until_idle: float | None = None,
        **options: Any,
    ) -> Running:
        return Running(self.consumer(triggers, provider, **options), until_idle)


def send(url: str, destination: str, *uuids: str, body: str = "") -> None:
    provider = open_provider(url)
    drive(provider.send(destination, [Message(uuid=uuid, body=body) for uuid in uuids]))
    drive(provider.close())


def is_drained(url: str, stream: str) -> bool:
    """Whether the subscription with the same name has read and acknowledged everything."""
    with connected(url) as client:
        if not client.exists(stream) or not (groups := client.xinfo_groups(stream)):
            return False
        last = client.xinfo_stream(stream)["last-generated-id"]
        return bool(groups[0]["pending"] == 0 and groups[0]["last-delivered-id"] == last)


def has_unread(url: str, stream: str) -> bool:
    """Whether the subscription with the same name has not read everything."""
    with connected(url) as client:
        last = client.xinfo_stream(stream)["last-generated-id"]
        return bool(client.xinfo_groups(stream)[0]["last-delivered-id"] != last)


def parked_in(url: str, name: str) -> Sequence[Parked]:
    return with_store(url, lambda store: store.parking.list(trigger=name))


def entry_in(url: str, name: str, uuid: str) -> Entry | None:
    return with_store(url, lambda store: store.lookup(name, [uuid]))[0]
