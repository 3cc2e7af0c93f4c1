"""A pace never exceeds its rate, and catches up one second at most."""

import pytest

from history.errors import ConfigurationError
from triggers.operations.pacing import CAUGHT_UP, SLOWEST, RunPace, pace_of


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_turns_are_as_far_apart_as_the_rate_says() -> None:
    clock = Clock()
    pace = RunPace(50, clock)
    taken = list[float]()
    while clock.now < 102.0:
        rest = pace.take()
        if rest == 0:
            taken.append(clock.now)
        else:
            clock.now += rest

    assert len(taken) in {100, 101}
    assert all(at >= 100.0 + number / 50 - 1e-9 for number, at in enumerate(taken))


def test_time_that_slow_runs_lost_is_caught_up_for_a_second_only() -> None:
    clock = Clock()
    pace = RunPace(10, clock)
    pace.take()
    clock.now += 60

    turns = 0
    while pace.take() == 0:
        turns += 1

    assert turns == 10 * CAUGHT_UP + 1


@pytest.mark.parametrize(
    ("text", "rate"), [("50", 50.0), (" 50/s ", 50.0), ("0.5 /s", 0.5), ("", None), (None, None)]
)
def test_people_write_a_pace_with_or_without_its_unit(text: str | None, rate: float | None) -> None:
    pace = pace_of(text)

    assert (None if pace is None else pace.rate) == rate


@pytest.mark.parametrize("text", ["fast", "5/m", "0", "-1", "nan", "inf", "1e9"])
def test_a_pace_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        pace_of(text)

    assert refused.value.setting == "rate"


def test_a_wait_for_a_turn_ends_when_it_is_stopped() -> None:
    pace, answers = RunPace(SLOWEST), iter([False, True])

    first = pace.wait(lambda: False)
    second = pace.wait(lambda: next(answers))

    assert (first, second) == (True, False)
