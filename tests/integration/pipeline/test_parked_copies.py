"""A message that is delivered again and again is parked once, and its copies are counted."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from history import Message, ParkedKind, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from triggers import FatalError, trigger


@pytest.fixture
def history(sql_database: str) -> str:
    return sql_database


@pytest.fixture
def store(history: str) -> Iterator[KeepsBeside]:
    opened = open_history(history)
    yield opened
    drive(opened.close())


def test_an_atomic_trigger_parks_a_failed_message_once_and_counts_its_copies(
    history: str, store: KeepsBeside
) -> None:
    @trigger("orders", name="book", history=history, transacted=True)
    def book(message: Message, connection: Connection) -> None:
        raise FatalError("no such customer")

    copies = [
        Message(body={"id": 1}, uuid="order-1", message_id=f"ID:{n}", delivery_count=1) for n in range(8)
    ]
    changed = Message(body={"id": 2}, uuid="order-1", message_id="ID:9", delivery_count=1)

    outcomes = [book.handle(message) for message in (*copies, changed)]
    book.close()

    assert [outcome.rejected for outcome in outcomes] == [False, *[True] * 8]
    parked = drive(store.parking.list())
    assert [(one.kind, one.copies) for one in parked] == [(ParkedKind.REJECTED, 7), (ParkedKind.REJECTED, 1)]
    assert [one.message.body for one in parked if one.message is not None] == [{"id": 1}, {"id": 2}]


def test_a_message_in_doubt_that_was_sent_twice_is_parked_once(history: str, store: KeepsBeside) -> None:
    @trigger("orders", name="book", history=history, lease=None)
    def book(message: Message) -> None:
        raise AssertionError

    drive(store.claim("book", ["order-1"], "dead"))
    for n in range(3):
        book.handle(Message(body={"id": 1}, uuid="order-1", message_id=f"ID:{n}", delivery_count=n + 1))
    book.close()

    (parked,) = drive(store.parking.list())
    assert (parked.kind, parked.copies) == (ParkedKind.IN_DOUBT, 3)
