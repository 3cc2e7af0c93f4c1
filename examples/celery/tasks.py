from pathlib import Path

from celery import Celery

from doubtless.guards.celery import guarded

REDIS = "redis://127.0.0.1:6379/0"

app = Celery(
    "shop",
    broker=REDIS,
    backend=REDIS,
    task_cls=guarded(history=REDIS, keep_result=True),
)


@app.task(name="ship", uuid="order_id")
def ship(order_id: str) -> str:
    with Path("shipped.txt").open("a") as shipped:
        shipped.write(f"{order_id}\n")
    return f"shipped {order_id}"
