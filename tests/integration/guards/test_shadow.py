"""In shadow mode all tasks and copies of each framework run as before. The log names the copies."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from history import MemoryHistory
from history.bridge import drive
from triggers.guards.celery import guarded as celery_guarded
from triggers.guards.dramatiq import guarded as dramatiq_guarded
from triggers.guards.faststream import guarded as faststream_guarded
from triggers.guards.taskiq import guarded as taskiq_guarded

#: As Any: hosts tell few types.
celery: Any = import_module("celery")
dramatiq: Any = import_module("dramatiq")
rabbit: Any = import_module("faststream.rabbit")
taskiq: Any = import_module("taskiq")

Work = Callable[[str], Any]


def _celery(history: MemoryHistory, work: Work) -> None:
    app = celery.Celery("shop", broker="memory://")
    task = app.task(name="book", shared=False, base=celery_guarded(history=history, shadow=True))(work)
    assert not task.acks_late, "in shadow the guard leaves the host's settings as they are"
    for _ in range(2):
        assert task.apply(args=("N-1",), task_id="one").get() == "booked"


def _dramatiq(history: MemoryHistory, work: Work) -> None:
    broker = import_module("dramatiq.brokers.stub").StubBroker()
    broker.emit_after("process_boot")
    broker.add_middleware(dramatiq_guarded(history=history, shadow=True))
    actor = dramatiq.actor(broker=broker, actor_name="book", max_retries=0)(work)
    worker = import_module("dramatiq.worker").Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()
    for _ in range(2):
        broker.enqueue(actor.message("N-1").copy(message_id="one"))
    broker.join("default")
    worker.join()
    worker.stop()


def _taskiq(history: MemoryHistory, work: Work) -> None:
    async def run() -> None:
        broker = taskiq.InMemoryBroker(await_inplace=True)
        broker.add_middlewares(taskiq_guarded(history=history, shadow=True))

        async def book(order: str) -> Any:
            return work(order)

        task = broker.task(task_name="book")(book)
        for _ in range(2):
            sent = await task.kicker().with_task_id("one").kiq("N-1")
            assert (await sent.wait_result()).return_value == "booked"
        await broker.shutdown()

    asyncio.run(run())


def _faststream(history: MemoryHistory, work: Work) -> None:
    async def run() -> None:
        broker = rabbit.RabbitBroker(logger=None)
        faststream_guarded(broker, history=history, uuid="uuid", shadow=True)

        async def book(order: str) -> None:
            work(order)

        broker.subscriber("orders")(book)
        async with rabbit.TestRabbitBroker(broker) as tested:
            for _ in range(2):
                await tested.publish("N-1", "orders", headers={"uuid": "one"})

    asyncio.run(run())


@pytest.mark.parametrize("host", [_celery, _dramatiq, _taskiq, _faststream])
def test_a_copy_runs_as_it_did_before(
    host: Callable[[MemoryHistory, Work], None], caplog: pytest.LogCaptureFixture
) -> None:
    history, booked = MemoryHistory(), list[str]()

    def book(order: str) -> str:
        booked.append(order)
        return "booked"

    host(history, book)

    assert booked == ["N-1", "N-1"]
    lines = [line for line in caplog.messages if line.startswith("one: in shadow it runs")]
    assert lines == ["one: in shadow it runs; without: DUPLICATE: it already ran; not run again"]
    assert drive(history.parking.list()) == []


def test_a_task_whose_key_cannot_be_read_runs(caplog: pytest.LogCaptureFixture) -> None:
    app = celery.Celery("shop", broker="memory://")
    base = celery_guarded(history=MemoryHistory(), shadow=True)

    def book(order: str) -> str:
        return order

    task = app.task(name="book", shared=False, base=base, uuid="order_id")(book)

    assert task.apply(args=("N-1",)).get() == "N-1"
    assert "book: in shadow it runs; without: no uuid can be read" in caplog.text


def test_a_retry_of_the_host_is_called_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    app = celery.Celery("shop", broker="memory://")
    tries: list[int] = []

    def book(task: Any) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise task.retry(countdown=0)
        return "booked"

    history = MemoryHistory()
    task = app.task(name="book", shared=False, bind=True, base=celery_guarded(history=history))(book)

    assert task.apply(task_id="one").get() == "booked"
    assert "one FAILED: " in caplog.text
    assert "suspended" not in caplog.text
