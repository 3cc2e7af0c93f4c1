import asyncio
from pathlib import Path

from shop import broker

SHIPPED = Path("shipped.txt")


async def main() -> None:
    async with broker:
        for order in ("order-1", "order-1", "order-2"):
            await broker.publish(
                {"id": order}, stream="orders", headers={"order-id": order}
            )
    while not (SHIPPED.exists() and "order-2" in SHIPPED.read_text()):
        await asyncio.sleep(0.1)
    print(SHIPPED.read_text(), end="")


asyncio.run(main())
