"""Celery retries, continues and replaces tasks, all under the id of a task that has already run."""

import importlib
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from history import MemoryHistory
from tests.fixtures.waiting import PATIENCE, eventually

#: As Any: Celery tells no types.
celery: Any = importlib.import_module("celery")
signals: Any = importlib.import_module("celery.signals")
start_worker: Any = importlib.import_module("celery.contrib.testing.worker").start_worker


class Shop:
    """An application in this process, its runs, and the number of messages that its worker finished."""

    def __init__(self, **options: Any) -> None:
        guarded: Any = importlib.import_module("triggers.guards.celery").guarded
        self.app = celery.Celery(
            f"again-{uuid4().hex}",
            broker="memory://",
            backend="cache+memory://",
            task_cls=guarded(**{"history": MemoryHistory(), **options}),
        )
        self.app.conf.broker_transport_options = {"polling_interval": 0.01}
        self.did: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()

    @contextmanager
    def works(self) -> Generator[None]:
        def leave_logging_alone(**_about: Any) -> None:
            """Keep Celery from setting up the logs of this process."""

        def count(sender: Any, **_about: Any) -> None:
            self.messages[sender.name.rpartition(".")[2]] += 1

        signals.setup_logging.connect(leave_logging_alone)
        signals.task_postrun.connect(count)
        try:
            with start_worker(self.app, pool="threads", concurrency=2, perform_ping_check=False):
                yield
        finally:
            signals.task_postrun.disconnect(count)
            signals.setup_logging.disconnect(leave_logging_alone)
            self.app.close()

    def task(self, **options: Any) -> Any:
        """Return a decorator for a task that only this application has."""
        return self.app.task(shared=False, **options)


def test_what_is_linked_to_a_task_runs_once_although_the_task_comes_twice() -> None:
    shop = Shop()

    @shop.task()
    def note(*_about: Any) -> None:
        shop.did["note"] += 1

    @shop.task()
    def book(order: str) -> str:
        shop.did["book"] += 1
        return order

    linked = {
        "one": (note.s, 1),
        "two": (lambda: [note.s(), note.s()], 2),
        "chain": (lambda: note.s() | note.si(), 2),
        "group": (lambda: celery.group(note.s(), note.s()), 2),
        "chord": (lambda: celery.chord([note.s(), note.s()], note.s()), 3),
    }

    with shop.works():
        for canvas, notes in linked.values():
            task_id = uuid4().hex  # the whole process shares Celery's backend in memory
            for _copy in range(2):
                due = shop.messages["note"] + notes
                book.apply_async(["o-1"], task_id=task_id, link=canvas())
                eventually(lambda due=due: shop.messages["note"] == due)  # type: ignore[misc]

    assert shop.did == {"book": 5, "note": 10}


def test_a_retry_that_was_sent_runs_however_the_run_that_sent_it_ends() -> None:
    shop = Shop()

    @shop.task(bind=True)
    def poll(self: Any, ends: str) -> str:
        shop.did[ends] += 1
        if self.request.retries:
            return "done"
        try:
            self.retry(countdown=0, throw=ends == "catches")
        except celery.exceptions.Retry:
            return "caught"
        if ends == "fails":
            raise OSError("gone")
        return "again"

    with shop.works():
        for ends in ("returns", "catches", "fails"):
            poll.delay(ends)
        eventually(lambda: shop.messages["poll"] == 6)

    assert shop.did == {"returns": 2, "catches": 2, "fails": 2}


@pytest.mark.parametrize("requeue", [False, True])
def test_a_task_that_rejects_itself_runs_at_its_next_delivery(*, requeue: bool) -> None:
    shop = Shop()

    @shop.task(bind=True)
    def pick(self: Any) -> str:
        shop.did["pick"] += 1
        if shop.did["pick"] == 1:
            raise celery.exceptions.Reject("not now", requeue=requeue)
        return str(self.request.id)

    with shop.works():
        pick.apply_async(task_id=(task_id := uuid4().hex))
        eventually(lambda: shop.messages["pick"] >= 1)
        if not requeue:  # a dead-letter queue brings it back
            pick.apply_async(task_id=task_id)
        eventually(lambda: shop.messages["pick"] == 2)

    assert shop.did == {"pick": 2}


def test_tasks_that_replace_each_other_in_turn_go_on() -> None:
    shop = Shop()

    @shop.task(bind=True)
    def even(self: Any, number: int) -> Any:
        shop.did[f"even-{number}"] += 1
        return self.replace(odd.s(number + 1))

    @shop.task(bind=True)
    def odd(self: Any, number: int) -> Any:
        shop.did[f"odd-{number}"] += 1
        return "end" if number == 3 else self.replace(even.s(number + 1))

    with shop.works():
        assert even.delay(0).get(timeout=PATIENCE) == "end"

    assert shop.did == {"even-0": 1, "odd-1": 1, "even-2": 1, "odd-3": 1}


def test_a_retry_with_other_arguments_is_compared_by_those_of_the_first() -> None:
    shop = Shop(fingerprint="arguments")
    given_up = importlib.import_module("triggers.guards.celery").GivenUpError

    @shop.task(bind=True, uuid="order")
    def read(self: Any, order: str, cursor: int) -> int:
        shop.did[order] += 1
        if cursor < 3:
            raise self.retry(args=(order, cursor + 1), headers={"mine": "yes"}, countdown=0)
        return cursor

    with shop.works():
        assert read.delay("o-1", 1).get(timeout=PATIENCE) == 3
        with pytest.raises(given_up, match=r"\(row 23\)"):
            read.delay("o-1", 2).get(timeout=PATIENCE)

    assert shop.did == {"o-1": 3}


def test_map_and_chunks_run_and_a_parameter_may_be_called_task() -> None:
    shop = Shop()

    @shop.task()
    def book(task: str) -> str:
        return f"booked {task}"

    with shop.works():
        assert book.map(["a", "b"]).delay().get(timeout=PATIENCE) == ["booked a", "booked b"]
        assert book.chunks([("a",), ("b",)], 2).delay().get(timeout=PATIENCE) == [["booked a", "booked b"]]
        assert book.delay(task="c").get(timeout=PATIENCE) == "booked c"
