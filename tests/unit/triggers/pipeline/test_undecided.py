"""What is remembered of claims without an answer is bounded."""

import asyncio
from datetime import UTC, datetime, timedelta

from history.entry import Entry, Fence, State
from history.memory import MemoryHistory
from triggers.pipeline.undecided import MOST, TOKENS, UndecidedClaims


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
    assert undecided.is_ours("a", started("first")), "its answer did not come either"
    assert not undecided.is_ours("b", started("first"))
    assert not undecided.is_ours(None, started("first"))


def test_of_one_uuid_the_first_and_the_latest_attempts_are_remembered() -> None:
    undecided = UndecidedClaims()

    for number in range(3 * TOKENS):
        undecided.note(f"attempt {number}", ["a"])

    known = [number for number in range(3 * TOKENS) if undecided.is_ours("a", started(f"attempt {number}"))]
    assert known == [0, *range(2 * TOKENS + 1, 3 * TOKENS)]
    undecided.forget(["a"])
    assert not undecided.known


def test_what_somebody_else_runs_is_not_released() -> None:
    async def claimed() -> list[State | None]:
        store, undecided = MemoryHistory(), UndecidedClaims()
        await store.claim("book", ["ours"], "our token", timedelta(minutes=1))
        await store.claim("book", ["theirs"], "their token", timedelta(minutes=1))
        undecided.note("our token", ["ours", "theirs"])
        await undecided.release_in(store, "book")
        return [
            None if entry is None else entry.state for entry in await store.lookup("book", ["ours", "theirs"])
        ]

    assert asyncio.run(claimed()) == [None, State.STARTED]
