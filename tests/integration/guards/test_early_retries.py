"""A framework may send a retry before the run that asked for it has ended and released its claim."""

import asyncio
import importlib
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from taskiq import Context, InMemoryBroker, TaskiqDepends
from taskiq.exceptions import NoResultError

from history import Claim, MemoryHistory
from tests.fixtures.waiting import PATIENCE, eventually
from triggers.guards.taskiq import guarded

#: Longer than a test may take.
LEASE = timedelta(days=1)


class Watched(MemoryHistory):
    """Notices the second claim of a uuid."""

    def __init__(self) -> None:
        super().__init__()
        self._claims = 0
        self.asked_again = threading.Event()

    async def claim(self, *words: Any, **terms: Any) -> Sequence[Claim]:
        found = await super().claim(*words, **terms)
        self._claims += 1
        if self._claims > 1:
            self.asked_again.set()
        return found


def test_a_retry_of_celery_that_comes_at_once_waits_for_no_lease() -> None:
    celery: Any = importlib.import_module("celery")
    signals: Any = importlib.import_module("celery.signals")
    start_worker: Any = importlib.import_module("celery.contrib.testing.worker").start_worker
    guarded_task: Any = importlib.import_module("triggers.guards.celery").guarded
    history = Watched()
    base = guarded_task(history=history, lease=LEASE)
    app = celery.Celery(f"early-{uuid4().hex}", broker="memory://", task_cls=base)
    app.conf.broker_transport_options = {"polling_interval": 0.01}
    sent: list[str] = []
    done: list[str] = []

    def impatient(task: Any) -> None:
        if not task.request.retries:
            again = task.retry(countdown=0, throw=False)
            assert history.asked_again.wait(PATIENCE)
            raise again
        done.append(task.request.id)

    def note(**about: Any) -> None:
        sent.append(about["headers"]["id"])

    task = app.task(bind=True, name="impatient", shared=False)(impatient)

    def leave_logging_alone(**_about: Any) -> None:
        """Keep Celery from setting up the logs of this process."""

    signals.before_task_publish.connect(note)
    signals.setup_logging.connect(leave_logging_alone)
    try:
        with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False):
            task.apply_async(task_id="one")
            eventually(lambda: done or len(sent) > 2)
    finally:
        signals.before_task_publish.disconnect(note)
        signals.setup_logging.disconnect(leave_logging_alone)
        app.close()

    assert (done, sent) == (["one"], ["one", "one"]), "the first, its retry, and no third for a later time"


async def test_a_task_of_taskiq_that_puts_itself_back_waits_for_no_lease() -> None:
    history = Watched()
    broker: Any = InMemoryBroker()
    broker.add_middlewares(guarded(history=history, lease=LEASE))
    tries: list[str] = []

    async def picky(context: Context = TaskiqDepends()) -> str:  # noqa: B008  (as Taskiq has it)
        tries.append("try")
        if len(tries) == 1:
            try:
                await context.requeue()
            except NoResultError:
                await asyncio.to_thread(history.asked_again.wait, PATIENCE)
                raise
        return "done"

    picky.__annotations__["context"] = Context
    await broker.startup()
    sent = await broker.task(task_name="picky")(picky).kiq()
    result = await sent.wait_result(timeout=PATIENCE)
    await broker.shutdown()

    assert (result.return_value, len(tries)) == ("done", 2)
