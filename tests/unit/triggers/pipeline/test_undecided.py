"""A process remembers claims without an answer, but only up to a limit."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from history import Entry, Fence, HistoryUnavailableError, MemoryHistory, State
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
    assert undecided.is_ours("a", started("first")), "this claim is also without an answer"
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


class Away(MemoryHistory):
    """A history that does not answer ``lookup`` the first time."""

    asked = False

    async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
        self.asked, again = True, self.asked
        if not again:
            raise HistoryUnavailableError("looking")
        return await super().lookup(trigger, uuids)


def test_what_could_not_be_released_is_released_another_time() -> None:
    async def claimed() -> Sequence[Entry | None]:
        store, undecided = Away(), UndecidedClaims()
        await store.claim("book", ["ours"], "our token", timedelta(minutes=1))
        undecided.note("our token", ["ours"])
        with pytest.raises(HistoryUnavailableError):
            await undecided.release_in(store, "book")
        await undecided.release_in(store, "book")
        return await store.lookup("book", ["ours"])

    assert asyncio.run(claimed()) == [None]


def test_a_claim_that_is_on_its_way_is_released_when_it_has_come() -> None:
    async def claimed() -> Sequence[Entry | None]:
        store, undecided = MemoryHistory(), UndecidedClaims()
        undecided.note("our token", ["ours"])
        await undecided.release_in(store, "book", on_their_way=True)
        await store.claim("book", ["ours"], "our token", timedelta(minutes=1))
        await undecided.release_in(store, "book")
        return await store.lookup("book", ["ours"])

    assert asyncio.run(claimed()) == [None]
