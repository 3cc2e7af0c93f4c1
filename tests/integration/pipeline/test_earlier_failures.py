"""A transacted service failed in an earlier delivery. The message is given up, and its copy says why."""

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, text

from history import MemoryHistory, open_history
from history.beside.kept import KeepsBeside
from history.beside.results import KeptResult, Results
from history.bridge import drive
from history.sql import OffsetHistory, SqlHistory
from history.store import Parked
from tests.fixtures.beside import EntriesOnly, kept_in
from tests.fixtures.databases import engine_at
from triggers import FailedBeforeError, Message, Outcome, trigger


def charge(message: Message) -> None:
    raise LookupError(f"no customer in {message.uuid}")


def process(history: Any, **options: Any) -> Any:
    """Return the trigger as another process declares it."""
    return trigger("orders", name="book", history=history, transacted=True, **options)(charge)


def delivered(history: Any, count: int, **options: Any) -> Outcome:
    with closing(process(history, **options)) as book:
        outcome: Outcome = book.handle(Message(body="{}", uuid="u-1", delivery_count=count))
        return outcome


def parked_in(store: KeepsBeside) -> Parked:
    (label,) = drive(store.parking.labels(trigger="book")).labels
    copy = drive(store.parking.get(label.id))
    assert copy is not None
    return copy


def test_the_copy_and_the_event_name_the_error_of_the_first_delivery(history_url: str) -> None:
    delivered(history_url, 1)
    given_up = delivered(history_url, 2)

    store = open_history(history_url)
    copy = parked_in(store)
    drive(store.close())
    assert (copy.error_class, copy.error_message) == ("builtins.LookupError", "no customer in u-1")
    assert copy.error_place is not None
    assert "test_earlier_failures.py" in copy.error_place
    assert copy.error_trace is not None
    assert "in charge" in copy.error_trace
    event, error = given_up.event, given_up.error
    assert event is not None
    assert (event.exception_class, event.exception_message) == (copy.error_class, copy.error_message)
    assert isinstance(error, FailedBeforeError)
    assert (error.error_class, error.error_message) == (copy.error_class, copy.error_message)


def without_uuid(text: str) -> str:
    return text.replace("u-1", "***")


def test_a_redacted_error_stays_redacted() -> None:
    store = MemoryHistory()

    for count in (1, 2):
        delivered(store, count, redact=without_uuid)

    assert parked_in(store).error_message == "no customer in ***"


def test_the_failure_of_another_run_is_not_named() -> None:
    store = MemoryHistory()
    delivered(store, 1)
    failures = kept_in(store).failures
    kept = drive(failures.get("book", "u-1"))
    assert kept is not None
    later = KeptResult(kept.fence + 1, kept.data)
    drive(failures.put("book", "u-1", later, process(store).settings.history_time_to_live))

    given_up = delivered(store, 2)

    assert (given_up.rejected, given_up.parked, given_up.error) == (True, True, None)
    assert parked_in(store).error_class is None


def book(message: Message, connection: Connection) -> None:
    connection.execute(text("SELECT 1"))
    charge(message)


@pytest.mark.parametrize("history", [SqlHistory, OffsetHistory])
def test_an_atomic_trigger_names_the_error(sql_database: str, history: type[SqlHistory]) -> None:
    uuid = "kafka:shop:orders:0:5"
    with engine_at(sql_database) as engine:
        store = history(engine)
        atomic = trigger("orders", name="book", history=store, transacted=True)(book)

        first, given_up = [
            atomic.handle(Message(body="{}", uuid=uuid, delivery_count=count)) for count in (1, 2)
        ]

        assert (first.acknowledge, given_up.rejected, given_up.parked) == (False, True, True)
        copy = parked_in(store)
        assert (copy.error_class, copy.error_message) == ("builtins.LookupError", f"no customer in {uuid}")


@pytest.mark.parametrize("broken", [Results.put, Results.get], ids=["put", "get"])
def test_a_failure_that_cannot_be_kept_changes_nothing_else(
    broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise ValueError("the disk is full")

    store = MemoryHistory()
    monkeypatch.setattr(Results, broken.__name__, fail)

    first, given_up = delivered(store, 1), delivered(store, 2)

    assert (first.acknowledge, given_up.rejected, given_up.parked) == (False, True, True)
    assert parked_in(store).error_class is None
    warned = [record for record in caplog.records if "the disk is full" in record.getMessage()]
    assert [record.levelno for record in warned] == [logging.WARNING]


def test_a_history_without_records_gives_the_message_up_without_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    history = EntriesOnly()

    first, given_up = delivered(history, 1), delivered(history, 2)

    assert (first.acknowledge, given_up.rejected, given_up.parked) == (False, True, True)
    assert given_up.error is None
    assert not [record for record in caplog.records if "its failure" in record.getMessage()]
