import os
from pathlib import Path

from celery import Celery

from doubtless.guards.celery import guarded

REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
DATA = Path(os.environ.get("DATA", "data"))

app = Celery("shop", broker=REDIS, task_cls=guarded(history=REDIS))


@app.task(name="ship", uuid="order_id")
def ship(order_id: str) -> None:
    with (DATA / "shipped.txt").open("a") as shipped:
        shipped.write(f"{order_id}\n")
