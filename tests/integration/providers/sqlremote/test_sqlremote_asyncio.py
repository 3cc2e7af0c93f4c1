"""Links run in asyncio consumers: an async service's effects and the watermark are one transaction."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection

from history.bridge import drive
from tests.fixtures.waiting import PATIENCE
from triggers import AsyncConsumer, ConfigurationError, Message, TransientError, Trigger, trigger
from triggers.providers.sqlremote.links import Links

SETTINGS = """
database = "{database}"
[links.orders]
carrier = "file://{mail}"
inbox = "{name}"
outbox = "{peer}"
poll = 0.02
repeat_after = 0.2
"""


class Ends:
    """Two ends of a link; ``x`` sends and ``y`` applies."""

    def __init__(self, databases: Sequence[str], folder: Path) -> None:
        self.files = {name: folder / f"{name}.toml" for name in "xy"}
        for name, peer, database in zip("xy", "yx", databases, strict=True):
            settings = SETTINGS.format(database=database, mail=folder / "mail", name=name, peer=peer)
            self.files[name].write_text(settings)
        self.engine = create_engine(databases[1].replace("postgresql://", "postgresql+psycopg://"))
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE got (operation TEXT)"))

    def links(self, name: str) -> Links:
        return Links.from_file(self.files[name])

    def send(self, count: int) -> None:
        links = self.links("x")
        drive(links.send("link:orders", [Message(body=f"order {number}") for number in range(count)]))
        drive(links.close())

    def got(self) -> list[str]:
        with self.engine.connect() as connection:
            return [str(row[0]) for row in connection.execute(text("SELECT operation FROM got"))]

    @asynccontextmanager
    async def running(self, service: Trigger[..., Any]) -> AsyncGenerator[asyncio.Task[None]]:
        """Run both ends. Yield the task of the end that applies."""
        sender = AsyncConsumer([back], self.links("x"))
        applier = AsyncConsumer([service], self.links("y"))
        tasks = [asyncio.create_task(consumer.run()) for consumer in (sender, applier)]
        try:
            yield tasks[1]
        finally:
            sender.stop()
            applier.stop()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended


@trigger("link:orders", name="back", transacted=True)
async def back(operations: list[str], connection: AsyncConnection) -> None:
    raise AssertionError("nothing comes back")


@pytest.fixture
def ends(link_databases: Sequence[str], tmp_path: Path) -> Iterator[Ends]:
    ends = Ends(link_databases, tmp_path)
    yield ends
    ends.engine.dispose()


async def insert(operations: list[str], connection: AsyncConnection) -> None:
    for operation in operations:
        await connection.execute(text("INSERT INTO got VALUES (:o)"), {"o": operation})


async def applied(ends: Ends, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(await asyncio.to_thread(ends.got)) < count:  # noqa: ASYNC110  (of another connection)
            await asyncio.sleep(0.02)


async def test_an_async_service_applies_each_transaction_once_and_in_order(ends: Ends) -> None:
    failed: list[str] = []

    @trigger("link:orders", name="apply", transacted=True)
    async def apply(operations: list[str], connection: AsyncConnection) -> None:
        await insert(operations, connection)
        if operations == ["order 2"] and not failed:
            failed.extend(operations)
            raise TransientError("the effect of this attempt must go, and the watermark stay")

    ends.send(5)
    async with ends.running(apply):
        await applied(ends, 5)

    assert failed == ["order 2"]
    assert ends.got() == [f"order {number}" for number in range(5)]
    links = ends.links("y")
    row = drive(links.history.watermarks.read("orders"))
    drive(links.close())
    assert row is not None
    assert row.watermark.incoming.log_received == 5


async def test_a_consumer_that_is_cancelled_leaves_neither_effect_nor_watermark(ends: Ends) -> None:
    entered, inside = asyncio.Event(), asyncio.Event()

    @trigger("link:orders", name="apply", transacted=True)
    async def hang(operations: list[str], connection: AsyncConnection) -> None:
        await insert(operations, connection)
        entered.set()
        await inside.wait()

    @trigger("link:orders", name="apply", transacted=True)
    async def apply(operations: list[str], connection: AsyncConnection) -> None:
        await insert(operations, connection)

    ends.send(3)
    async with ends.running(hang) as applier:
        async with asyncio.timeout(PATIENCE):
            await entered.wait()
        applier.cancel()
    assert ends.got() == []

    async with ends.running(apply):
        await applied(ends, 3)

    assert ends.got() == ["order 0", "order 1", "order 2"]


async def test_a_link_has_one_receiver_in_asyncio_too(ends: Ends) -> None:
    provider = ends.links("y").for_asyncio()
    assert provider.for_asyncio() is provider
    receiver = await provider.open_receiver("link:orders", subscription="one", name="a")
    await receiver.receive(1)

    with pytest.raises(ConfigurationError, match="another trigger"):
        await provider.open_receiver("link:orders", subscription="two", name="b")
    await receiver.close()
    await provider.close()
