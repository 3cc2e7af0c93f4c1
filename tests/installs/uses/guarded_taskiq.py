"""A guarded task in its own receiver: one order, twice."""

import asyncio
import sys
from typing import Any

from taskiq import InMemoryBroker

from triggers.guards.taskiq import guarded

broker: Any = InMemoryBroker()
broker.add_middlewares(guarded(history=sys.argv[1]))
effects: list[str] = []


async def book(order: str) -> None:
    """Book an order."""
    effects.append(order)


async def main() -> None:
    """Send the order twice."""
    task = broker.task(task_name="book", uuid="order")(book)
    await broker.startup()
    for _ in range(2):
        await task.kiq("1")
        await broker.wait_all()
    await broker.shutdown()


asyncio.run(main())
sys.stdout.write(str(len(effects)))
