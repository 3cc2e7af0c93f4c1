"""Celery's own workers on a real broker: each task has its effect once, however often they are killed."""

import contextlib
import importlib
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from history.bridge import drive
from history.opening import open_history
from tests.fixtures.ledger import Ledger
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import eventually

pytestmark = pytest.mark.xdist_group("rabbitmq")

APPLICATION = "tests.integration.guards.celery_app"

ROOT = Path(__file__).parents[3]

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
            # In a group of its own, so that a kill is one of the whole container.
            worker = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(worker)

    def kill(self) -> None:
        """Kill a worker with its children, and start another."""
        victim = self.workers.pop(0)
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
        self.start()

    def end(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    def undecided(self, task: str, keys: Iterable[str]) -> Collection[str]:
        """Return the keys that are neither done nor kept for a person."""
        store = open_history(self.history)
        known = sorted(keys)
        entries = drive(store.lookup(task, known))
        parked = {one.uuid for one in drive(store.parking.list(trigger=task))}
        drive(store.close())
        done = {key for key, entry in zip(known, entries, strict=True) if entry and entry.outcome}
        return set(known) - done - parked


@pytest.fixture
def shop(
    tmp_path: Path, rabbitmq_server: RabbitmqServer, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    # Not Redis: there Celery's own transport may lose a task whose worker dies while it fetches.
    shop = Shop(tmp_path, f"amqp://{rabbitmq_server.address}//", redis_url)
    for name, value in shop.names.items():
        monkeypatch.setenv(name, value)
    try:
        yield shop
    finally:
        shop.end()


@pytest.fixture
def tasks(shop: Shop) -> Iterator[Any]:
    """The tasks, as a publisher has them: a module anew, for its servers are in the environment."""
    del shop
    sys.modules.pop(APPLICATION, None)
    application: Any = importlib.import_module(APPLICATION)
    yield application
    application.app.close()


def killing(shop: Shop, kills: int, total: int, chance: random.Random) -> None:
    """Kill workers at so many moments, spread over the effects."""
    for due in sorted(chance.sample(range(1, total * 3 // 4), kills)):
        eventually(lambda due=due: shop.effects.count() >= due)  # type: ignore[misc]
        shop.kill()


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_tasks_that_are_sent_twice_to_workers_that_are_killed_have_one_effect(shop: Shop, tasks: Any) -> None:
    orders, kills = 150, 3
    chance = random.Random(random.randrange(2**32))  # noqa: S311  (no secret)
    sent = [f"order-{n}" for n in range(orders)]
    sent += chance.sample(sent, orders // 5)
    chance.shuffle(sent)
    for order in sent:
        tasks.book.delay(order)
    shop.start()
    shop.start()

    killing(shop, kills, orders, chance)
    eventually(lambda: not shop.undecided("book", sent))

    effects = shop.effects.counts()
    assert max(effects.values()) == 1, effects.most_common(3)
    assert len(effects) >= orders - kills * CHILDREN, "what was running at a kill may not have begun"


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.prove
def test_without_a_guard_the_same_has_two_effects(shop: Shop, tasks: Any) -> None:
    orders = 150
    for number in range(orders):
        tasks.book_unguarded.delay(f"order-{number}")
    shop.start()
    shop.start()

    killing(shop, 4, orders, random.Random(7))  # noqa: S311  (no secret)

    eventually(lambda: max(shop.effects.counts().values()) > 1)


@pytest.mark.timeout(300)
def test_chains_retries_results_and_failures_are_as_without_the_guard(shop: Shop, tasks: Any) -> None:
    shop.start()
    chained = (tasks.step.s([], "a") | tasks.step.s("b") | tasks.step.s("c"))()

    assert chained.get(timeout=120) == ["a", "b", "c"]
    assert tasks.flaky.delay().get(timeout=120) == "done"
    assert [words[1] for words in shop.effects.lines() if words[0] == "try"] == ["0", "1", "2"]
    with pytest.raises(ValueError, match="no such card"):
        tasks.broken.delay().get(timeout=120)


@pytest.mark.timeout(300)
def test_a_copy_with_the_same_id_gets_the_first_result(shop: Shop, tasks: Any) -> None:
    shop.start()
    first = tasks.book.apply_async(["order-1"], task_id="one")
    assert first.get(timeout=120) == "booked order-1"

    tasks.book.apply_async(["order-1"], task_id="one")
    eventually(lambda: _count(shop.log, "succeeded in") == 2)

    assert shop.effects.counts() == Counter({"order-1": 1})


def _count(log: Path, words: str) -> int:
    return log.read_text(errors="replace").count(words)


class TestSettings:
    """What loses a task, or cannot work, is refused."""

    @pytest.mark.parametrize("setting", ["acks_late", "reject_on_worker_lost"])
    def test_settings_that_lose_tasks_are_refused(self, tasks: Any, setting: str) -> None:
        def lossy() -> None: ...

        base = tasks.book.__class__.__mro__[1]
        with pytest.raises(ValueError, match=f"task lossy: {setting}: is off"):
            tasks.app.task(base=base, name="lossy", lazy=False, **{setting: False})(lossy)

    def test_a_plain_call_runs_the_function(self, shop: Shop, tasks: Any) -> None:
        assert tasks.book("order-1") == "booked order-1"
        assert tasks.book("order-1") == "booked order-1"
        assert shop.effects.counts() == Counter({"order-1": 2})


def test_options_are_checked_where_the_user_wrote_them() -> None:
    from triggers.guards.celery import guarded  # noqa: PLC0415  (needs Celery)

    wrong: Callable[..., Any] = guarded
    with pytest.raises(ValueError, match=r"lease.*test_celery\.py"):
        wrong(history="memory://", lease=3)
