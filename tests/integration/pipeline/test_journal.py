"""The journal on real servers: with the history, elsewhere, for atomic triggers, and during an outage."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from history.beside.journal import JournalLine
from history.store import HistoryStore
from tests.fixtures.beside import kept_in
from tests.fixtures.histories import with_store
from triggers import Message, trigger


def lines_at(url: str, uuid: str = "u-1") -> Sequence[JournalLine]:
    async def read(store: HistoryStore) -> Sequence[JournalLine]:
        journal = kept_in(store).journal
        return await journal.read("book", uuid)

    return with_store(url, read)


def order(**more: Any) -> Message:
    return Message(body=b"{}", uuid="u-1", **more)


def test_an_atomic_trigger_has_a_journal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite3"

    @trigger("orders", name="book", history=url, journal=True, transacted=True)
    def book(body: bytes, connection: Connection) -> None:
        connection.execute(text("SELECT 1"))

    with closing(book):
        for _ in range(2):
            book.handle(order())

    assert [line.verdict for line in lines_at(url)] == ["duplicate"]


def test_a_journal_elsewhere_is_written_there_and_closed_with_the_trigger(
    redis_url: str, tmp_path: Path
) -> None:
    elsewhere = f"sqlite:///{tmp_path}/journal.sqlite3"

    @trigger("orders", name="book", history=redis_url, journal=elsewhere)
    def book(body: bytes) -> None: ...

    with closing(book):
        for _ in range(2):
            book.handle(order())

    assert [line.verdict for line in lines_at(elsewhere)] == ["duplicate"]
    assert lines_at(redis_url) == []
