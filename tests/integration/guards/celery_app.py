"""A Celery application whose tasks have effects in a file; its servers are named by the environment."""

import os
import random
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.fixtures.ledger import Ledger
from triggers.guards.celery import guarded

#: How long each task takes at most, in seconds: it is killed somewhere in there.
LONGEST = 0.05

#: As Any: Celery tells no types.
celery: Any = import_module("celery")

app: Any = celery.Celery("shop", broker=os.environ["BROKER"], backend=os.environ["HISTORY"])
app.conf.task_default_queue = os.environ["QUEUE"]
app.conf.worker_prefetch_multiplier = 2
app.conf.task_ignore_result = False

_effects = Ledger(Path(os.environ["EFFECTS"]))
_base = guarded(history=os.environ["HISTORY"])


def _work(uuid: str) -> None:
    time.sleep(random.uniform(0, LONGEST))  # noqa: S311  (no secret)
    _effects.note(uuid, str(os.getpid()))
    time.sleep(random.uniform(0, LONGEST))  # noqa: S311  (no secret)


@app.task(base=_base, name="book", uuid="order")
def book(order: str) -> str:
    """Book an order, which may be sent under several ids."""
    _work(order)
    return f"booked {order}"


@app.task(name="book-unguarded", acks_late=True, reject_on_worker_lost=True)
def book_unguarded(order: str) -> str:
    """Book an order without a guard."""
    _work(order)
    return f"booked {order}"


@app.task(base=_base, name="step", bind=True)
def step(self: Any, done: list[str], name: str) -> list[str]:
    """Do a link of a chain."""
    _work(f"{self.request.id}")
    return [*done, name]


@app.task(base=_base, name="flaky", bind=True, autoretry_for=(OSError,), retry_backoff=False)
def flaky(self: Any) -> str:
    """Fail twice, and be sent again by Celery."""
    _effects.note("try", str(self.request.retries))
    if self.request.retries < 2:
        raise OSError("busy")
    return "done"


flaky.default_retry_delay = 0


@app.task(base=_base, name="broken")
def broken() -> None:
    """Fail for good."""
    raise ValueError("no such card")
