"""Sends of a service follow its run: a failed try sends nothing, and every try has the same uuids."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from history import MemoryHistory, Message
from tests.unit.triggers.producer.producers import arrived
from triggers import FatalError, Outcome, Producer, Retry, TransientError, Trigger, trigger
from triggers.guards import protect
from triggers.providers import ProviderUnavailableError
from triggers.providers.memory import MemoryProvider


def uuids_in(provider: MemoryProvider, destination: str) -> list[str | None]:
    """Return the uuids of all messages that were sent to a destination, copies included."""
    return [one.uuid for one in arrived(provider, destination)]


class Shop:
    """A trigger with a service that sends two messages, and then fails as the test says."""

    def __init__(self, **settings: Any) -> None:
        self.provider = MemoryProvider()
        self.producer = Producer(self.provider)
        self.failures: list[Exception] = []
        self.options: dict[str, Any] = {}
        self.trigger = self._trigger({"transacted": True, **settings})

    def _trigger(self, settings: dict[str, Any]) -> Trigger[..., None]:
        @trigger("orders", name="shop", history=MemoryHistory(), **settings)
        def order(message: Message) -> None:
            self.producer.send("invoices", {"of": message.uuid}, **self.options)
            self.producer.send("letters", "dear customer")
            if self.failures:
                raise self.failures.pop(0)

        return order

    def deliver(self, uuid: str = "order-1", count: int = 1) -> Outcome:
        return self.trigger.handle(Message(uuid=uuid, body="", delivery_count=count))

    def sent(self, destination: str = "invoices") -> list[str | None]:
        return uuids_in(self.provider, destination)


@pytest.mark.parametrize("transacted", [True, False])
def test_a_fatal_failure_sends_nothing_unless_its_trigger_is_plain(*, transacted: bool) -> None:
    shop = Shop(transacted=transacted)
    shop.failures = [FatalError("no such customer")]

    shop.deliver()

    assert len(shop.sent()) == (0 if transacted else 1)


def test_uuids_follow_from_the_delivery_and_the_number() -> None:
    first, again, other = Shop(), Shop(), Shop()
    first.deliver()
    again.deliver()
    other.deliver("order-2")

    assert first.sent("invoices") == again.sent("invoices")
    assert first.sent("letters") == again.sent("letters")
    assert len({*first.sent("invoices"), *first.sent("letters"), *other.sent("invoices")}) == 3


def test_a_uuid_that_is_given_stays() -> None:
    shop = Shop()
    shop.options = {"uuid": "invoice-17"}

    shop.deliver()

    assert shop.sent() == ["invoice-17"]


def test_what_cannot_be_sent_is_a_failure_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()

    async def away(*_: object) -> None:
        raise ProviderUnavailableError("the provider", "sending")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryProvider, "send", away)
        outcome = shop.deliver()

    assert isinstance(outcome.error, ProviderUnavailableError)
    assert not outcome.acknowledge
    shop.deliver(count=2)
    assert len(shop.sent()) == 1


def test_the_messages_of_a_batch_share_what_their_service_sends() -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    failures = [TransientError("for now")]

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True, batch=10)
    def order(messages: list[Message]) -> None:
        producer.send("invoices", {"of": [message.uuid for message in messages]})
        if failures:
            raise failures.pop()

    for count in (1, 2):
        order.handle_batch([Message(uuid=uuid, body="", delivery_count=count) for uuid in "ab"])

    assert len(uuids_in(provider, "invoices")) == 1


ORDER = Message(uuid="order-1", body="", reply_to="answers")

Way = Callable[[Producer, Message], object]


def send_one(producer: Producer, _order: Message) -> object:
    return producer.send("answers", "one")


#: Each way to send to "answers", by the name of its method.
WAYS: dict[str, Way] = {
    "send": send_one,
    "send_batch": lambda producer, _: producer.send_batch("answers", ["one", "two"]),
    "reply": lambda producer, order: producer.reply(order, "one"),
}
ASYNC_WAYS: dict[str, Callable[[Producer, Message], Awaitable[object]]] = {
    "asend": lambda producer, _: producer.asend("answers", "one"),
    "asend_batch": lambda producer, _: producer.asend_batch("answers", ["one", "two"]),
    "areply": lambda producer, order: producer.areply(order, "one"),
}


def answers_of(provider: MemoryProvider) -> list[str | None]:
    return uuids_in(provider, "answers")


def blocking_order(producer: Producer, way: Way, failures: int) -> Trigger[..., None]:
    """Make a trigger with a new history; its service sends, and fails so many times."""
    left = [TransientError("for now")] * failures

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    def order(message: Message) -> None:
        way(producer, message)
        if left:
            raise left.pop()

    return order


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_send_follows_the_run(way: str) -> None:
    sent: list[Sequence[str | None]] = []
    for failures in (0, 2):
        provider = MemoryProvider()
        producer = Producer(provider)
        order = blocking_order(producer, WAYS[way], failures)
        for count in range(failures):
            order.handle(ORDER.model_copy(update={"delivery_count": count + 1}))
            assert answers_of(provider) == []
        order.handle(ORDER.model_copy(update={"delivery_count": failures + 1}))
        sent.append(answers_of(provider))

    assert (len(set(sent[0])), sent[0]) == (2 if way == "send_batch" else 1, sent[1])


@pytest.mark.parametrize("way", ASYNC_WAYS)
async def test_each_way_to_send_follows_the_run_under_asyncio(way: str) -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    failures = [TransientError("for now")]

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    async def order(message: Message) -> None:
        await ASYNC_WAYS[way](producer, message)
        if failures:
            raise failures.pop()

    await order.ahandle(ORDER)
    assert answers_of(provider) == []
    await order.ahandle(ORDER.model_copy(update={"delivery_count": 2}))
    await producer.aclose()

    assert len(set(answers_of(provider))) == (2 if way == "asend_batch" else 1)


@pytest.mark.parametrize("where", ["loop", "thread"])
async def test_a_coroutine_function_may_send_by_blocking_calls(where: str) -> None:
    provider = MemoryProvider()
    producer = Producer(provider)

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    async def order() -> None:
        if where == "loop":
            producer.send("answers", "one")
        else:
            await asyncio.to_thread(producer.send, "answers", "one")

    outcome = await order.ahandle(ORDER)
    await producer.aclose()

    assert outcome.acknowledge
    assert len(answers_of(provider)) == 1


def test_a_message_is_queued_on_disk_only_after_success_and_under_the_same_uuid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[tuple[int, int]] = []
    provider = MemoryProvider()

    async def away(*_: object) -> None:
        raise ProviderUnavailableError("the provider", "sending")

    # Two processes: the first dies before its run is completed.
    for failures in (0, 1):
        producer = Producer(provider, queue=tmp_path / "queue", retry=Retry())
        order = blocking_order(producer, send_one, failures)
        with monkeypatch.context() as broken:
            broken.setattr(MemoryProvider, "send", away)
            for count in range(failures + 1):
                order.handle(ORDER.model_copy(update={"delivery_count": count + 1}))
                assert producer.queue is not None
                queued.append((count, producer.queue.size()))
        producer.close()
    with Producer(provider, queue=tmp_path / "queue") as producer:
        producer.drain()

    assert queued == [(0, 1), (0, 1), (1, 2)]
    assert len(answers_of(provider)) == 2
    assert len(set(answers_of(provider))) == 1


async def test_a_task_that_outlives_its_service_sends_immediately() -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    done, tasks = asyncio.Event(), set[asyncio.Task[None]]()

    async def send_later() -> None:
        await done.wait()
        await producer.asend("answers", "one")
        await producer.asend("answers", "two")

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    async def order() -> None:
        tasks.add(asyncio.create_task(send_later()))

    await order.ahandle(ORDER)
    done.set()
    await asyncio.gather(*tasks)

    assert len(set(answers_of(provider))) == 2


@pytest.mark.parametrize("inner", ["trigger", "batch", "guard", "body"])
def test_what_a_completed_inner_service_sends_survives_a_transacted_outer_one(inner: str) -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    history = MemoryHistory()
    failures = [TransientError("for now")]

    @trigger("charges", name="charge", history=history)
    def charge(message: Message) -> None:
        producer.send("charged", "card")

    @trigger("charges", name="charge", history=history, batch=2)
    def charge_all(messages: list[Message]) -> None:
        producer.send("charged", "card")

    guard = protect("charge", history=history)

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    def order(message: Message) -> None:
        inner_message = Message(uuid="charge-1", body="")
        if inner == "trigger":
            charge.handle(inner_message)
        elif inner == "batch":
            charge_all.handle_batch([inner_message])
        elif inner == "guard":
            guard.handle("charge-1", lambda: producer.send("charged", "card"))
        else:
            with guard.once("charge-1") as turn:
                if turn:
                    producer.send("charged", "card")
        producer.send("invoices", "one")
        if failures:
            raise failures.pop()

    for count in (1, 2):
        order.handle(Message(uuid="order-1", body="", delivery_count=count))

    assert len(uuids_in(provider, "charged")) == 1
    assert len(uuids_in(provider, "invoices")) == 1


async def test_under_asyncio_a_completed_inner_service_sends_whatever_its_outer_one_does() -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    guard = protect("charge", history=MemoryHistory())

    @trigger("letters", name="letter", history=MemoryHistory())
    async def letter(message: Message) -> None:
        await producer.asend("letters", "dear customer")

    @trigger("orders", name="shop", history=MemoryHistory(), transacted=True)
    async def order(message: Message) -> None:
        await letter.ahandle(Message(uuid="letter-1", body=""))
        async with guard.aonce("charge-1") as turn:
            if turn:
                await producer.asend("charged", "card")
        await producer.asend("invoices", "one")
        raise FatalError("no such customer")

    await order.ahandle(Message(uuid="order-1", body=""))
    await producer.aclose()

    sent = [len(uuids_in(provider, destination)) for destination in ("letters", "charged", "invoices")]
    assert sent == [1, 1, 0]


def test_the_function_of_a_transacted_guard_is_as_a_service() -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    guard = protect("shop", history=MemoryHistory(), transacted=True)
    failures = [TransientError("for now")]

    def work() -> None:
        producer.send("answers", "one")
        if failures:
            raise failures.pop()

    guard.handle("order-1", work)
    assert answers_of(provider) == []
    guard.handle("order-1", work)

    assert len(answers_of(provider)) == 1


def test_the_body_of_a_transacted_guard_is_as_a_service() -> None:
    sent: list[Sequence[str | None]] = []
    for failures in (0, 1):
        provider = MemoryProvider()
        producer = Producer(provider)
        guard = protect("shop", history=MemoryHistory(), transacted=True)
        for count in range(failures + 1):
            with suppress(TransientError), guard.once("order-1"):
                producer.send("answers", "one")
                assert answers_of(provider) == []
                if count < failures:
                    raise TransientError("for now")
        producer.send("answers", "outside")
        sent.append(answers_of(provider))

    assert [len(set(uuids)) for uuids in sent] == [2, 2]
    assert sent[0][0] == sent[1][0]


async def test_under_asyncio_the_body_of_a_transacted_guard_is_as_a_service() -> None:
    provider = MemoryProvider()
    producer = Producer(provider)
    guard = protect("shop", history=MemoryHistory(), transacted=True)
    for fails in (True, False):
        with suppress(TransientError):
            async with guard.aonce("order-1"):
                await producer.asend("answers", "one")
                assert answers_of(provider) == []
                if fails:
                    raise TransientError("for now")
    await guard.aclose()
    await producer.aclose()

    assert len(answers_of(provider)) == 1
