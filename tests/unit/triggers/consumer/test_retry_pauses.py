"""When a consumer ends, a pause between retries ends too: the message is given back and not run again."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest

from history import MemoryHistory, Message
from history.bridge import drive
from tests.fixtures.waiting import eventually
from triggers import AsyncConsumer, Consumer, Retry, TransientError, Trigger, trigger
from triggers.providers.memory import MemoryProvider

LONG = Retry(max_attempts=3, interval=timedelta(minutes=5))


def sent(*uuids: str) -> MemoryProvider:
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid=uuid, body="") for uuid in uuids]))
    return provider


def failing_once(history: MemoryHistory, then: Callable[[], object], **options: Any) -> tuple[Any, list[int]]:
    """Return a trigger and the delivery counts of its runs; the first run calls ``then`` and fails."""
    counts: list[int] = []

    def run(message: Message) -> None:
        counts.append(message.delivery_count)
        if len(counts) == 1:
            then()
            raise TransientError("locked")

    def run_all(messages: list[Message]) -> None:
        run(messages[0])

    service: Any = run_all if options.get("batch") else run
    return trigger("orders", name="t", history=history, retry=LONG, **options)(service), counts


def is_forgotten(history: MemoryHistory, uuid: str) -> bool:
    (entry,) = drive(history.lookup("t", [uuid]))
    return entry is None


def run_until(consumer: Consumer, comes_true: Callable[[], object]) -> None:
    def stop() -> None:
        eventually(comes_true)
        consumer.stop()

    watcher = Thread(target=stop)
    watcher.start()
    consumer.run()
    watcher.join()


@pytest.mark.parametrize("options", [{}, {"batch": 2}, {"ordered": True}], ids=str)
def test_stop_ends_the_pause_and_another_consumer_runs_the_message(options: dict[str, Any]) -> None:
    history, provider = MemoryHistory(), sent("a")
    work, counts = failing_once(history, lambda: consumer.stop(), **options)  # noqa: PLW0108  (it is made below)

    consumer = Consumer([work], provider)
    consumer.run()

    assert (consumer.counts["t"]["recovered"], counts) == (1, [1])
    assert is_forgotten(history, "a")

    Consumer([work], provider).run(until_idle=0.01)

    assert counts == [1, 2]
    assert drive(history.parking.list(trigger="t")) == []


def test_stop_in_the_middle_of_the_pause_ends_it() -> None:
    work, counts = failing_once(MemoryHistory(), lambda: None)

    run_until(Consumer([work], sent("a")), lambda: counts == [1])

    assert counts == [1]


def test_sigterm_ends_the_pause() -> None:
    work, counts = failing_once(MemoryHistory(), lambda: os.kill(os.getpid(), signal.SIGTERM))

    consumer = Consumer([work], sent("a"))
    consumer.run(signals=True)

    assert (counts, consumer.counts["t"]["recovered"]) == ([1], 1)


def test_disabling_the_trigger_ends_the_pause() -> None:
    work, counts = failing_once(MemoryHistory(), lambda: consumer.gates[0].disable("by hand"))
    consumer = Consumer([work], sent("a"))

    run_until(consumer, lambda: consumer.counts["t"]["recovered"] == 1)

    assert counts == [1]


async def test_stop_ends_the_pause_under_asyncio() -> None:
    history, provider = MemoryHistory(), sent("a")
    counts: list[int] = []

    @trigger("orders", name="t", history=history, retry=LONG)
    async def work(message: Message) -> None:
        counts.append(message.delivery_count)
        if len(counts) == 1:
            consumer.stop()
            raise TransientError("locked")

    consumer = AsyncConsumer([work], provider)
    await consumer.run()
    assert counts == [1]

    await AsyncConsumer([work], provider).run(until_idle=0.01)
    assert counts == [1, 2]


def test_a_join_is_tried_again_by_another_consumer() -> None:
    runs: list[int] = []

    def joined(first: dict[str, Any], second: dict[str, Any]) -> None:
        runs.append(1)
        if len(runs) == 1:
            consumer.stop()
            raise TransientError("locked")

    work: Trigger[..., Any] = trigger(["a", "b"], name="t", history=MemoryHistory(), retry=LONG, join="all")(
        joined
    )
    provider = MemoryProvider()
    for name in ("a", "b"):
        message = Message(uuid=name, body={}, properties={"activation": "x"})
        drive(provider.send(name, [message]))

    consumer = Consumer([work], provider)
    consumer.run()
    assert len(runs) == 1

    run_until(Consumer([work], provider), lambda: len(runs) == 2)

    assert len(runs) == 2


def test_what_was_acknowledged_on_receipt_cannot_be_given_back_and_is_tried_again() -> None:
    short = Retry(max_attempts=1, interval=timedelta(milliseconds=1))
    runs: list[int] = []

    @trigger("orders", name="t", history=None, retry=short, acknowledge_mode="auto")
    def work(message: Message) -> None:
        runs.append(1)
        if len(runs) == 1:
            consumer.stop()
            raise TransientError("locked")

    consumer = Consumer([work], sent("a"))
    consumer.run()

    assert len(runs) == 2
