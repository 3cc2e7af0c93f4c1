"""The journal has a line for each unusual verdict, and none for ordinary ones; its failures do no harm."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from history import MemoryHistory
from history.beside.journal import JournalLine
from history.bridge import drive
from history.memory.history import shared_history
from resolvers import Resolution, Resolved
from tests.fixtures.beside import kept_in
from tests.unit.helpers.in_memory import (
    NAME,
    Effects,
    made,
    message,
    resolving,
    started_by_another,
    take_over,
)
from triggers import ConfigurationError, FatalError, Message, Trigger


class CountingHistory(MemoryHistory):
    """A history that counts the calls to its journal, and fails in them while it is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.broken = False

    async def append(self, trigger: str, lines: list[JournalLine]) -> None:
        self.calls += 1
        if self.broken:
            raise OSError("no room")
        await super().journal.append(trigger, lines)

    async def read(self, trigger: str, uuid: str, *, limit: int = 100) -> list[JournalLine]:
        return await super().journal.read(trigger, uuid, limit=limit)

    @property
    def journal(self) -> Any:
        return self


def lines_of(book: Trigger[..., object], uuid: str = "u-1") -> Sequence[JournalLine]:
    store = book.open_store()
    assert store is not None
    journal = kept_in(store).journal
    return drive(journal.read(NAME, uuid))


def verdicts_of(book: Trigger[..., object]) -> list[str]:
    return [line.verdict for line in lines_of(book)]


def test_what_runs_as_it_should_leaves_no_line_and_makes_no_call() -> None:
    history = CountingHistory()
    book = made(Effects(), history=history, journal=True)

    book.handle(message())
    book.handle_batch([message(uuid) for uuid in ("u-2", "u-3")])

    assert history.calls == 0


def test_a_trigger_without_a_journal_writes_none() -> None:
    history = CountingHistory()
    book = made(Effects(), history=history)

    for _ in range(2):
        book.handle(message())

    assert history.calls == 0


def test_a_duplicate_leaves_a_line_with_the_reason_of_its_outcome() -> None:
    book = made(Effects(), journal=True)
    book.handle(message())

    outcome = book.handle(message(delivery_count=3))

    (line,) = lines_of(book)
    assert (line.verdict, line.row, line.delivery_count) == ("duplicate", 8, 3)
    assert line.reason == outcome.reason
    assert line.by is not None
    assert line.at is not None


def test_the_duplicates_of_a_batch_are_written_in_one_call() -> None:
    history = CountingHistory()
    book = made(Effects(), history=history, journal=True)

    book.handle_batch([message(uuid) for uuid in ("u-1", "u-1", "u-2", "u-1")])

    assert verdicts_of(book) == ["duplicate", "duplicate"]
    assert history.calls == 1


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Resolved(Resolution.NEW, "no booking of it"), "taken over"),
        (Resolved(Resolution.DUPLICATE, "booking 7 is of it"), "duplicate"),
        (Resolved(Resolution.IN_DOUBT, "the bank does not answer"), "in doubt"),
    ],
)
def test_the_resolvers_reason_is_in_the_line(answer: Resolved, verdict: str) -> None:
    book = made(Effects(), journal=True, resolver=resolving(answer))
    started_by_another(book)

    book.handle(message())

    (line,) = lines_of(book)
    assert line.verdict == verdict
    assert f"resolver: {answer.reason}" in line.reason


def test_a_reason_for_what_runs_without_an_earlier_entry_is_a_line() -> None:
    book = made(
        Effects(),
        history=None,
        journal="memory://journal-of-the-resolved",
        resolver=resolving(Resolved(Resolution.NEW, "no booking of it")),
    )

    book.handle(message(delivery_count=2))

    (line,) = drive(shared_history("journal-of-the-resolved").journal.read(NAME, "u-1"))
    assert (line.verdict, line.row) == ("resolved", 4)


def test_what_is_in_doubt_rejected_or_given_up_leaves_a_line() -> None:
    book = made(Effects(FatalError("no such account")), journal=True)
    started_by_another(book)

    book.handle(message())
    book.handle(message(delivery_count=101))
    book.handle(message("u-2"))

    assert verdicts_of(book) == ["in doubt", "rejected"]
    (given_up,) = lines_of(book, "u-2")
    assert given_up.verdict == "given up"


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [({"in_doubt": "execute"}, "in doubt"), ({"shadow": True}, "would have been in doubt")],
    ids=["execute", "shadow"],
)
def test_what_is_in_doubt_and_runs_all_the_same_leaves_a_line(settings: Any, verdict: str) -> None:
    book = made(Effects(), journal=True, **settings)
    started_by_another(book)

    assert book.handle(message()).executed

    assert verdicts_of(book) == [verdict]


def test_what_is_in_doubt_and_runs_without_a_history_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book = made(Effects(), history=None, in_doubt="execute")

    with caplog.at_level(logging.WARNING):
        outcome = book.handle(message(delivery_count=2))

    assert outcome.executed
    assert [record.getMessage() for record in caplog.records] == [f"u-1 {outcome.reason}"]


def test_a_completion_that_comes_too_late_leaves_a_line() -> None:
    def slow(message: Message) -> None:
        take_over(book, "somebody faster")

    book: Trigger[..., object] = made(slow, journal=True, lease=None)

    book.handle(message())

    (line,) = lines_of(book)
    assert line.verdict == "late completion"
    assert "somebody faster" in line.reason


def test_a_journal_that_cannot_be_written_stops_nothing_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history = CountingHistory()
    book = made(Effects(), history=history, journal=True)
    book.handle(message())

    history.broken = True
    with caplog.at_level(logging.WARNING):
        outcomes = [book.handle(message()) for _ in range(3)]
        history.broken = False
        outcomes.append(book.handle(message()))

    assert [outcome.kind for outcome in outcomes] == ["duplicate"] * 4
    assert verdicts_of(book) == ["duplicate"]
    first, last = [record.getMessage() for record in caplog.records if "journal" in record.getMessage()]
    assert "cannot be written, and its messages go on without: no room" in first
    assert "it lacks 3 lines" in last


def test_a_journal_without_a_place_is_refused() -> None:
    book = made(Effects(), history=None, journal=True)

    with pytest.raises(ConfigurationError) as refused:
        book.handle(message())

    assert (refused.value.setting, refused.value.problem) == ("journal", "there is no history")
