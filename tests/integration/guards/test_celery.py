"""Guarded tasks in Celery's own workers on a real broker, and settings that are refused."""

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

from history import MemoryHistory, open_history
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.ledger import Ledger
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import PATIENCE, eventually

pytestmark = pytest.mark.xdist_group("rabbitmq")

APPLICATION = "tests.integration.guards.hosts.celery_app"

ROOT = Path(__file__).parents[3]

#: As Any: Celery tells no types.
celery: Any = importlib.import_module("celery")
celery_worker: Any = importlib.import_module("celery.worker")

#: How many processes each worker has.
CHILDREN = 3


class Shop:
    """The application, and its workers."""

    def __init__(self, folder: Path, broker: str, history: str) -> None:
        self.effects = Ledger(folder / "effects")
        self.history = history
        self.log = folder / "workers.log"
        self.names = {
            "BROKER": broker,
            "HISTORY": history,
            "EFFECTS": str(self.effects.file),
            "QUEUE": f"celery-{uuid4().hex}",
            "GUARDED": "yes",
            "RESULTS": "yes",
        }
        self.environment = {**os.environ, **self.names}
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        words = ["-m", "celery", "-A", APPLICATION, "worker"]
        words += [
            "--concurrency",
            str(CHILDREN),
            "--without-gossip",
            "--without-mingle",
            "--loglevel",
            "INFO",
        ]
        with self.log.open("ab") as log:
            # In its own process group, so that a kill ends it as a whole, like a container.
            worker = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(worker)

    def end(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


@pytest.fixture
def shop(
    tmp_path: Path, rabbitmq_server: RabbitmqServer, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    # Not Redis: if a worker dies while it fetches a task, Celery's Redis transport may lose that task.
    shop = Shop(tmp_path, f"amqp://{rabbitmq_server.address}/", redis_url)
    for name, value in shop.names.items():
        monkeypatch.setenv(name, value)
    try:
        yield shop
    finally:
        shop.end()


@pytest.fixture
def tasks(shop: Shop) -> Iterator[Any]:
    """The tasks of a publisher. The module is imported again to read its servers from the environment."""
    del shop
    for name in (APPLICATION, f"{APPLICATION.rpartition('.')[0]}.work"):
        sys.modules.pop(name, None)
    application: Any = importlib.import_module(APPLICATION)
    yield application
    application.app.close()


@pytest.mark.timeout(300)
def test_chains_retries_results_and_failures_are_as_without_the_guard(shop: Shop, tasks: Any) -> None:
    shop.start()
    chained = (tasks.step.s([], "a") | tasks.step.s("b") | tasks.step.s("c"))()

    assert chained.get(timeout=120) == ["a", "b", "c"]
    assert tasks.flaky.delay().get(timeout=120) == "done"
    assert [words[1] for words in shop.effects.lines() if words[0] == "try"] == ["0", "1", "2"]
    with pytest.raises(ValueError, match="no such card"):
        tasks.broken.delay("1").get(timeout=120)
    assert _parked(shop.history).message.body == {"task": "broken", "args": ["1"], "kwargs": {}}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("canvas", ["plain", "chained"])
@pytest.mark.parametrize("dies", [False, pytest.param(True, marks=pytest.mark.crash)])
def test_a_task_that_is_replaced_by_itself_goes_on(
    shop: Shop, tasks: Any, tmp_path: Path, *, canvas: str, dies: bool
) -> None:
    """Celery gives the new task the old task's id, and runs the link of the first task after the last."""
    if dies:  # after the first page was read and replaced, before Celery has acknowledged it
        shop.environment["DIES_ONCE"] = str(tmp_path / "died")
    shop.start()

    read = (tasks.pages.s(1, canvas) | tasks.step.si([], "after"))()

    assert read.get(timeout=PATIENCE) == ["after"]
    counts = Counter(words[0] for words in shop.effects.lines())
    assert [counts[f"page-{page}"] for page in (1, 2, 3)] == [1, 1, 1]
    assert set(counts.values()) == {1}
    assert not dies or (tmp_path / "died").exists()


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_a_chain_goes_on_where_a_process_died_before_it_sent_the_next_link(
    shop: Shop, tasks: Any, tmp_path: Path
) -> None:
    died = tmp_path / "died"
    shop.environment["DIES_ONCE"] = str(died)
    shop.start()

    chained = (tasks.step.s([], "a") | tasks.step.s("b") | tasks.step.s("c"))()

    assert chained.get(timeout=PATIENCE) == ["a", "b", "c"]
    assert died.exists()
    assert sorted(shop.effects.counts().values()) == [1, 1, 1]


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_so_it_does_without_a_result_backend_where_the_history_keeps_results(
    shop: Shop, tasks: Any, tmp_path: Path
) -> None:
    died = tmp_path / "died"
    shop.environment |= {"DIES_ONCE": str(died), "KEEP": "yes", "RESULTS": "no"}
    tasks.app.conf.task_ignore_result = True
    shop.start()

    (tasks.step.s([], "a") | tasks.step.s("b") | tasks.step.s("c"))()

    eventually(lambda: len(shop.effects.counts()) == 3, PATIENCE)
    assert died.exists()
    assert sorted(shop.effects.counts().values()) == [1, 1, 1]


@pytest.mark.timeout(300)
def test_processes_of_the_pool_report_their_counts_before_they_end(shop: Shop, tasks: Any) -> None:
    shop.start()
    sent = [tasks.book.delay(f"order-{n}") for n in range(9)]
    assert [one.get(timeout=120) for one in sent] == [f"booked order-{n}" for n in range(9)]

    (worker,) = shop.workers
    os.kill(worker.pid, signal.SIGTERM)
    worker.wait()

    store = open_history(shop.history)
    found = drive(store.control.overview())
    assert found.statistics["book"].new == 9
    assert not found.had_consumer("book")
    drive(store.close())


@pytest.mark.timeout(300)
def test_a_copy_with_the_same_id_gets_the_first_result(shop: Shop, tasks: Any) -> None:
    shop.start()
    first = tasks.book.apply_async(["order-1"], task_id="one")
    assert first.get(timeout=120) == "booked order-1"

    tasks.book.apply_async(["order-1"], task_id="one")
    eventually(lambda: _count(shop.log, "succeeded in") == 2)

    assert shop.effects.counts() == Counter({"order-1": 1})


@pytest.mark.crash
@pytest.mark.timeout(300)
def test_a_task_that_its_time_limit_kills_is_in_doubt(shop: Shop, tasks: Any) -> None:
    """Celery acknowledges such a task, so the guard must park it. Otherwise nobody would know about it."""
    shop.start()

    tasks.stuck.delay()

    kept = eventually(lambda: _parked(shop.history), PATIENCE)
    assert (kept.trigger_name, kept.message.body["args"]) == ("stuck", [])
    assert len(shop.effects.lines()) == 1


def _parked(history: str) -> Any:
    kept = with_store(history, lambda store: store.parking.list())
    return kept[0] if kept else None


def _count(log: Path, words: str) -> int:
    return log.read_text(errors="replace").count(words)


def _be_green(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look like a process that gevent has patched. A real patch would stay for the rest of the process."""
    patched: Any = ModuleType("gevent.monkey")
    patched.is_module_patched = {"threading"}.__contains__
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)
    # Celery would share the guarded tasks of other tests with this application.
    monkeypatch.setattr("celery._state._on_app_finalizers", set[Any]())
    # A worker sets this for its whole process.
    monkeypatch.setattr("celery._state._task_join_will_block", False)


def _pay(order: str) -> None:
    del order


class TestSettings:
    """Settings that lose tasks or cannot work are refused."""

    @pytest.mark.parametrize("setting", ["acks_late", "reject_on_worker_lost"])
    def test_settings_that_lose_tasks_are_refused(self, tasks: Any, setting: str) -> None:
        def lossy() -> None: ...

        base = tasks.book.__class__.__mro__[1]
        with pytest.raises(ValueError, match=f"task lossy: {setting}: is off"):
            tasks.app.task(base=base, name="lossy", lazy=False, shared=False, **{setting: False})(lossy)

    def test_a_worker_of_green_threads_does_not_start(
        self, lone: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lone.task(name="pay-on-threads", shared=False)(_pay)
        unguarded = celery.Celery("unguarded", broker="memory://")
        _be_green(monkeypatch)

        with pytest.raises(SystemExit, match=r"gevent and eventlet are not supported.*--pool threads"):
            celery_worker.WorkController(app=lone, pool="solo")
        celery_worker.WorkController(app=unguarded, pool="solo")

    def test_in_shadow_it_starts_and_says_what_it_would_be_refused_for(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        base = importlib.import_module("triggers.guards.celery").guarded(history=MemoryHistory(), shadow=True)
        app = celery.Celery("shadowed", broker="memory://", task_cls=base)
        app.task(name="pay-on-threads", shared=False)(_pay)
        _be_green(monkeypatch)

        celery_worker.WorkController(app=app, pool="solo")

        assert "gevent and eventlet are not supported" in caplog.text

    def test_a_plain_call_runs_the_function(self, shop: Shop, tasks: Any) -> None:
        assert tasks.book("order-1") == "booked order-1"
        assert tasks.book("order-1") == "booked order-1"
        assert shop.effects.counts() == Counter({"order-1": 2})


def test_options_are_checked_where_the_user_wrote_them() -> None:
    from triggers.guards.celery import guarded  # noqa: PLC0415  (needs Celery)

    wrong: Callable[..., Any] = guarded
    with pytest.raises(ValueError, match=r"lease.*test_celery\.py"):
        wrong(history="memory://", lease=3)
    with pytest.raises(ValueError, match=r"^history.*test_celery\.py"):
        wrong(history="redsi://127.0.0.1")


@pytest.fixture
def lone() -> Iterator[Any]:
    """An application without a broker and, as Celery is by default, without a result backend."""
    guarded = importlib.import_module("triggers.guards.celery").guarded
    app = celery.Celery(f"lone-{uuid4().hex}", broker="memory://", task_cls=guarded(history=MemoryHistory()))
    yield app
    app.close()


def test_what_a_task_calls_of_itself_is_a_part_of_its_run(lone: Any) -> None:
    def factorial(number: int) -> Any:
        return 1 if number <= 1 else number * task(number - 1)

    task = lone.task(name="factorial", shared=False)(factorial)

    assert task.apply(args=(5,), task_id="f-1").get() == 120


def test_a_duplicate_without_a_result_backend_is_ignored(lone: Any) -> None:
    paid: list[str] = []

    def pay(order: str) -> None:
        paid.append(order)

    task = lone.task(name="pay", shared=False, uuid="order")(pay)

    states = [task.apply(args=("o-1",), task_id=task_id).state for task_id in ("a", "b")]

    assert (states, paid) == (["SUCCESS", "IGNORED"], ["o-1"])
