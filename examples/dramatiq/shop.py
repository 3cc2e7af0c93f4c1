from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from doubtless.guards.dramatiq import guarded

REDIS = "redis://127.0.0.1:6379/0"

broker = RedisBroker(url=REDIS)
broker.add_middleware(guarded(history=REDIS))
dramatiq.set_broker(broker)


@dramatiq.actor(uuid="order_id")
def ship(order_id: str) -> None:
    with Path("shipped.txt").open("a") as shipped:
        shipped.write(f"{order_id}\n")
