"""A resolver that finds an earlier run's effect completes its entry, unless a setting leaves it."""

import pytest

from history import EntryOutcome, HistoryUnavailableError, Message, State
from history.bridge import drive
from resolvers import Resolution
from tests.unit.helpers.in_memory import (
    Effects,
    FailingHistory,
    entry_of,
    made,
    message,
    parked_of,
    resolving,
    started_by_another,
    state_of,
    store_of,
    take_over,
)
from triggers import Status
from triggers.pipeline.parking.sweep import close_settled


def test_the_entry_is_completed_and_the_next_copies_ask_nobody() -> None:
    asked: list[str] = []

    def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
        asked.append(uuid)
        return Resolution.DUPLICATE

    book = made(Effects(), resolver=resolver)
    started_by_another(book)

    outcomes = [book.handle(message(delivery_count=2)) for _ in range(3)]

    assert [(outcome.row, outcome.status) for outcome in outcomes] == [
        (11, Status.DUPLICATE),
        (8, Status.DUPLICATE),
        (8, Status.DUPLICATE),
    ]
    assert asked == ["u-1"]
    assert state_of(book) is EntryOutcome.OK
    stats = drive(store_of(book).stats(book.name))
    assert (stats.started, stats.completed) == (0, 1)


def test_a_copy_that_was_in_doubt_before_closes_by_itself() -> None:
    undecided = made(Effects())
    started_by_another(undecided)
    undecided.handle(message(delivery_count=2))
    book = made(Effects(), history=store_of(undecided), resolver=resolving(Resolution.DUPLICATE))

    book.handle(message(delivery_count=3))
    drive(close_settled(book.name, store_of(book), store_of(book).parking))

    assert parked_of(book) == []


def test_left_as_in_the_reference_system_each_copy_asks() -> None:
    book = made(Effects(), resolver=resolving(Resolution.DUPLICATE), resolved_duplicate="leave")
    started_by_another(book)

    outcomes = [book.handle(message(delivery_count=2)) for _ in range(2)]

    assert [outcome.row for outcome in outcomes] == [11, 11]
    assert state_of(book) is State.STARTED


def test_an_entry_that_somebody_takes_over_meanwhile_is_left_alone() -> None:
    def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
        take_over(book, "somebody else again")
        return Resolution.DUPLICATE

    book = made(Effects(), resolver=resolver)
    started_by_another(book)

    outcome = book.handle(message(delivery_count=2))

    entry = entry_of(book)
    assert outcome.status is Status.DUPLICATE
    assert (entry.state, entry.owner) == (State.STARTED, "somebody else again")


def test_a_history_that_is_away_then_does_not_undo_the_word(caplog: pytest.LogCaptureFixture) -> None:
    book = made(
        Effects(),
        history=FailingHistory(HistoryUnavailableError("settling"), "settle"),
        resolver=resolving(Resolution.DUPLICATE),
    )
    started_by_another(book)

    outcome = book.handle(message(delivery_count=2))

    assert (outcome.status, outcome.acknowledge) == (Status.DUPLICATE, True)
    assert "its entry could not be completed" in outcome.reason
    assert "its entry could not be completed" in caplog.text
    assert state_of(book) is State.STARTED
