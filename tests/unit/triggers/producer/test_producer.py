"""The producer over a provider in memory: identities, retries, order, blocking and asyncio."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from history import ConfigurationError, MemoryHistory, Message
from tests.unit.triggers.producer.producers import Line, arrived, firsts
from triggers import Producer, ProviderUnavailableError, Retry, Status, on_delivery_failure, send, trigger
from triggers.providers.memory import MemoryProvider
from triggers.service.failures import is_transient

AT_ONCE = Retry(max_attempts=2, interval=timedelta(0))


def test_a_sent_message_arrives_as_the_one_that_was_returned() -> None:
    provider = MemoryProvider()

    with Producer(provider) as producer:
        sent = producer.send("orders", {"id": 1}, uuid="u-1", type="order", properties={"shop": "rome"})
    other = send("orders", "x", provider=provider, uuid="u-2")

    got = [message.model_copy(update={"delivery_count": -1}) for message in arrived(provider)]
    assert got == [sent.message, other.message]
    assert (sent.uuid, sent.message_id, sent.queued) == ("u-1", "ID:orders:1", False)


async def test_asyncio_sends_the_same() -> None:
    provider = MemoryProvider()

    async with Producer(provider) as producer:
        sent = await producer.asend("orders", "x")
        batch = await producer.asend_batch("orders", ["y", Message(body="z", uuid="u-z")], priority=8)

    got = arrived(provider)
    assert [one.uuid for one in got] == [sent.uuid, *(one.uuid for one in batch)]
    assert [(one.body, one.priority) for one in got] == [("x", 4), ("y", 8), ("z", 8)]


def test_a_batch_arrives_in_order_each_under_its_own_uuid() -> None:
    provider = MemoryProvider()

    with Producer(provider) as producer:
        sent = producer.send_batch("orders", [{"id": number} for number in range(300)])

    assert [one.uuid for one in arrived(provider)] == [one.uuid for one in sent]
    assert len({one.uuid for one in sent}) == 300


def test_a_batch_cannot_share_one_uuid() -> None:
    with Producer(MemoryProvider()) as producer, pytest.raises(ConfigurationError, match="uuid"):
        producer.send_batch("orders", ["a", "b"], uuid="u")


@pytest.mark.parametrize("bodies", ["abc", b"abc", {"id": 1}, Message(body="x"), 5, None])
def test_one_body_is_not_taken_apart_as_a_batch(bodies: Any) -> None:
    provider = MemoryProvider()

    with Producer(provider) as producer, pytest.raises(ConfigurationError) as refused:
        producer.send_batch("orders", bodies)

    assert (refused.value.setting, arrived(provider)) == ("bodies", [])


#: Wrong calls, with a producer and a folder, and the argument that the error must name.
WRONG: list[tuple[Callable[[Any, Any], object], str]] = [
    (lambda producer, _: producer.send(5, "x"), "destination"),
    (lambda producer, _: producer.send(None, "x"), "destination"),
    (lambda producer, _: producer.send("", "x"), "destination"),
    (lambda producer, _: producer.send("orders", "x", properties=5), "properties"),
    (lambda producer, _: producer.send("orders", "x", properties=["shop"]), "properties"),
    (lambda producer, _: producer.reply("orders", "x"), "request"),
    (lambda producer, _: producer.queue.requeue(time_to_live=5), "time_to_live"),
    (lambda producer, _: producer.queue.requeue(time_to_live=timedelta(seconds=-5)), "time_to_live"),
    (lambda _, folder: Producer("memory://", queue=folder), "queue"),
    (lambda _, folder: Producer("memory://", queue=folder / "none" / "q"), "queue"),
    (lambda _, __: Producer("memory://", alias=" "), "alias"),
    (lambda _, __: Producer("memory://", alias="\ud800"), "alias"),
    (lambda _, __: on_delivery_failure()(cast("Any", 5)), "on_delivery_failure"),
    (lambda _, __: on_delivery_failure()(cast("Any", MemoryProvider().for_asyncio)), "on_delivery_failure"),
]


@pytest.mark.parametrize(("wrong", "setting"), WRONG)
def test_what_is_wrong_is_refused_when_it_is_given(
    wrong: Callable[[Any, Any], object], setting: str, tmp_path: Path
) -> None:
    with (
        Producer("memory://", queue=tmp_path / "queue") as producer,
        pytest.raises(ConfigurationError) as refused,
    ):
        wrong(producer, tmp_path)

    assert refused.value.setting == setting


def test_an_empty_batch_is_no_send() -> None:
    line = Line("down")

    with Producer(line) as producer:
        assert list(producer.send_batch("orders", [])) == []

    assert line.sends == 0


def test_a_send_whose_reply_is_lost_is_tried_again_under_the_same_uuid() -> None:
    line = Line("reply lost", "down", "up")
    effects: list[str | None] = []

    @trigger("orders", name="book", history=MemoryHistory())
    def book(message: Message) -> None:
        effects.append(message.uuid)

    with Producer(line, retry=AT_ONCE) as producer:
        sent = producer.send("orders", b"{}")

    assert [one.uuid for one in arrived(line.memory)] == [sent.uuid] * 2
    assert [book.handle(one).status for one in arrived(line.memory)] == [Status.NEW, Status.DUPLICATE]
    assert effects == [sent.uuid]


def test_tries_are_bounded_and_what_is_raised_is_transient_to_a_trigger() -> None:
    line = Line("down")

    with Producer(line, retry=AT_ONCE) as producer, pytest.raises(ProviderUnavailableError) as raised:
        producer.send("orders", "x")

    assert line.sends == 3
    assert is_transient(raised.value, ())
    assert raised.value.__context__ is None, "the traceback of the first try is not shown as well"


def test_a_send_that_is_tried_again_is_not_overtaken_by_a_later_one() -> None:
    line = Line("reply lost", "down", "up")
    # The first send waits so long between its tries that an unordered second send would overtake it.
    retry = Retry(max_attempts=2, interval=timedelta(milliseconds=100))

    with Producer(line, retry=retry) as producer:
        first = threading.Thread(target=lambda: producer.send("orders", "x", uuid="first"))
        first.start()
        while not line.sends:
            pass
        producer.send("orders", "y", uuid="second")
        first.join()

    assert [one.uuid for one in arrived(line.memory)] == ["first", "first", "second"]


async def test_under_asyncio_the_order_of_the_calls_is_kept_as_well() -> None:
    line = Line("down", "up")
    retry = Retry(max_attempts=1, interval=timedelta(milliseconds=50))

    async with Producer(line, retry=retry) as producer:
        await asyncio.gather(*(producer.asend("orders", "x", uuid=f"u-{number}") for number in range(20)))

    assert firsts(arrived(line.memory)) == [f"u-{number}" for number in range(20)]


def test_a_delayed_message_carries_its_delivery_time() -> None:
    provider = MemoryProvider()

    with Producer(provider) as producer:
        sent = producer.send("orders", "x", delay=timedelta(hours=1), time_to_live=timedelta(hours=2))

    assert arrived(provider) == []
    assert sent.message.delivery_time is not None
    assert sent.message.delivery_time > datetime.now(UTC) + timedelta(minutes=59)


def test_there_is_nothing_to_drain_without_a_queue() -> None:
    with Producer(MemoryProvider()) as producer, pytest.raises(ConfigurationError, match="queue"):
        producer.drain()
