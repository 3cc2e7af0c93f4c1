"""What a member of a group does when Kafka refuses its commits, or to let it join."""

import asyncio
import logging
import threading
from dataclasses import dataclass, field
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


@dataclass
class Answers:
    clock: Clock = field(default_factory=Clock)
    refusals: Refusals = field(init=False)

    def __post_init__(self) -> None:
        self.refusals = Refusals("orders", self.clock)

    def refused_for(self, seconds: float) -> None:
        self.refusals.note(Refused(), [Listed(0)])
        self.clock.now += seconds
        self.refusals.note(Refused(), [Listed(0)])


def told(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.levelno == logging.ERROR for record in caplog.records)


def test_commits_that_stay_refused_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    answers = Answers()

    answers.refused_for(REFUSING)
    answers.refused_for(REFUSING)

    assert told(caplog) == 1


def test_commits_that_are_refused_again_after_a_success_are_logged_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = Answers()

    answers.refused_for(REFUSING)
    answers.refusals.note(None, [Listed(0)])
    answers.refused_for(REFUSING)

    assert told(caplog) == 2


def test_refusals_are_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    answers = Answers()
    answers.refusals.note(Refused(), [Listed(0), Listed(3)])
    answers.refusals.note(None, [Listed(0), Listed(3, Refused())])

    assert [answers.refusals.take(), answers.refusals.take()] == [3, 0]


def test_refusals_that_end_soon_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    answers = Answers()

    answers.refused_for(REFUSING / 2)
    answers.refusals.note(None, [Listed(0)])
    answers.refused_for(REFUSING / 2)

    assert told(caplog) == 0


def test_all_partitions_are_refused_by_one_error() -> None:
    assert Answers().refusals.note(Refused(), [Listed(0), Listed(3)]) == [0, 3]


def test_one_of_several_partitions_can_be_refused() -> None:
    assert Answers().refusals.note(None, [Listed(0), Listed(3, Refused())]) == [3]


@dataclass(frozen=True)
class Answer:
    """What a poll returns where there is no message, but an error."""

    code: int

    def error(self) -> KafkaError:
        return KafkaError(self.code)


def polled(*codes: int) -> None:
    """Let a member that joins get these answers."""
    member = Member({}, "orders", Inbox())
    for code in codes:
        member._take(Answer(code))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def test_a_join_that_stays_refused_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    polled(*[KafkaError.INCONSISTENT_GROUP_PROTOCOL] * 3)

    assert told(caplog) == 1


def test_each_answer_of_the_brokers_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    polled(KafkaError.INCONSISTENT_GROUP_PROTOCOL, KafkaError.GROUP_MAX_SIZE_REACHED)

    assert told(caplog) == 2


def test_what_librdkafka_mends_itself_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    polled(KafkaError._TRANSPORT)  # noqa: SLF001

    assert told(caplog) == 0


@pytest.mark.parametrize("stops", [Consumer, AsyncConsumer])
def test_a_consumer_that_stops_does_not_wait_for_its_share(
    stops: type[Consumer] | type[AsyncConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    joining = threading.Event()

    def wait_for_ever(member: Member) -> None:
        joining.set()
        member._wake.wait()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(Member, "_begin", wait_for_ever)
    monkeypatch.setattr("triggers.providers.kafka.consumer.JOINING", 10 * PATIENCE)

    @trigger("orders", name="orders", history=MemoryHistory())
    def work(message: Message) -> None: ...

    @trigger("orders", name="orders", history=MemoryHistory())
    async def awork(message: Message) -> None: ...

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
    assert joining.wait(PATIENCE)
    (stop,) = stopping
    (stop.stop if isinstance(stop, Consumer) else stop)()
    running.join(PATIENCE)

    assert not running.is_alive()


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

    def wait_for_ever(member: Member) -> None:
        member._wake.wait()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(Member, "start", start_late)
    monkeypatch.setattr(Kafka, "interrupt", interrupt_early)
    monkeypatch.setattr(Member, "_begin", wait_for_ever)
    monkeypatch.setattr("triggers.providers.kafka.consumer.JOINING", 10 * PATIENCE)

    @trigger("orders", name="orders", history=MemoryHistory())
    def work(message: Message) -> None: ...

    consumer = Consumer([work], open_provider("kafka://127.0.0.1:1"))
    running = threading.Thread(target=consumer.run, daemon=True)
    running.start()
    assert joining.wait(PATIENCE)
    consumer.stop()
    running.join(PATIENCE)

    assert not running.is_alive()
