"""A guarded handler of FastStream runs on real brokers and on FastStream's broker for tests."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any
from uuid import uuid4

import pytest
from faststream import AckPolicy, Context
from faststream.exceptions import AckMessage, NackMessage, RejectMessage
from faststream.nats import JStream, NatsBroker, PullSub
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from faststream.redis import RedisBroker, StreamSub, TestRedisBroker

from history import MemoryHistory
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.waiting import PATIENCE
from triggers import TransientError
from triggers.guards import protect
from triggers.guards.faststream import guarded


class Shop:
    """A broker with a guard, and what its handlers have done."""

    def __init__(self, uuid: Any = "order") -> None:
        self.history = MemoryHistory()
        self.done: list[Any] = []
        self.broker: Any = guarded(RabbitBroker(), history=self.history, uuid=uuid)

    def listen(self, function: Callable[..., Any], **options: Any) -> None:
        self.broker.subscriber("orders", **options)(function)

    def note(self, order: str) -> None:
        self.done.append(order)

    async def receive(self, *bodies: Any, **headers: str) -> None:
        """Send messages to the handler, one after the other."""
        broker: Any
        async with TestRabbitBroker(self.broker) as broker:
            for body in bodies:
                await broker.publish(body, "orders", headers=headers)

    async def parked(self) -> list[Any]:
        listed = await self.history.for_asyncio().parking.list()
        return [one.message.body for one in listed if one.message is not None]


def _header(message: Any) -> str:
    return str(message.headers["order"])


async def _id(message: Any) -> str:
    return str((await message.decode())["id"])


@pytest.mark.parametrize("uuid", ["order", _id, _header], ids=["header", "body", "message"])
async def test_a_message_that_comes_again_runs_once(uuid: Any) -> None:
    shop = Shop(uuid)

    async def book(order: dict[str, Any]) -> None:
        shop.done.append(order)

    shop.listen(book)
    await shop.receive({"id": 1}, {"id": 1}, order="1")

    assert shop.done == [{"id": 1}]


async def test_a_body_that_no_message_can_hold_runs_once() -> None:
    shop, deep = Shop(), list[Any]()
    for _ in range(250):
        deep = [deep]

    async def book(order: Any) -> None:
        shop.done.append(order)

    shop.listen(book)
    await shop.receive(deep, deep, order="1")

    assert shop.done == [deep]


async def test_a_failure_is_parked_with_its_body() -> None:
    shop = Shop()

    def broken(order: dict[str, Any]) -> None:
        shop.done.append(order)
        raise ValueError("no such card")

    shop.listen(broken)
    with pytest.raises(ValueError, match="no such card"):
        await shop.receive({"id": 1}, order="1")

    assert await shop.parked() == [{"id": 1}]


async def test_a_copy_that_is_sent_inside_of_its_run_does_not_wait_for_itself() -> None:
    shop = Shop()

    async def book(order: str) -> None:
        shop.done.append(order)
        await shop.broker.publish(order, "orders", headers={"order": "1"})

    shop.listen(book)
    with pytest.raises(TransientError, match="1 was not run: WAITING: an earlier run is still active"):
        async with asyncio.timeout(PATIENCE):
            await shop.receive("1", order="1")

    assert shop.done == ["1"]


async def test_what_is_given_back_runs_again() -> None:
    shop = Shop()

    def flaky(order: str) -> None:
        shop.done.append(order)
        if len(shop.done) < 2:
            raise NackMessage
        if len(shop.done) < 3:
            raise OSError("busy")

    shop.listen(flaky, ack_policy=AckPolicy.NACK_ON_ERROR)
    await shop.receive("1", order="1")
    with pytest.raises(OSError, match="busy"):
        await shop.receive("1", order="1")
    await shop.receive("1", "1", order="1")

    assert len(shop.done) == 3
    assert await shop.parked() == []


@pytest.mark.parametrize("how", ["nack", "reject", "raise"])
async def test_what_a_handler_gives_back_by_itself_runs_again(how: str) -> None:
    shop = Shop()

    async def book(order: str, msg: Annotated[Any, Context("message")]) -> None:
        shop.done.append(order)
        if len(shop.done) > 1:
            return
        if how == "raise":
            raise RejectMessage(requeue=True)
        await getattr(msg, how)()

    shop.listen(book)
    await shop.receive("1", "1", "1", order="1")

    assert shop.done == ["1", "1"]
    assert await shop.parked() == []


async def test_what_fails_and_does_not_come_again_is_parked() -> None:
    shop = Shop()

    async def book(order: str, msg: Annotated[Any, Context("message")]) -> None:
        if order == "1":
            raise NackMessage(requeue=False)
        await msg.ack()
        raise OSError("too late")

    shop.listen(book, ack_policy=AckPolicy.NACK_ON_ERROR)
    await shop.receive("1", order="1")
    with pytest.raises(OSError, match="too late"):
        await shop.receive("2", order="2")

    assert sorted(await shop.parked()) == ["1", "2"]


async def test_a_handler_that_acknowledges_by_itself_is_done() -> None:
    shop = Shop()

    async def book(order: str) -> None:
        shop.done.append(order)
        raise AckMessage

    shop.listen(book)
    await shop.receive("1", "1", order="1")

    assert shop.done == ["1"]


async def test_what_nobody_can_know_is_parked() -> None:
    shop = Shop()
    shop.listen(shop.note)
    with pytest.raises(KeyboardInterrupt):
        protect("note@orders", history=shop.history, lease=None).handle("1", _die)

    await shop.receive("1", order="1")

    assert shop.done == []
    assert await shop.parked() == ["1"]


def _nothing(order: str) -> None: ...


def _die() -> None:
    raise KeyboardInterrupt


def _no_header(message: Any) -> str:
    return str(message.headers["customer"])


@pytest.mark.parametrize("uuid", ["customer", _no_header], ids=["header", "function"])
async def test_a_message_without_its_key_is_parked_and_the_next_one_runs(uuid: Any) -> None:
    shop = Shop(uuid)
    shop.listen(shop.note, ack_policy=AckPolicy.NACK_ON_ERROR)

    await shop.receive("1")
    await shop.receive("2", customer="2")

    assert shop.done == ["2"]
    assert await shop.parked() == ["1"]


class TestSettings:
    """Settings that lose messages are refused before the broker starts and connects."""

    async def test_an_early_acknowledgement_is_refused(self) -> None:
        shop = Shop()
        shop.listen(_nothing, ack_policy=AckPolicy.ACK_FIRST)

        with pytest.raises(ValueError, match=r"ack_policy: is ACK_FIRST.*Kafka.*NACK_ON_ERROR"):
            await shop.broker.start()

    @pytest.mark.parametrize("source", [{"list": "orders"}, {"channel": "orders"}, {"stream": "orders"}])
    async def test_what_cannot_acknowledge_is_refused(self, source: dict[str, str]) -> None:
        broker: Any = guarded(RedisBroker(), history="memory://", uuid="order")
        broker.subscriber(**source)(_nothing)

        with pytest.raises(ValueError, match=r"ack_policy: is MANUAL.*a stream with a group"):
            await broker.start()

    async def test_two_of_one_name_are_refused(self) -> None:
        shop = Shop()
        shop.listen(_nothing)
        shop.listen(_nothing)

        with pytest.raises(ValueError, match=r"subscriber _nothing@orders: there are two of this name"):
            await shop.broker.start()

    async def test_a_batch_is_refused(self) -> None:
        broker: Any = guarded(RedisBroker(), history="memory://", uuid="order")
        stream = StreamSub("orders", group="g", consumer="c", batch=True)
        broker.subscriber(stream=stream)(_nothing)

        with pytest.raises(ValueError, match="batch: a batch is many messages"):
            await broker.start()

    async def test_a_broker_for_tests_is_checked_too(self) -> None:
        broker: Any = guarded(RedisBroker(), history="memory://", uuid="order")
        broker.subscriber(list="orders")(_nothing)

        async with TestRedisBroker(broker) as tested:
            with pytest.raises(ValueError, match="ack_policy: is MANUAL"):
                await tested.publish("1", list="orders", headers={"order": "1"})

    def test_a_key_is_required(self) -> None:
        wrong: Callable[..., Any] = guarded
        with pytest.raises(ValueError, match=r"uuid: .*name a header"):
            wrong(RabbitBroker(), history="memory://", uuid=None)


async def test_a_stream_of_a_real_redis_is_settled_once(redis_url: str) -> None:
    name, done = f"orders-{uuid4().hex}", list[str]()
    last = asyncio.Event()
    broker: Any = guarded(RedisBroker(redis_url), history=redis_url, uuid="order")

    async def book(order: str) -> None:
        done.append(order)
        if order == "last":
            last.set()

    broker.subscriber(stream=StreamSub(name, group="shop", consumer="one"))(book)
    async with broker:
        await broker.start()
        for order in ("1", "1", "2", "last"):
            await broker.publish(order, stream=name, headers={"order": order})
        await asyncio.wait_for(last.wait(), PATIENCE)

    assert done == ["1", "2", "last"]


@pytest.mark.parametrize(
    "options",
    [{"queue": "shop"}, {"durable": "shop", "pull_sub": PullSub(batch_size=1)}],
    ids=["push", "pull"],
)
async def test_a_stream_of_a_real_nats_is_settled_once_and_gives_back(options: dict[str, Any]) -> None:
    with NatsServer() as nats:
        done, last = list[str](), asyncio.Event()
        broker: Any = guarded(NatsBroker(f"nats://{nats.address}"), history=MemoryHistory(), uuid="order")
        stream = JStream("orders", subjects=["orders"])

        async def book(order: str, msg: Annotated[Any, Context("message")]) -> None:
            done.append(order)
            if order == "back" and done.count(order) == 1:
                await msg.nack()
            if order == "last" and done.count("back") == 2:
                last.set()
            elif order == "last":
                raise OSError("too early")

        broker.subscriber("orders", stream=stream, ack_policy=AckPolicy.NACK_ON_ERROR, **options)(book)
        async with broker:
            await broker.start()
            for order in ("1", "1", "back", "last"):
                await broker.publish(order, "orders", headers={"order": order})
            await asyncio.wait_for(last.wait(), PATIENCE)

    assert (done.count("1"), done.count("back")) == (1, 2)
