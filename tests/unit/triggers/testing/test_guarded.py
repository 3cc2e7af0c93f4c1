"""Guards of ``protect`` and guarded tasks of Celery, Dramatiq and Taskiq in the simulator."""

from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, cast

import pytest

pytest.importorskip("celery")
pytest.importorskip("taskiq")
pytest.importorskip("dramatiq")

import dramatiq
from dramatiq.brokers.stub import StubBroker
from taskiq import InMemoryBroker

from history import ConfigurationError, MemoryHistory
from resolvers import Resolution
from triggers import Message, trigger
from triggers.guards import protect, running
from triggers.guards.celery import guarded as guarded_celery
from triggers.guards.dramatiq import guarded as guarded_dramatiq
from triggers.guards.taskiq import guarded as guarded_taskiq
from triggers.testing import Effects, exactly_once

pytestmark = pytest.mark.slow


def looks_for(bank: Effects) -> Callable[..., Resolution]:
    def looks(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return Resolution.DUPLICATE if bank.has(uuid) else Resolution.NEW

    return looks


def always_new(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.NEW


ORDERS = [Message(uuid=f"order-{number}", body={"amount": number}) for number in (1, 2)]


class TestGuards:
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_what_a_guard_calls_runs_once(self, *, asynchronous: bool) -> None:
        bank = Effects()
        guard = protect("pay", history=MemoryHistory(), resolver=looks_for(bank))

        def pay(order: Message) -> None:
            bank.record(order.uuid)

        async def pay_on_a_loop(order: Message) -> None:
            bank.record(running().uuid)

        call = pay_on_a_loop if asynchronous else pay
        exactly_once(guard, ORDERS, call=call, effects=bank).check()

    def test_a_careless_resolver_is_found(self) -> None:
        bank = Effects()
        guard = protect("pay", history=MemoryHistory(), resolver=always_new)

        report = exactly_once(guard, ORDERS, call=lambda order: bank.record(order.uuid), effects=bank)

        assert not report.never_twice

    def test_a_death_between_two_lines_of_what_it_calls_is_tried(self) -> None:
        ledger: list[str] = []
        guard = protect("pay", history=MemoryHistory(), resolver=always_new)

        def pay(order: Message) -> None:
            ledger.append(str(order.uuid))
            ledger.append(f"{order.uuid} sent")

        assert not exactly_once(guard, ORDERS[:1], call=pay, effects=ledger).never_twice

    def test_what_it_calls_has_to_be_given_and_a_trigger_takes_no_other_function(self) -> None:
        @trigger("orders", name="book", history=MemoryHistory())
        def book(message: Message) -> None: ...

        for called, options in ((protect("pay", history=None), {}), (book, {"call": print})):
            with pytest.raises(ConfigurationError) as error:
                exactly_once(called, ORDERS, effects=Effects(), **cast("Any", options))
            assert error.value.setting == "call"


#: Celery knows no types.
new_celery: Any = import_module("celery").Celery


def celery_task(function: Callable[..., Any], *, resolver: Any, **options: Any) -> Any:
    app = new_celery("shop", task_cls=guarded_celery(history=MemoryHistory(), resolver=resolver))
    return app, app.task(name="pay", shared=False, **options)(function)


def dramatiq_actor(function: Callable[..., Any], *, resolver: Any, **options: Any) -> Any:
    broker = StubBroker(middleware=[guarded_dramatiq(history=MemoryHistory(), resolver=resolver)])
    return broker, dramatiq.actor(broker=broker, actor_name="pay", **options)(function)


def taskiq_task(function: Callable[..., Any], *, resolver: Any, **options: Any) -> Any:
    guarding = guarded_taskiq(history=MemoryHistory(), resolver=resolver)
    broker = InMemoryBroker().with_middlewares(guarding)
    return broker, broker.task(task_name="pay", **options)(function)


hosts = pytest.mark.parametrize("make", [celery_task, dramatiq_actor, taskiq_task])


def called(*args: Any, uuid: str | None = None, **kwargs: Any) -> Message:
    return Message(uuid=uuid, body={"args": list(args), "kwargs": kwargs})


@hosts
class TestTasks:
    def test_a_guarded_task_runs_once(self, make: Any) -> None:
        bank = Effects()

        def pay(order: str, amount: int = 1) -> None:
            bank.record(f"task of {order}")

        def looks(uuid: str, trigger_name: str, message: Message) -> Resolution:
            return looks_for(bank)(f"task of {uuid}", trigger_name, message)

        host, task = make(pay, resolver=looks)
        calls = [called("a", uuid="a"), called("b", uuid="b", amount=2)]

        report = exactly_once(task, calls, effects=bank)

        report.check()
        del host

    def test_a_key_that_is_made_of_the_day_is_found(self, make: Any) -> None:
        bank = Effects()

        def pay(order: str) -> None:
            bank.record(order)

        def today(order: str) -> str:
            return f"{order} {datetime.now(UTC):%Y-%m-%d}"

        def looks(uuid: str, trigger_name: str, message: Message) -> Resolution:
            return Resolution.DUPLICATE if bank.has(cast("Any", message.body)["args"][0]) else Resolution.NEW

        host, task = make(pay, resolver=looks, uuid=today)

        assert not exactly_once(task, [called("a")], effects=bank).never_twice
        del host

    def test_a_key_that_names_a_parameter_is_read(self, make: Any) -> None:
        bank = Effects()

        def pay(order: str) -> None:
            bank.record(order)

        host, task = make(pay, resolver=looks_for(bank), uuid="order")

        report = exactly_once(task, [called(order="a"), called("b")], effects=bank)

        report.check()
        del host


def test_a_task_that_is_not_guarded_is_refused() -> None:
    task = new_celery("shop").task(called, name="unguarded", shared=False)

    with pytest.raises(ConfigurationError) as error:
        exactly_once(task, [called()], effects=Effects())

    assert error.value.setting == "trigger"
