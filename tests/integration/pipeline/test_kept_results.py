"""A duplicate gets the result of the run that completed its entry, never of another run."""

import logging
import pickle
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from history import ConfigurationError, MemoryHistory, open_history
from history.beside.results import KeptResult
from history.bridge import drive
from history.store import DecisionKind, OperatorDecision
from tests.fixtures.beside import kept_in
from triggers import FailedBeforeError, Keep, Message, Outcome, Retry, TransientError, trigger
from triggers.guards import protect
from triggers.pipeline.parking.decisions import decide


class Receipt(BaseModel):
    number: int
    paid: bool = False


ONE = Message(body="", uuid="u-1")


def receipts(history: Any, **options: Any) -> Any:
    """Return a trigger that puts the number of the run into its result."""
    runs: list[str | None] = []

    given: dict[str, Any] = {"history": history, "keep_result": True} | options

    @trigger("orders", name="book", **given)
    def book(message: Message) -> Receipt:
        runs.append(message.uuid)
        return Receipt(number=len(runs), paid=True)

    return book


def twice(book: Any) -> tuple[Outcome, Outcome]:
    first, copy = book.handle(ONE), book.handle(ONE)
    assert (first.executed, copy.executed, copy.kind) == (True, False, "duplicate")
    return first, copy


class TestEachHistory:
    def test_a_copy_gets_what_the_first_run_returned(self, history_url: str) -> None:
        with closing(receipts(history_url)) as book:
            first, copy = twice(book)

        assert (first.result_kept, copy.result_kept) == (False, True)
        assert copy.result == first.result == Receipt(number=1, paid=True)

    async def test_so_it_does_under_asyncio(self, history_url: str) -> None:
        @trigger("orders", name="book", history=history_url, keep_result=True)
        async def book(_message: Message) -> dict[str, int]:
            return {"number": 1}

        await book.ahandle(ONE)
        copy = await book.ahandle(ONE)
        await book.aclose()

        assert (copy.result, copy.result_kept) == ({"number": 1}, True)

    def test_each_of_a_batch_gets_its_own(self, history_url: str) -> None:
        with closing(receipts(history_url)) as book:
            first = book.handle_batch([Message(body="", uuid=uuid) for uuid in "abc"])

            copies = book.handle_batch([Message(body="", uuid=uuid) for uuid in "cabb"])

        known = {one.uuid: one.result for one in first}
        assert [copy.result for copy in copies] == [known[uuid] for uuid in "cabb"]

    def test_what_a_run_kept_that_lost_its_entry_is_nobodys(self, history_url: str) -> None:
        with closing(receipts(history_url)) as book:
            twice(book)
            store = open_history(history_url)
            results = kept_in(store).results
            kept = drive(results.get("book", "u-1"))
            assert kept is not None
            drive(results.put("book", "u-1", KeptResult(kept.fence + 1, kept.data), timedelta(hours=1)))
            drive(store.close())

            copy = book.handle(ONE)

        assert (copy.result, copy.result_kept, copy.kind) == (None, False, "duplicate")


def test_a_guard_gives_it_too() -> None:
    book = protect("book", history=MemoryHistory(), keep_result=True)

    first = book.handle("u-1", lambda: {"number": 17})
    copy = book.handle("u-1", lambda: {"number": 18})

    assert (first.result, copy.result, copy.result_kept) == ({"number": 17}, {"number": 17}, True)


def test_without_the_option_nothing_is_kept() -> None:
    _, copy = twice(receipts(MemoryHistory(), keep_result=False))

    assert (copy.result, copy.result_kept) == (None, False)


