"""Many tasks time out, each at a random moment of its message. They leave nothing behind."""

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from tests.fixtures.waiting import PATIENCE
from triggers import Message, Status, Trigger, trigger

#: How many tasks there are at a time, and how often.
TASKS, ROUNDS = 8, 15


class Booking:
    """A trigger and what has run."""

    def __init__(self, history_url: str) -> None:
        self.runs: Counter[str | None] = Counter()
        self.trigger: Trigger[..., Any] = self._made(history_url)

    def _made(self, history_url: str) -> Trigger[..., Any]:
        @trigger("orders", name="book", history=history_url)
        async def book(message: Message) -> None:
            self.runs[message.uuid] += 1
            await asyncio.sleep(0)

        return book

    async def deliver(self, uuid: str, times: int = 1) -> Status | None:
        return (await self.trigger.ahandle(Message(uuid=uuid, body="", delivery_count=times))).status

    async def seconds_of_one(self) -> float:
        await self.deliver("the first one connects")
        begun = time.monotonic()
        await self.deliver("the second one is measured")
        return time.monotonic() - begun

    def connections_in_use(self) -> int:
        engine = getattr(self.trigger.async_pipeline().store, "_engine", None)
        return engine.pool.checkedout() if isinstance(engine, AsyncEngine) else 0  # type: ignore[attr-defined]


async def storm(book: Booking) -> list[str]:
    """Deliver many messages, some with too little time and some with just enough. Return their uuids."""
    one, chance = await book.seconds_of_one(), random.Random(1)  # noqa: S311  (the same storm in each run)

    async def deliver(uuid: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.random() * one * 6):
                await book.deliver(uuid)

    uuids = [f"u{number}" for number in range(TASKS * ROUNDS)]
    for start in range(0, len(uuids), TASKS):
        await asyncio.gather(*(deliver(uuid) for uuid in uuids[start : start + TASKS]))
    return uuids


def test_all_goes_on_and_only_what_has_run_is_in_doubt_or_a_duplicate(history_url: str) -> None:
    async def weathered() -> tuple[dict[str, Status | None], Counter[str | None], int]:
        book = Booking(history_url)
        async with asyncio.timeout(PATIENCE):
            uuids = await storm(book)
            had_run = Counter(book.runs)
            again = {uuid: await book.deliver(uuid, 2) for uuid in uuids if not had_run[uuid]}
            for uuid in uuids:
                await book.deliver(uuid, 3)
            in_use = book.connections_in_use()
            await book.trigger.aclose()
        return again, book.runs, in_use

    again, runs, in_use = asyncio.run(weathered())

    assert set(again.values()) <= {Status.NEW}, "it never ran"
    assert set(runs.values()) == {1}
    assert in_use == 0
