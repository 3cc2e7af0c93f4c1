"""The number of messages in a transaction doubles while it is quick, and falls when it is slow."""

from typing import Any

import pytest

from triggers.pipeline.sharing.pace import LONGEST, Pace, pace_of
from triggers.service.settings import Settings

QUICK = LONGEST / 10


def test_it_doubles_up_to_its_limit_while_transactions_are_quick() -> None:
    pace = Pace(10)
    sizes: list[int] = []
    for _ in range(6):
        sizes.append(pace.size)
        pace.note(pace.size, QUICK)

    assert sizes == [1, 2, 4, 8, 10, 10]


def test_what_was_less_than_it_might_have_been_says_nothing_of_more() -> None:
    pace = Pace(10, size=8)
    pace.note(3, QUICK)

    assert pace.size == 8


@pytest.mark.parametrize(("count", "seconds", "size"), [(8, 2 * LONGEST, 4), (8, 100, 1), (1, 100, 1)])
def test_slow_services_share_less(count: int, seconds: float, size: int) -> None:
    pace = Pace(10, size=8)
    pace.note(count, seconds)

    assert pace.size == size


def test_after_transactions_that_failed_it_goes_one_by_one_for_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("triggers.pipeline.sharing.pace.monotonic", lambda: now)
    pace = Pace(10, size=8)
    rests: list[float] = []
    for _ in range(9):
        pace.slow_down()
        begun = now
        while pace.size == 1:
            now += 1
            pace.note(1, QUICK)
        rests.append(now - begun)

    assert rests == [10, 20, 40, 80, 160, 320, 600, 600, 600]


@pytest.mark.parametrize(
    "settings",
    [
        {"prefetch": 1},
        {"batch": 5},
        {"ordered": True},
        {"suspend_on_error": True},
        {"acknowledge_mode": "dups_ok"},
    ],
    ids=str,
)
def test_messages_that_must_be_over_before_the_next_share_nothing(settings: dict[str, Any]) -> None:
    usual = {"name": "book", "transacted": True}

    assert pace_of(Settings.of(["orders"], usual, None)) == Pace(10)
    assert pace_of(Settings.of(["orders"], usual | settings, None)) is None
