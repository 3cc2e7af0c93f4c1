"""``redact=`` also removes texts from errors of a framework: no line of a guard's log shows them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Callbacks, TimeLimitExceeded
from faststream import Context
from faststream.rabbit import RabbitBroker, TestRabbitBroker
from taskiq import InMemoryBroker

from history import MemoryHistory
from tests.integration.guards.test_celery_again import Shop
from tests.integration.guards.test_recovering import one_worked_off
from triggers import CARD_NUMBERS
from triggers.guards.dramatiq import guarded as dramatiq_guarded
from triggers.guards.faststream import guarded as faststream_guarded
from triggers.guards.taskiq import guarded as taskiq_guarded

CARD = "4111 1111 1111 1111"

REDACTED = "(redacted: card number)"


def _fail(*_: Any, **__: Any) -> Any:
    raise OSError(f"no room for {CARD}")


async def _afail(*_: Any, **__: Any) -> Any:
    _fail()


def assert_redacted(caplog: pytest.LogCaptureFixture, line: str) -> None:
    """Check that the log has the line, without the card number."""
    (message,) = (message for message in caplog.messages if line in message)
    assert message.endswith(f"{line}: no room for {REDACTED}")


def test_a_result_that_celery_cannot_keep(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(redact=CARD_NUMBERS)

    def same(order: str) -> str:
        return order

    book: Any = shop.task(name="book")(same)
    monkeypatch.setattr(shop.app.backend.__class__, "store_result", _fail)
    book.apply((CARD,), task_id="one\ntwo", link=book.si("o-2"))

    assert_redacted(caplog, "its result is not kept before it is done")
    assert not [message for message in caplog.messages if "one\ntwo: its result" in message]


def _work_off(function: Callable[[str], None], break_off: Callable[[Any], None], **options: Any) -> None:
    """Send a message to an actor of Dramatiq. ``break_off`` breaks its broker during the run."""
    broker: Any = StubBroker(middleware=[Callbacks()])
    broker.emit_after("process_boot")
    broker.add_middleware(dramatiq_guarded(history=MemoryHistory(), lease=None, redact=CARD_NUMBERS))

    def ship(*_: Any) -> None:
        raise AssertionError("it was sent")

    def book(order: str) -> None:
        break_off(broker)
        function(order)

    dramatiq.actor(broker=broker, actor_name="ship")(ship)
    one_worked_off(broker, dramatiq.actor(broker=broker, actor_name="book", **options)(book))


def _no_room(broker: Any) -> None:
    broker.enqueue = _fail


def test_what_dramatiq_cannot_send_after_a_message(caplog: pytest.LogCaptureFixture) -> None:
    _work_off(lambda _: None, _no_room, on_success="ship")

    assert_redacted(caplog, "what follows it failed")


def test_a_message_that_dramatiq_cannot_send_again(caplog: pytest.LogCaptureFixture) -> None:
    def limited(_: str) -> None:
        raise TimeLimitExceeded

    _work_off(limited, _no_room)

    assert_redacted(caplog, "The broker does not take it again")


async def test_a_task_that_taskiq_cannot_send_again(caplog: pytest.LogCaptureFixture) -> None:
    broker: Any = InMemoryBroker()
    broker.add_middlewares(taskiq_guarded(history=MemoryHistory(), redact=CARD_NUMBERS))

    async def hang(_: str) -> None:
        broker.kick = _afail
        await asyncio.Event().wait()

    book: Any = broker.task(task_name="book", timeout=0.01)(hang)
    await broker.startup()
    await book.kiq("o-1")
    await broker.wait_all()
    await broker.shutdown()

    assert_redacted(caplog, "the broker does not take it again")


async def test_a_message_that_faststream_cannot_give_back(caplog: pytest.LogCaptureFixture) -> None:
    broker: Any = faststream_guarded(
        RabbitBroker(), history=MemoryHistory(), uuid="order", redact=CARD_NUMBERS
    )
    begun = asyncio.Event()

    async def book(_: str, msg: Annotated[Any, Context("message")]) -> None:
        msg.nack = _afail
        begun.set()
        await asyncio.Event().wait()

    broker.subscriber("orders")(book)
    async with TestRabbitBroker(broker) as tested:
        task = asyncio.create_task(tested.publish("o-1", "orders", headers={"order": "1"}))
        await begun.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    assert_redacted(caplog, "it is not given back")
