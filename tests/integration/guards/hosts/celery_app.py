"""A Celery application. Its tasks write effects to a file, and the environment names its servers.

As a program it sends the orders that its input names.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.integration.guards.hosts.work import BROKER, GUARDED, HISTORY, LEASE, QUEUE, effects, work
from triggers import Message, Outcome
from triggers.guards.celery import guarded
from triggers.guards.guard import Guard

#: As Any: Celery tells no types.
celery: Any = import_module("celery")

app: Any = celery.Celery("shop", broker=f"{BROKER}/", backend=HISTORY)
app.conf.task_default_queue = QUEUE
app.conf.worker_prefetch_multiplier = 2
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.task_ignore_result = os.environ.get("RESULTS") != "yes"

_base: Any = guarded(history=HISTORY, lease=LEASE, keep_result=os.environ.get("KEEP") == "yes")
_of_book: dict[str, Any] = (
    {"base": _base, "uuid": "order"} if GUARDED else {"acks_late": True, "reject_on_worker_lost": True}
)


# Not shared with other applications: a second import in a test would register the tasks twice.
@app.task(name="book", shared=False, **_of_book)
def book(order: str) -> str:
    """Book an order, which may be sent under several ids."""
    return work(order)


@app.task(base=_base, name="step", shared=False, bind=True)
def step(self: Any, done: list[str], name: str) -> list[str]:
    work(f"{self.request.id}")
    return [*done, name]


if "DIES_ONCE" in os.environ:  # after the guard's work, before Celery's next step
    _handle = Guard.handle_message

    def _die_once(guard: Guard, message: Message, call: Callable[[], Any], **terms: Any) -> Outcome:
        outcome = _handle(guard, message, call, **terms)
        died = Path(os.environ["DIES_ONCE"])
        if outcome.executed and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    guard_class: Any = Guard
    guard_class.handle_message = _die_once


@app.task(base=_base, name="flaky", shared=False, bind=True, autoretry_for=(OSError,), retry_backoff=False)
def flaky(self: Any) -> str:
    """Fail twice, and be sent again by Celery."""
    effects.note("try", str(self.request.retries))
    if self.request.retries < 2:
        raise OSError("busy")
    return "done"


flaky.default_retry_delay = 0


@app.task(base=_base, name="pages", shared=False, bind=True)
def pages(self: Any, page: int, canvas: str = "plain") -> str:
    """Read a page, and be replaced by itself for the next one, until the third."""
    work(f"page-{page}")
    if page == 3:
        return "read"
    following = self.s(page + 1, canvas)
    if canvas == "chained":
        following = step.si([], "beside") | self.si(page + 1, canvas)
    return str(self.replace(following))


@app.task(base=_base, name="stuck", shared=False, bind=True, time_limit=1)
def stuck(self: Any) -> None:
    """Have an effect, and then go on for longer than Celery lets it."""
    effects.note("stuck", self.request.id)
    time.sleep(600)


@app.task(base=_base, name="broken", shared=False)
def broken(order: str) -> None:
    del order
    raise ValueError("no such card")


if __name__ == "__main__":
    for line in sys.stdin:
        book.delay(line.strip())
    app.close()
