"""A guarded actor in its own worker: one message, twice."""

import sys
from typing import Any

import dramatiq
from dramatiq.brokers.stub import StubBroker
from dramatiq.worker import Worker

from triggers.guards.dramatiq import guarded

broker: Any = StubBroker()
broker.emit_after("process_boot")  # as its command line does
broker.add_middleware(guarded(history=sys.argv[1]))
effects: list[str] = []


def book(order: str) -> None:
    """Book an order."""
    effects.append(order)


actor: Any = dramatiq.actor(broker=broker, uuid="order")(book)
worker = Worker(broker, worker_timeout=10, worker_threads=1)
worker.start()
for _ in range(2):
    actor.send("1")
    broker.join("default")
worker.join()
worker.stop()
sys.stdout.write(str(len(effects)))
