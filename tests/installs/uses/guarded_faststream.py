"""A guarded handler that listens to a stream of Redis: one order, twice."""

import asyncio
import sys
from typing import Any

try:
    from faststream.redis import RedisBroker, StreamSub
except ImportError as error:
    raise SystemExit(str(error)) from error

from triggers.guards.faststream import guarded

effects: list[str] = []


async def main() -> None:
    """Send the order twice, and another."""
    over = asyncio.Event()
    quiet: Any = None
    broker: Any = guarded(RedisBroker(sys.argv[1], logger=quiet), history=sys.argv[1], uuid="order")

    async def book(order: str) -> None:
        if order == "last":
            over.set()
        else:
            effects.append(order)

    stream = StreamSub("guarded-orders", group="shop", consumer="one")
    broker.subscriber(stream=stream)(book)
    async with broker:
        await broker.start()
        for order in ("1", "1", "last"):
            await broker.publish(order, stream="guarded-orders", headers={"order": order})
        await asyncio.wait_for(over.wait(), 60)


asyncio.run(main())
sys.stdout.write(str(len(effects)))