class TestAFailedRun:
    def test_its_copies_are_told_how_it_failed(self, history_url: str) -> None:
        with closing(protect("book", history=history_url, keep_result=True)) as book:
            first = book.handle("u-1", lambda: 1 / 0)
            copy = book.handle("u-1", lambda: 1)

        assert isinstance(first.error, ZeroDivisionError)
        assert (copy.kind, copy.result, copy.result_kept, copy.executed) == ("duplicate", None, False, False)
        assert isinstance(copy.error, FailedBeforeError)
        assert (copy.error.error_class, copy.error.error_message) == (
            "builtins.ZeroDivisionError",
            "division by zero",
        )
        assert copy.acknowledge

    def test_so_are_those_of_one_whose_retries_are_used_up(self) -> None:
        retry = Retry(max_attempts=1, interval=timedelta(0))
        book = protect("book", history=MemoryHistory(), keep_result=True, retry=retry)

        book.handle("u-1", lambda: fail(TransientError("away")))
        error = book.handle("u-1", lambda: 1).error

        assert isinstance(error, FailedBeforeError)
        assert str(error) == "it ran before and failed for good: triggers.TransientError: away"

    def test_one_that_is_given_back_leaves_nothing(self) -> None:
        book = protect("book", history=MemoryHistory(), keep_result=True, transacted=True)

        book.handle("u-1", lambda: fail(TransientError("away")))
        again = book.handle("u-1", lambda: 17)

        assert (again.result, again.error, book.handle("u-1", lambda: 1).result) == (17, None, 17)

    def test_one_that_somebody_calls_done_is_no_failure_any_more(self) -> None:
        store = MemoryHistory()
        book = protect("book", history=store, keep_result=True)
        book.handle("u-1", lambda: 1 / 0)
        labels = drive(store.parking.labels(trigger="book")).labels

        done = OperatorDecision(kind=DecisionKind.DONE, by="somebody")
        drive(decide(labels, done, lot=store.parking, store=store))

        copy = book.handle("u-1", lambda: 1)
        assert (copy.kind, copy.error) == ("duplicate", None)

    def test_without_the_option_nothing_is_told(self) -> None:
        book = protect("book", history=MemoryHistory())

        book.handle("u-1", lambda: 1 / 0)

        assert book.handle("u-1", lambda: 1).error is None

    def test_what_it_says_is_cut_short(self) -> None:
        book = protect("book", history=MemoryHistory(), keep_result=True)

        book.handle("u-1", lambda: fail(ValueError("x" * 10_000_000)))
        error = book.handle("u-1", lambda: 1).error

        assert isinstance(error, FailedBeforeError)
        assert len(error.error_message) < 100_000

    def test_what_tells_of_it_can_be_pickled(self) -> None:
        error = pickle.loads(pickle.dumps(FailedBeforeError("a.B", "c")))  # noqa: S301  (our own)

        assert (error.error_class, error.error_message, error.args) == ("a.B", "c", ("a.B", "c"))


def fail(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize(
    ("result", "problem"),
    [(object, "cannot be written as JSON"), (lambda: "x" * 100, "larger than the limit")],
    ids=["no JSON", "too large"],
)
def test_what_cannot_be_kept_is_completed_and_said_once(
    result: Callable[[], Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    book = protect("book", history=MemoryHistory(), keep_result=Keep(limit=50))
    with caplog.at_level(logging.WARNING):
        for uuid in ("u-1", "u-1", "u-2"):
            outcome = book.handle(uuid, result)

    assert (outcome.kind, outcome.result_kept) == ("ok", False)
    assert [problem in record.getMessage() for record in caplog.records].count(True) == 1


@dataclass
class Till:
    """A service that is an object without a hash."""

    number: int

    def __call__(self, message: Message) -> Receipt:
        return Receipt(number=self.number, paid=message.uuid == ONE.uuid)


def pay(number: int, message: Message) -> Receipt:
    return Receipt(number=number, paid=message.uuid == ONE.uuid)


@pytest.mark.parametrize("service", [Till(3), partial(pay, 3)], ids=["object", "partial"])
def test_a_copy_gets_what_a_service_of_any_kind_returns(service: Any) -> None:
    book = trigger("orders", name="book", history=MemoryHistory(), keep_result=True)(service)

    first, copy = twice(book)

    assert copy.result == first.result == Receipt(number=3, paid=True)


def test_what_is_returned_may_be_local_to_the_caller() -> None:
    class Local(BaseModel):
        number: int

    def service(message: Message) -> object:
        return Local(number=3)

    service.__annotations__["return"] = "Local"  # as under "from __future__ import annotations"
    book = trigger("orders", name="book", history=MemoryHistory(), keep_result=True)(service)

    _, copy = twice(book)

    assert copy.result == Local(number=3)


def test_a_result_that_the_service_does_not_return_any_more_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history = MemoryHistory()
    protect("book", history=history, keep_result=True).handle("u-1", lambda: {"other": 1})

    copy = receipts(history).handle(ONE)

    assert (copy.kind, copy.result_kept) == ("duplicate", False)
    assert "not what the service returns now" in caplog.text


def test_a_history_that_fails_to_keep_does_not_undo_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    history = MemoryHistory()
    book = receipts(history)

    async def fail(*_: Any) -> bool:
        raise OSError("no room")

    results = kept_in(history).results
    monkeypatch.setattr(type(results), "put", fail)
    first, copy = twice(book)

    assert (first.kind, copy.result_kept) == ("ok", False)


@pytest.mark.parametrize(
    "options",
    [{"shadow": True}, {"batch": 5}, {"detect_duplicates": False}, {"history": None}],
    ids=lambda options: next(iter(options)),
)
def test_it_is_refused_beside_what_it_cannot_go_with(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"keep_result|leave one of the two out"):
        receipts(**({"history": MemoryHistory()} | options)).handle(ONE)
