"""A Taskiq application. As a program it sends the orders that its input names."""

import asyncio
import sys
from typing import Any

from taskiq_aio_pika import AioPikaBroker, Exchange, Queue

from tests.integration.guards.hosts.work import BROKER, GUARDED, HISTORY, LEASE, QUEUE, work
from triggers.guards.taskiq import guarded

broker: Any = AioPikaBroker(
    BROKER,
    exchange=Exchange(name=QUEUE),
    task_queues=[Queue(name=QUEUE, routing_key=QUEUE)],
    dead_letter_queue=Queue(name=f"{QUEUE}.dead"),
    delay_queue=Queue(name=f"{QUEUE}.delay"),
    qos=4,
)
if GUARDED:
    broker.add_middlewares(guarded(history=HISTORY, lease=LEASE))


@broker.task(task_name="book", uuid="order")
def book(order: str) -> str:
    """Book an order, which may be sent under several ids."""
    return work(order)


async def send() -> None:
    await broker.startup()
    for line in sys.stdin:
        await book.kiq(line.strip())
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(send())
