"""Task classes of the user's with Celery's own worker: their ``__call__``, hooks and key functions."""

import operator
from typing import Any

import pytest

from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.guards.test_celery_again import Shop, celery, signals


class PlainMixin:
    """Flask users add such a class to the task class."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        parent: Any = super()
        return f"in context: {parent.__call__(*args, **kwargs)}"


def by_id(order: dict[str, Any]) -> str:
    return str(order["id"])


def nothing() -> None:
    raise AssertionError("must not run")


def calls_run(shop: Shop) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return f"in context: {self.run(*args, **kwargs)}"

    return type("FlaskTask", (shop.app.Task,), {"abstract": True, "__call__": call})


def calls_super(shop: Shop) -> Any:
    return type("MixedTask", (PlainMixin, shop.app.Task), {"abstract": True})


def inherits(shop: Shop) -> Any:
    return type("Inheriting", (calls_run(shop),), {"abstract": True})


@pytest.mark.parametrize("make", [calls_run, calls_super, inherits])
def test_a_task_class_with_a_call_of_its_own_is_guarded(make: Any) -> None:
    shop = Shop(keep_result=True)

    @shop.task(base=make(shop), uuid="order")
    def book(order: str) -> str:
        shop.did[order] += 1
        return order

    with shop.works():
        for _copy in range(2):
            assert book.delay("o-1").get(timeout=PATIENCE) == "in context: o-1"
    assert shop.did == {"o-1": 1}
    assert book("o-2") == "in context: o-2"  # a plain call


@pytest.mark.parametrize("key", [by_id, operator.itemgetter("id"), staticmethod(by_id)])
@pytest.mark.parametrize("bind", [False, True])
def test_a_key_function_is_called_with_the_arguments_alone(key: Any, *, bind: bool) -> None:
    shop = Shop()

    def book(*args: Any) -> None:
        shop.did[args[-1]["id"]] += 1

    task = shop.task(name="book", uuid=key, bind=bind)(book)

    for number in range(2):
        task.apply(args=[{"id": "o-1", "copy": number}])

    assert shop.did == {"o-1": 1}


def test_a_method_of_a_task_class_is_a_key_function() -> None:
    shop = Shop()

    def uuid(self: Any, order: dict[str, Any]) -> str:
        assert self.name == "book"
        return str(order["id"])

    def run(self: Any, order: dict[str, Any]) -> None:
        del self
        shop.did[order["id"]] += 1

    book = shop.app.register_task(
        type("Book", (shop.app.Task,), {"name": "book", "uuid": uuid, "run": run})()
    )

    for number in range(2):
        book.apply(args=[{"id": "o-1", "copy": number}])

    assert shop.did == {"o-1": 1}


def test_hooks_of_a_task_class_do_not_run_for_a_copy() -> None:
    shop = Shop(keep_result=True)

    def hook(name: str) -> Any:
        def note(self: Any, *_about: Any) -> None:
            del self
            shop.did[name] += 1

        return note

    names = ["before_start", "on_success", "on_failure", "after_return"]
    base = type("Noting", (shop.app.Task,), {"abstract": True, **{name: hook(name) for name in names}})

    @shop.task(base=base, name="book", uuid="order")
    def book(order: str) -> str:
        assert shop.did["before_start"] > shop.did[order]
        shop.did[order] += 1
        if order == "bad":
            raise ValueError(order)
        return order

    with shop.works():
        for order in ("good", "good", "bad", "bad"):
            due = shop.messages["book"] + 1
            book.delay(order)
            eventually(lambda due=due: shop.messages["book"] == due)  # type: ignore[misc]

    assert shop.did == {
        "good": 1,
        "bad": 1,
        "before_start": 2,
        "on_success": 1,
        "on_failure": 1,
        "after_return": 2,
    }


def test_a_before_start_that_fails_fails_its_task() -> None:
    shop = Shop()

    def before_start(self: Any, *_about: Any) -> None:
        raise ValueError("not ready")

    @shop.task(base=type("Refusing", (shop.app.Task,), {"abstract": True, "before_start": before_start}))
    def book() -> None:
        shop.did["book"] += 1

    ended = book.apply()

    assert ended.state == "FAILURE"
    assert isinstance(ended.result, ValueError)
    assert not shop.did


def test_in_shadow_hooks_are_celerys() -> None:
    shop = Shop(shadow=True)

    def before_start(self: Any, *_about: Any) -> None:
        del self
        shop.did["before_start"] += 1

    @shop.task(base=type("Noting", (shop.app.Task,), {"abstract": True, "before_start": before_start}))
    def book() -> None:
        shop.did["book"] += 1

    for _ in range(2):
        book.apply(task_id="one")

    assert shop.did == {"before_start": 2, "book": 2}


def test_a_worker_names_the_tasks_that_are_not_guarded(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    shop.task(name="free", base=celery.Task)(nothing)
    shop.task(name="left-out", base=celery.Task, guarded=False)(nothing)
    shop.task(name="held")(nothing)

    signals.worker_init.send(sender=shop)  # as a worker does, which has an app

    warned = [record for record in caplog.records if "NOT GUARDED" in record.message]
    assert [vars(record)["trigger"] for record in warned] == ["free"]
