"""Kafka refuses a group member's commits, or does not let it join: each refusal is logged once."""

import asyncio
import logging
import threading
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from history import MemoryHistory
from tests.fixtures.waiting import PATIENCE
from triggers import AsyncConsumer, Consumer, Message, trigger
from triggers.providers import open_provider
from triggers.providers.brokers.push_receiver import Inbox
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.errors import REFUSING, Refusals
from triggers.providers.kafka.provider import Kafka


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Refused:
    def str(self) -> str:
        return "refused"


@dataclass(frozen=True)
class Listed:
    partition: int
    error: Refused | None = None


def errors_in(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.levelno == logging.ERROR for record in caplog.records)


@pytest.mark.parametrize(
    ("seconds", "succeeds", "logged"),
    [(REFUSING, False, 1), (REFUSING, True, 2), (REFUSING / 2, True, 0)],
    ids=["stays refused", "refused again after a success", "ends soon"],
)
def test_commits_that_stay_refused_are_logged_once(
    caplog: pytest.LogCaptureFixture, seconds: float, *, succeeds: bool, logged: int
) -> None:
    clock = Clock()
    refusals = Refusals("orders", clock)

    for _ in range(2):
        refusals.note(Refused(), [Listed(0)])
        clock.now += seconds
        refusals.note(Refused(), [Listed(0)])
        if succeeds:
            refusals.note(None, [Listed(0)])

    assert errors_in(caplog) == logged


def test_refusals_of_all_partitions_or_of_one_are_counted_once() -> None:
    refusals = Refusals("orders", Clock())

    assert refusals.note(Refused(), [Listed(0), Listed(3)]) == [0, 3]
    assert refusals.note(None, [Listed(0), Listed(3, Refused())]) == [3]
    assert [refusals.take(), refusals.take()] == [3, 0]


@dataclass(frozen=True)
class Answer:
    """The result of a poll that has an error instead of a message."""

    code: int

    def error(self) -> KafkaError:
        return KafkaError(self.code)


@pytest.mark.parametrize(
    ("codes", "logged"),
    [
        ([KafkaError.INCONSISTENT_GROUP_PROTOCOL] * 3, 1),
        ([KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.GROUP_MAX_SIZE_REACHED], 2),
        ([KafkaError._TRANSPORT], 0),  # noqa: SLF001
    ],
    ids=["stays refused", "two answers", "what librdkafka mends itself"],
)
def test_each_answer_to_a_join_is_logged_once(
    caplog: pytest.LogCaptureFixture, codes: list[int], logged: int
) -> None:
    member = Member({}, "orders", Inbox())

    for code in codes:
        member._take(Answer(code))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    assert errors_in(caplog) == logged


@trigger("orders", name="orders", history=MemoryHistory())
def work(message: Message) -> None: ...


@trigger("orders", name="orders", history=MemoryHistory())
async def awork(message: Message) -> None: ...


@pytest.fixture
def never_joins(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let members wait for their share for ever; the event is set when a member waits."""
    joining = threading.Event()

    def wait_for_ever(member: Member) -> None:
        joining.set()
        member._wake.wait()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(Member, "_begin", wait_for_ever)
    monkeypatch.setattr("triggers.providers.kafka.consumer.JOINING", 10 * PATIENCE)
    return joining


@pytest.mark.parametrize("stops", [Consumer, AsyncConsumer])
def test_a_consumer_that_stops_does_not_wait_for_its_share(
    stops: type[Consumer] | type[AsyncConsumer], never_joins: threading.Event
) -> None:
    provider = open_provider("kafka://127.0.0.1:1")

    def run() -> None:
        if stops is Consumer:
            stopping.append(consumer := Consumer([work], provider))
            consumer.run()
        else:
            asyncio.run(run_in_a_loop())

    async def run_in_a_loop() -> None:
        consumer = AsyncConsumer([awork], provider.for_asyncio())
        loop = asyncio.get_running_loop()
        stopping.append(lambda: loop.call_soon_threadsafe(consumer.stop))
        await consumer.run()

    stopping: list[Any] = []
    running = threading.Thread(target=run, daemon=True)
    running.start()
    assert never_joins.wait(PATIENCE)
    (stop,) = stopping
    (stop.stop if isinstance(stop, Consumer) else stop)()
    running.join(PATIENCE)

    assert not running.is_alive()


@pytest.mark.usefixtures("never_joins")
def test_a_stop_that_comes_as_a_worker_begins_to_join_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    joining, asked = threading.Event(), threading.Event()
    start, interrupt = Member.start, Kafka.interrupt

    def start_late(member: Member) -> None:
        joining.set()
        assert asked.wait(PATIENCE)
        start(member)

    def interrupt_early(provider: Kafka) -> None:
        interrupt(provider)
        asked.set()

    monkeypatch.setattr(Member, "start", start_late)
    monkeypatch.setattr(Kafka, "interrupt", interrupt_early)

    consumer = Consumer([work], open_provider("kafka://127.0.0.1:1"))
    running = threading.Thread(target=consumer.run, daemon=True)
    running.start()
    assert joining.wait(PATIENCE)
    consumer.stop()
    running.join(PATIENCE)

    assert not running.is_alive()
