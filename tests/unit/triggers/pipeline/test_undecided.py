"""What is remembered of claims without an answer is bounded."""

from datetime import UTC, datetime

from history.entry import Entry, Fence, State
from triggers.pipeline.undecided import MOST, UndecidedClaims


def started(owner: str) -> Entry:
    now = datetime.now(UTC)
    return Entry(
        state=State.STARTED, fence=Fence(1), owner=owner, started_at=now, expires_at=now, read_at=now
    )


def test_the_oldest_is_forgotten_first() -> None:
    undecided = UndecidedClaims()

    undecided.note("first", ["a", "b"])
    undecided.note("second", ["a"])
    undecided.note("many", [str(number) for number in range(MOST - 1)])

    assert undecided.is_ours("a", started("second"))
    assert not undecided.is_ours("a", started("first"))
    assert not undecided.is_ours("b", started("first"))
    assert not undecided.is_ours(None, started("first"))
