"""``keep_result=`` and ``fingerprint=`` of the frameworks' guards, with the frameworks' brokers for tests."""

from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend
from dramatiq.worker import Worker
from faststream.exceptions import AckMessage
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from taskiq import InMemoryBroker

from history import ConfigurationError, MemoryHistory
from history.bridge import drive
from triggers.guards import dramatiq as guards_of_dramatiq
from triggers.guards import faststream as guards_of_faststream
from triggers.guards import taskiq as guards_of_taskiq
from triggers.guards.http import IdempotencyKey

#: As Any: it has no types.
TheResults: Any = Results


class Shop:
    """Records the runs in a framework, and reads the messages that are parked beside its history."""

    def __init__(self) -> None:
        self.history = MemoryHistory()
        self.done: list[str] = []

    def pay(self, order: str, amount: int) -> str:
        self.done.append(order)
        if not amount:
            raise ValueError("nothing to pay")
        return f"{order}: {amount}"

    @property
    def parked(self) -> list[Any]:
        return [one.message.body for one in drive(self.history.parking.list()) if one.message is not None]


#: Sends a payment to a framework. Returns its result, or raises the framework's error.
Pay = Callable[..., Awaitable[str]]

OPTIONS: dict[str, Any] = {"keep_result": True, "fingerprint": "arguments"}


@pytest.fixture
def shop() -> Shop:
    return Shop()


@contextmanager
def in_dramatiq(shop: Shop) -> Generator[Pay]:
    broker: Any = StubBroker()
    broker.emit_after("process_boot")
    backend: Any = StubBackend()
    broker.add_middleware(TheResults(backend=backend))
    broker.add_middleware(guards_of_dramatiq.guarded(history=shop.history, **OPTIONS))
    actor: Any = dramatiq.actor(broker=broker, uuid="order", store_results=True, max_retries=0)(shop.pay)
    worker: Any = Worker(broker, worker_timeout=10, worker_threads=2)
    worker.start()

    async def pay(*args: Any, **kwargs: Any) -> str:
        message = actor.send(*args, **kwargs)
        broker.join("default", fail_fast=False)
        worker.join()
        return str(message.get_result(backend=backend))

    yield pay
    worker.stop()
    broker.close()


def in_taskiq(shop: Shop, *, coroutine: bool) -> Pay:
    broker: Any = InMemoryBroker(await_inplace=True)
    broker.add_middlewares(guards_of_taskiq.guarded(history=shop.history, **OPTIONS))

    async def in_coroutine(order: str, amount: int) -> str:
        return shop.pay(order, amount)

    def blocking(order: str, amount: int) -> str:
        return shop.pay(order, amount)

    task: Any = broker.task(task_name="pay", uuid="order")(in_coroutine if coroutine else blocking)

    async def pay(*args: Any, **kwargs: Any) -> str:
        result = await (await task.kiq(*args, **kwargs)).wait_result()
        result.raise_for_error()
        return str(result.return_value)

    return pay


class TestDramatiqAndTaskiq:
    @pytest.fixture(params=["dramatiq", "taskiq function", "taskiq coroutine"])
    def pay(self, shop: Shop, request: pytest.FixtureRequest) -> Iterator[Pay]:
        if request.param == "dramatiq":
            with in_dramatiq(shop) as pay:
                yield pay
        else:
            yield in_taskiq(shop, coroutine=request.param == "taskiq coroutine")

    async def test_a_copy_under_another_id_gets_the_first_result(self, shop: Shop, pay: Pay) -> None:
        assert await pay("1", 5) == "1: 5"
        assert await pay("1", amount=5) == "1: 5"
        assert shop.done == ["1"]

    async def test_a_copy_with_other_arguments_fails_and_is_parked(self, shop: Shop, pay: Pay) -> None:
        await pay("1", 5)

        with pytest.raises(Exception, match=r"\(row 23\)"):
            await pay("1", 6)
        assert (shop.done, [(one["args"], one["kwargs"]) for one in shop.parked]) == (["1"], [(["1", 6], {})])

    async def test_a_copy_of_one_that_failed_for_good_fails_so(self, shop: Shop, pay: Pay) -> None:
        for told in ("nothing to pay", "it ran before and failed for good: builtins.ValueError: nothing"):
            with pytest.raises(Exception, match=told):
                await pay("1", 0)

        assert shop.done == ["1"]


class TestFaststream:
    def broker(self, shop: Shop, **options: Any) -> Any:
        broker: Any = guards_of_faststream.guarded(
            RabbitBroker(), history=shop.history, uuid="order", **options
        )
        return broker

    async def test_a_request_that_comes_again_gets_the_first_reply(self, shop: Shop) -> None:
        broker = self.broker(shop, keep_result=True)

        async def pay(order: dict[str, Any]) -> dict[str, Any]:
            shop.done.append(order["id"])
            return {"number": len(shop.done)}

        broker.subscriber("orders")(pay)
        testing: Any
        async with TestRabbitBroker(broker) as testing:
            replies = [await testing.request({"id": "1"}, "orders", headers={"order": "1"}) for _ in range(2)]

        assert [await reply.decode() for reply in replies] == [{"number": 1}, {"number": 1}]
        assert shop.done == ["1"]

    async def test_one_that_was_acknowledged_without_an_answer_has_none_for_its_copies(
        self, shop: Shop
    ) -> None:
        broker = self.broker(shop, keep_result=True)
        published: list[Any] = []

        async def pay(order: dict[str, Any]) -> dict[str, Any]:
            shop.done.append(order["id"])
            raise AckMessage

        async def paid(body: Any) -> None:
            published.append(body)

        broker.subscriber("orders")(broker.publisher("paid")(pay))
        broker.subscriber("paid")(paid)
        testing: Any
        async with TestRabbitBroker(broker) as testing:
            for _ in range(2):
                await testing.publish({"id": "1"}, "orders", headers={"order": "1"})

        assert (shop.done, published) == (["1"], [])

    async def test_another_body_under_the_same_uuid_is_parked(self, shop: Shop) -> None:
        broker = self.broker(shop, fingerprint="body")

        async def pay(order: dict[str, Any]) -> None:
            shop.done.append(order["id"])

        broker.subscriber("orders")(pay)
        testing: Any
        async with TestRabbitBroker(broker) as testing:
            for body in ({"id": "1"}, {"id": "1"}, {"id": "2"}):
                await testing.publish(body, "orders", headers={"order": "1"})

        assert (shop.done, shop.parked) == (["1"], [{"id": "2"}])


@pytest.mark.parametrize("option", ["keep_result", "fingerprint"])
def test_the_guard_of_http_keeps_answers_and_compares_bodies_by_itself(option: str) -> None:
    given: dict[str, Any] = {option: None}

    with pytest.raises(ConfigurationError, match=option):
        IdempotencyKey(lambda *_: None, history=MemoryHistory(), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["retry", "transient", "transacted", "on_retry_failure"])
@pytest.mark.parametrize("host", ["dramatiq", "taskiq", "faststream"])
def test_retries_are_the_hosts(host: str, option: str) -> None:
    guarded: Any = import_module(f"triggers.guards.{host}").guarded
    broker, key = ([RabbitBroker()], {"uuid": "order"}) if host == "faststream" else ([], {})

    with pytest.raises(ValueError, match=rf"{option}: {host} decides itself.*test_kept_and_compared\.py"):
        guarded(*broker, history="memory://", **key, **{option: None})
