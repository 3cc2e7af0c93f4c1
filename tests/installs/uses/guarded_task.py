"""A guarded task, run in this process as a worker would: twice, under one id."""

import sys
from importlib import import_module
from typing import Any

from triggers.guards.celery import guarded

#: As Any: Celery has no types.
celery: Any = import_module("celery")

app = celery.Celery("shop", broker="memory://", backend=sys.argv[1])
app.conf.task_always_eager = True
app.conf.task_store_eager_result = True
effects: list[str] = []


@app.task(base=guarded(history=sys.argv[1]))
def book(order: str) -> str:
    """Book an order."""
    effects.append(order)
    return f"booked {order}"


results = [book.apply(["1"], task_id="one").get() for _ in range(2)]
sys.stdout.write(" ".join([*results, str(len(effects))]))
