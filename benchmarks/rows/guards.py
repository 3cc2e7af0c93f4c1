"""Compares guarded tasks with bare tasks, in each framework's worker or test broker."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any
from uuid import uuid4

from benchmarks.bench import Bench
from benchmarks.measuring import Pass
from benchmarks.result import Result, durations
from history.message import Message
from triggers.guards import celery as celery_guard
from triggers.guards import dramatiq as dramatiq_guard
from triggers.guards import faststream as faststream_guard
from triggers.guards import taskiq as taskiq_guard
from triggers.guards.http import IdempotencyKey

#: The most rounds: there are five frameworks, with three competitors each.
ROUNDS = 20

#: As Any: frameworks have few types.
celery: Any = import_module("celery")
dramatiq: Any = import_module("dramatiq")
taskiq: Any = import_module("taskiq")


def measure(bench: Bench) -> Iterable[Result]:
    """Measure tasks that do nothing, one after the other, each with a new id."""
    yield from _http(bench)
    for host, make in (
        ("Celery", _celery),
        ("Dramatiq", _dramatiq),
        ("Taskiq", _taskiq),
        ("FastStream", _fast),
    ):
        passes: dict[str, Pass[Message]] = {
            "guarded": make(bench.server.url),
            "in shadow": make(bench.server.url, shadow=True),
            "bare": make(None),
        }
        times = bench.rounds(most=ROUNDS).run(f"a guarded task of {host}", bench.fresh, passes)
        beside = "the same task without a guard, no broker in between"
        for name, what in (
            ("guarded", f"a guarded task of {host}"),
            ("in shadow", f"a task of {host} in shadow"),
        ):
            yield durations(times, name, "bare", what=what, beside=beside)


def _http(bench: Bench) -> Iterable[Result]:
    """Measure requests that do nothing, each with a new key."""
    passes: dict[str, Pass[Message]] = {
        "guarded": _asgi(bench.server.url),
        "in shadow": _asgi(bench.server.url, shadow=True),
        "bare": _asgi(None),
    }
    times = bench.rounds(most=ROUNDS).run("a guarded request", bench.fresh, passes)
    for name, what in (("guarded", "a guarded HTTP request"), ("in shadow", "an HTTP request in shadow")):
        beside = "the same bare ASGI application, no server in between"
        yield durations(times, name, "bare", what=what, beside=beside)


def _asgi(history: str | None, *, shadow: bool = False) -> Pass[Message]:
    app: Any = _answer if history is None else IdempotencyKey(_answer, history=history, shadow=shadow)
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}

    async def run(messages: Sequence[Message]) -> None:
        for message in messages:
            headers = [(b"idempotency-key", str(message.uuid).encode()), (b"x-api-key", b"shop")]
            await app({**scope, "headers": headers}, _receive, _send)

    return _on(asyncio.new_event_loop(), run)


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    del scope
    await receive()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def _send(event: Any) -> None:
    del event


def _celery(history: str | None, *, shadow: bool = False) -> Pass[Message]:
    app = celery.Celery(f"bench-{uuid4().hex}", broker="memory://")
    options = {} if history is None else {"base": celery_guard.guarded(history=history, shadow=shadow)}
    task = app.task(name="idle", **options)(_idle)
    return lambda messages: [task.apply(args=("x",), task_id=message.uuid) for message in messages]


def _dramatiq(history: str | None, *, shadow: bool = False) -> Pass[Message]:
    broker = import_module("dramatiq.brokers.stub").StubBroker()
    broker.emit_after("process_boot")
    if history is not None:
        broker.add_middleware(dramatiq_guard.guarded(history=history, shadow=shadow))
    actor = dramatiq.actor(broker=broker, actor_name="idle", max_retries=0)(_idle)
    worker = import_module("dramatiq.worker").Worker(broker, worker_timeout=10, worker_threads=1)
    worker.start()

    def run(messages: Sequence[Message]) -> None:
        for message in messages:
            broker.enqueue(actor.message("x").copy(message_id=message.uuid))
        broker.join("default")
        worker.join()

    return run


def _taskiq(history: str | None, *, shadow: bool = False) -> Pass[Message]:
    broker = taskiq.InMemoryBroker(await_inplace=True)
    if history is not None:
        broker.add_middlewares(taskiq_guard.guarded(history=history, shadow=shadow))
    task = broker.task(task_name="idle")(_aidle)

    async def run(messages: Sequence[Message]) -> None:
        for message in messages:
            await task.kicker().with_task_id(message.uuid).kiq("x")

    return _on(asyncio.new_event_loop(), run)


def _fast(history: str | None, *, shadow: bool = False) -> Pass[Message]:
    rabbit: Any = import_module("faststream.rabbit")
    broker = rabbit.RabbitBroker(logger=None)
    if history is not None:
        faststream_guard.guarded(broker, history=history, uuid="uuid", shadow=shadow)
    broker.subscriber("orders")(_aidle)

    loop = asyncio.new_event_loop()
    tested = loop.run_until_complete(rabbit.TestRabbitBroker(broker).__aenter__())

    async def run(messages: Sequence[Message]) -> None:
        for message in messages:
            await tested.publish("x", "orders", headers={"uuid": message.uuid})

    return _on(loop, run)


def _on(loop: asyncio.AbstractEventLoop, run: Callable[[Sequence[Message]], Any]) -> Pass[Message]:
    return lambda messages: loop.run_until_complete(run(messages))


def _idle(order: str) -> None:
    del order


async def _aidle(order: str) -> None:
    del order
