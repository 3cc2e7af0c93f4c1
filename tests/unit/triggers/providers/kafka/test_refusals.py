"""What a member of a group does when Kafka refuses its commits, or to let it join."""

import logging
from dataclasses import dataclass, field

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from triggers.providers.brokers.push_receiver import Inbox
from triggers.providers.kafka.connection import Member
from triggers.providers.kafka.errors import REFUSING, Refusals


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
    polled(KafkaError._TRANSPORT, KafkaError._PARTITION_EOF)  # noqa: SLF001

    assert told(caplog) == 0
