"""If the guard of a Celery task fails, the broker delivers the task again. No task is lost."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from history import HistoryUnavailableError, MemoryHistory
from tests.fixtures.waiting import eventually
from tests.integration.guards.test_celery_again import Shop, celery
from triggers import TransientError
from triggers.guards.celery import sending

SoftTimeLimitExceeded: Any = importlib.import_module("celery.exceptions").SoftTimeLimitExceeded


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PAUSE", 0.01)


class Failing(MemoryHistory):
    """A history in which the next calls of one method fail."""

    def __init__(self, method: str, errors: list[Exception]) -> None:
        super().__init__()
        self.method, self.errors = method, errors

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "__dict__").get("method") and self.errors:
            error = self.errors.pop()

            async def fail(*_: Any, **__: Any) -> Any:
                raise error

            return fail
        return super().__getattribute__(name)


@pytest.mark.parametrize("error", [SoftTimeLimitExceeded(), RuntimeError("a bug of a store")])
def test_a_limit_or_a_bug_in_the_guard_has_the_task_delivered_again(error: Exception) -> None:
    history = Failing("claim", [error, error])
    shop = Shop(history=history)

    @shop.task(uuid="order")
    def book(order: str) -> None:
        shop.did[order] += 1

    with shop.works():
        book.delay("o-1")
        eventually(lambda: shop.did == {"o-1": 1})

    assert not history.errors


def test_a_task_with_an_argument_that_no_message_can_hold_runs() -> None:
    shop, argument = Shop(), list[Any]()
    for _ in range(250):
        argument = [argument]

    @shop.task(uuid="order")
    def book(order: str, argument: Any) -> None:
        assert argument
        shop.did[order] += 1

    with shop.works():
        for _ in range(2):
            book.delay("o-1", argument)
        eventually(lambda: sum(shop.messages.values()) == 2)

    assert shop.did == {"o-1": 1}


@pytest.mark.parametrize("away", [False, True])
def test_an_eager_task_that_cannot_run_now_fails_and_says_so(*, away: bool) -> None:
    history = Failing("claim", [HistoryUnavailableError("claiming")] * 9 if away else [])
    shop = Shop(history=history)

    @shop.task(name="book", uuid="order")
    def book(order: str) -> Any:
        shop.did[order] += 1
        return book.apply((order,)).result

    error = book.apply(("o-1",)).result

    assert isinstance(error, TransientError)
    assert str(error).startswith("book: o-1 was not run: ")
    assert shop.did == ({} if away else {"o-1": 1})


def test_a_result_backend_that_is_away_does_not_end_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    failures: Iterator[Exception] = iter([OSError("away"), OSError("away")])

    @shop.task(name="book", uuid="order")
    def book(order: str) -> str:
        shop.did[order] += 1
        return order

    backend: Any = shop.app.backend.__class__
    ask: Any = backend.get_task_meta

    def get_task_meta(self: Any, task_id: str, *more: Any) -> Any:
        for failure in failures:
            raise failure
        return ask(self, task_id, *more)

    with shop.works():
        book.delay("o-1")
        eventually(lambda: shop.did == {"o-1": 1})
        monkeypatch.setattr(backend, "get_task_meta", get_task_meta)
        book.delay("o-1")
        eventually(lambda: shop.messages["book"] == 4)  # the run, and three looks

    assert shop.did == {"o-1": 1}


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_task_that_is_sent_again_is_sent_as_it_came(
    refusals: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A complex number is not JSON, and a task that the broker refuses stays with the broker."""
    shop = Shop(history=Failing("claim", [HistoryUnavailableError("test") for _ in range(2 * refusals + 3)]))
    shop.app.conf.accept_content = ["pickle", "json"]
    refused: list[Any] = []

    def apply_async(self: Any, *args: Any, **options: Any) -> Any:
        if "countdown" in options and len(refused) < refusals:
            refused.append(options)
            raise OSError("refused")
        return celery.Task.apply_async(self, *args, **options)

    base = type("Refusing", (shop.app.Task,), {"abstract": True, "apply_async": apply_async})

    @shop.task(name="book", uuid="order", base=base, bind=True)
    def book(self: Any, order: str, given: Any) -> None:
        assert isinstance(given, complex)
        assert self.request.headers["tenant"] == "a"
        shop.did[order] += 1

    with shop.works():
        book.apply_async(["o-1", complex(1, 2)], serializer="pickle", headers={"tenant": "a"})
        eventually(lambda: shop.did == {"o-1": 1})

    assert len(refused) == refusals
    assert sum("RECOVERED" in text for text in caplog.messages) == refusals
