"""The command line treats the guarded tasks of a framework like triggers."""

from pathlib import Path

import pytest

from history import MemoryHistory, Message
from tests.acceptance.command_line import CommandLine
from tests.fixtures.histories import with_store
from triggers.guards import protect
from triggers.guards.host import TaskGuards, called_with

DRAMATIQ = """
import dramatiq
from dramatiq.brokers.stub import StubBroker
from pathlib import Path
from triggers.guards.dramatiq import guarded

broker = StubBroker()
broker.add_middleware(guarded(history="{history}"))

@dramatiq.actor(broker=broker)
def book(order):
    with Path("effects").open("a") as file:
        file.write(order)
"""

CELERY = """
from celery import Celery
from pathlib import Path
from triggers.guards.celery import guarded

app = Celery("shop", broker="memory://", task_cls=guarded(history="{history}"))

@app.task(name="book")
def book(order):
    with Path("effects").open("a") as file:
        file.write(order)
"""

BOUND = CELERY.replace('name="book"', 'name="book", bind=True').replace("book(order)", "book(self, order)")

TASKIQ = """
from pathlib import Path
from taskiq import InMemoryBroker
from triggers.guards.taskiq import guarded

broker = InMemoryBroker()
broker.add_middlewares(guarded(history="{history}"))

@broker.task(task_name="book")
async def book(order: str):
    with Path("effects").open("a") as file:
        file.write(order)
"""

FASTSTREAM = """
from faststream.rabbit import RabbitBroker
from triggers.guards.faststream import guarded

broker = guarded(RabbitBroker(), history="{history}", uuid="order")

@broker.subscriber("orders")
async def book(order: str): ...
"""


def _die() -> None:
    raise KeyboardInterrupt


def in_doubt(url: str, body: object) -> None:
    """Park a task that is In Doubt: nobody knows whether it has run."""
    guard = protect("book", history=url, lease=None)
    with pytest.raises(KeyboardInterrupt):
        guard.handle("one", _die, body=body)
    assert guard.handle("one", _die, body=body).parked
    guard.close()


@pytest.mark.parametrize(
    "application", [DRAMATIQ, CELERY, BOUND, TASKIQ], ids=["dramatiq", "celery", "bound", "taskiq"]
)
def test_a_parked_task_is_run(tmp_path: Path, redis_url: str, application: str) -> None:
    (tmp_path / "guarded_shop.py").write_text(application.format(history=redis_url))
    in_doubt(redis_url, called_with("task", "book", ["1"], {}))

    words = ["parked", "run", "guarded_shop", "--uuid", "one", "--yes", "--json"]
    ran = CommandLine(tmp_path)(*words, "--history", redis_url)

    assert ran.code == 0, ran.err
    assert ran.json[0]["executed"]
    assert (tmp_path / "effects").read_text() == "1"
    assert with_store(redis_url, lambda store: store.parking.list()) == []


def test_the_guarantees_of_tasks_are_said(tmp_path: Path) -> None:
    for name, application in (("d", DRAMATIQ), ("c", CELERY), ("t", TASKIQ), ("f", FASTSTREAM)):
        named = application.replace('"book"', f'"book-{name}"').format(history="sqlite:///shop.sqlite3")
        (tmp_path / f"shop_{name}.py").write_text(named)
    modules = "\n".join(f"from shop_{name} import book as {name}" for name in "dctf")
    (tmp_path / "guarded_shop.py").write_text(modules)

    said = CommandLine(tmp_path)("guarantees", "guarded_shop", "--json").json

    assert {row["trigger"] for row in said} >= {"book", "book-c", "book-t", "book@orders"}
    assert {row["guarantee"] for row in said} == {"in doubt"}


def test_arguments_that_were_not_kept_as_they_were_are_not_run() -> None:
    ran: list[object] = []
    history = MemoryHistory()
    guards = TaskGuards("celery", history, {})
    guards.tasks = lambda: {"book": ran.append}
    [trigger] = guards.triggers()

    outcome = trigger.handle(Message(uuid="1", body=called_with("task", "book", [object()], {})))

    assert ran == []
    assert "send it anew" in str(outcome.error)
