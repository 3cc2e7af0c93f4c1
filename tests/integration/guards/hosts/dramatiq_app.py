"""A Dramatiq application. As a program it sends the orders that its input names."""

import sys
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from tests.integration.guards.hosts.work import BROKER, GUARDED, HISTORY, LEASE, QUEUE, work
from triggers.guards.dramatiq import guarded

broker = RabbitmqBroker(url=f"{BROKER}?heartbeat=0", confirm_delivery=True)
dramatiq.set_broker(broker)
if GUARDED:
    broker.add_middleware(guarded(history=HISTORY, lease=LEASE))

_options: Any = {"queue_name": QUEUE, "actor_name": "book", **({"uuid": "order"} if GUARDED else {})}


@dramatiq.actor(**_options)
def book(order: str) -> None:
    """Book an order, which may be sent under several ids."""
    work(order)


if __name__ == "__main__":
    for line in sys.stdin:
        book.send(line.strip())
    broker.close()
