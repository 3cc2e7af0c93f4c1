"""``uuid=`` of a task is checked when the task is declared, not when its first run has no identity."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history import MemoryHistory
from triggers import ConfigurationError
from triggers.guards.host import TaskGuards
from triggers.guards.keys import check_key


def book(order: str, amount: int = 1, *, card: str) -> str:
    return f"{order} {amount} {card}"


def passes_on(*args: str, **kwargs: str) -> str:
    return f"{args} {kwargs}"


async def waits(order: str, card: str) -> str:
    return order + card


def always() -> str:
    return "always"


def by_order(order: str) -> str:
    return order


def by_both(order: str, card: str) -> str:
    return order + card


def by_three(prefix: str, order: str, card: str) -> str:
    return prefix + order + card


def by_others(order: str, shop: str) -> str:
    return order + shop


def by_order_alone(order: str, **_others: str) -> str:
    return order


class Waits:
    async def __call__(self, order: str, card: str) -> str:
        return order + card


#: Keys of a task with these parameters: right and wrong ones.
RIGHT: list[Any] = [
    None,
    "order",
    "card",
    by_both,
    book,
    passes_on,
    by_order_alone,
    partial(by_three, "shop-"),
]
WRONG: list[Any] = [
    "ordre",
    "",
    5,
    b"order",
    ["order"],
    waits,
    Waits(),
    partial(waits, "order"),
    always,
    by_order,
    by_others,
]


@pytest.mark.parametrize("key", RIGHT)
def test_a_key_that_fits_some_call_is_taken(key: Any) -> None:
    check_key("task book", key, book)


@pytest.mark.parametrize("key", WRONG)
def test_a_key_that_identifies_no_call_is_refused(key: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_key("task book", key, book)

    assert refused.value.setting == "task book: uuid"


def test_what_takes_anything_is_called_with_anything() -> None:
    check_key("task pass", by_order, passes_on)
    with pytest.raises(ConfigurationError):
        check_key("task pass", "kwargs", passes_on)


def test_what_the_framework_adds_is_not_counted() -> None:
    check_key("task book", by_order, book, sent_whole=False)


def test_in_shadow_a_wrong_key_is_logged_and_the_task_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    guards = TaskGuards("celery", MemoryHistory(), {"shadow": True})

    guards.check_key("task book", "ordre", book)

    assert "task book: uuid" in caplog.text


@pytest.fixture
def celery_app() -> Iterator[Any]:
    celery: Any = pytest.importorskip("celery")
    from triggers.guards.celery import guarded  # noqa: PLC0415  (an extra)

    base = guarded(history=MemoryHistory())
    app = celery.Celery("shop", broker="memory://", task_cls=base, set_as_current=False)
    yield app
    app.close()


class TestCelery:
    @pytest.mark.parametrize("key", ["ordre", 5, waits, always])
    @pytest.mark.parametrize("bind", [True, False])
    def test_a_wrong_key_is_refused(self, celery_app: Any, key: Any, *, bind: bool) -> None:
        def plain(order: str, card: str) -> str:
            return order + card

        def bound(self: Any, order: str, card: str) -> str:
            return order + card

        declare = celery_app.task(name="book", uuid=key, bind=bind, shared=False, lazy=False)
        with pytest.raises(ConfigurationError) as refused:
            declare(bound if bind else plain)

        assert refused.value.setting == "task book: uuid"

    def test_a_right_one_is_taken_of_functions_and_classes(self, celery_app: Any) -> None:
        class Book(celery_app.Task):  # type: ignore[misc]
            name = "book-class"

            def uuid(self, order: str, card: str) -> str:
                return order + card

            def run(self, order: str, card: str) -> str:
                return order + card

        class Parameter(Book):
            name = "book-parameter"
            uuid = "order"  # type: ignore[assignment]

        for made in (Book(), Parameter()):
            assert celery_app.register_task(made).name == made.name

        def bound(self: Any, order: str) -> str:
            return order

        keys: list[Any] = ["order", by_order]
        for key in keys:
            declare = celery_app.task(name=f"{key}", uuid=key, bind=True, shared=False, lazy=False)
            assert declare(bound).name in celery_app.tasks

    def test_a_key_of_the_base_class_is_not_for_the_tasks_of_celery_itself(self) -> None:
        celery: Any = pytest.importorskip("celery")
        from triggers.guards.celery import guarded  # noqa: PLC0415  (an extra)

        base = type("Shop", (guarded(history=MemoryHistory()),), {"uuid": "order", "abstract": True})
        app = celery.Celery("shop", broker="memory://", task_cls=base, set_as_current=False)

        assert "celery.backend_cleanup" in app.tasks
        app.close()


@pytest.mark.parametrize("signal", ["worker_shutdown", "worker_process_shutdown"])
def test_a_worker_of_celery_closes_what_its_tasks_have_opened(signal: str, tmp_path: Path) -> None:
    celery: Any = pytest.importorskip("celery")
    from triggers.guards.celery import guarded  # noqa: PLC0415  (an extra)

    before = set(threading.enumerate())
    base = guarded(history=f"sqlite:///{tmp_path / 'history.sqlite3'}")
    app = celery.Celery("shop", broker="memory://", task_cls=base, set_as_current=False)
    task = app.task(name="pass", shared=False, lazy=False)(passes_on)
    assert task.apply().get() == "() {}"
    assert set(threading.enumerate()) - before

    getattr(celery.signals, signal).send(sender=None)

    assert set(threading.enumerate()) <= before
    app.close()


class TestDramatiq:
    @pytest.fixture
    def declare(self) -> Callable[..., Any]:
        dramatiq: Any = pytest.importorskip("dramatiq")
        stub: Any = pytest.importorskip("dramatiq.brokers.stub")
        from triggers.guards.dramatiq import guarded  # noqa: PLC0415  (an extra)

        broker = stub.StubBroker()
        broker.add_middleware(guarded(history=MemoryHistory()))
        return partial(dramatiq.actor, broker=broker, actor_name="book")

    @pytest.mark.parametrize(
        ("options", "setting"),
        [
            ({"uuid": "ordre"}, "actor book: uuid"),
            ({"uuid": waits}, "actor book: uuid"),
            ({"uuid": always}, "actor book: uuid"),
            ({"guarded": "no"}, "actor book: guarded"),
            ({"guarded": None}, "actor book: guarded"),
        ],
    )
    def test_a_wrong_option_is_refused(
        self, declare: Callable[..., Any], options: dict[str, Any], setting: str
    ) -> None:
        with pytest.raises(ConfigurationError) as refused:
            declare(**options)(book)

        assert refused.value.setting == setting

    def test_a_right_one_is_taken(self, declare: Callable[..., Any]) -> None:
        assert declare(uuid="order")(book).actor_name == "book"


class TestTaskiq:
    @pytest.mark.parametrize(
        ("labels", "setting"),
        [
            ({"uuid": "ordre"}, "task book: uuid"),
            ({"uuid": waits}, "task book: uuid"),
            ({"uuid": always}, "task book: uuid"),
            ({"guarded": "no"}, "task book: guarded"),
            ({"uuid": "order"}, None),
        ],
    )
    async def test_labels_are_checked_when_the_broker_starts(
        self, labels: dict[str, Any], setting: str | None
    ) -> None:
        taskiq: Any = pytest.importorskip("taskiq")
        from triggers.guards.taskiq import guarded  # noqa: PLC0415  (an extra)

        broker: Any = taskiq.InMemoryBroker()
        broker.add_middlewares(guarded(history=MemoryHistory()))
        broker.task(task_name="book", **labels)(book)

        refused: str | None = None
        try:
            await broker.startup()
        except ConfigurationError as error:
            refused = error.setting
        await broker.shutdown()

        assert refused == setting


class TestFastStream:
    @pytest.fixture
    def broker(self) -> Any:
        rabbit: Any = pytest.importorskip("faststream.rabbit")
        return rabbit.RabbitBroker()

    @pytest.mark.parametrize("key", [None, "", 5, always])
    def test_a_wrong_key_is_refused(self, broker: Any, key: Any) -> None:
        from triggers.guards.faststream import guarded  # noqa: PLC0415  (an extra)

        with pytest.raises(ConfigurationError) as refused:
            guarded(broker, history=MemoryHistory(), uuid=key)

        assert refused.value.setting == "uuid"

    def test_a_broker_is_guarded_once(self, broker: Any) -> None:
        from triggers.guards.faststream import guarded  # noqa: PLC0415  (an extra)

        guarded(broker, history=MemoryHistory(), uuid="order-id")

        brokers: list[Any] = [broker, "orders", type(broker)]
        for wrong in brokers:
            with pytest.raises(ConfigurationError) as refused:
                guarded(wrong, history=MemoryHistory(), uuid="order-id")
            assert refused.value.setting == "broker"
