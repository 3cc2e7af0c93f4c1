"""A FastStream application. As a program it works, or sends the orders that its input names."""

import asyncio
import sys

from faststream import FastStream
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue

from tests.integration.guards.hosts.work import BROKER, GUARDED, HISTORY, LEASE, QUEUE, work
from triggers.guards.faststream import guarded

queue = RabbitQueue(QUEUE, durable=True)
broker = RabbitBroker(BROKER, default_channel=Channel(prefetch_count=4))
if GUARDED:
    guarded(broker, history=HISTORY, uuid="order", lease=LEASE)


@broker.subscriber(queue)
def book(order: str) -> None:
    work(order)


async def send() -> None:
    async with broker:
        await broker.declare_queue(queue)
        for line in sys.stdin:
            await broker.publish(line.strip(), queue, headers={"order": line.strip()}, persist=True)


if __name__ == "__main__":
    asyncio.run(send() if sys.argv[1:] == ["send"] else FastStream(broker).run())
