"""What a member of a group does when Kafka refuses its commits."""

import logging
from dataclasses import dataclass, field

import pytest

pytest.importorskip("confluent_kafka")

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
