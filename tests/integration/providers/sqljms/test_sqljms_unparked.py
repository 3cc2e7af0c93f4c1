"""A message whose queue is in the database of the effects leaves it only after it is kept elsewhere."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from history import HistoryUnavailableError, Message, Parked
from history.beside.parking import Parking
from history.bridge import drive
from tests.fixtures.waiting import eventually
from tests.unit.helpers.in_memory import NO_FILE
from triggers import Outcome, TransientError, trigger
from triggers.providers.sqljms.provider import SqlJms

QUEUE = "queue://orders"


def test_a_rejected_message_that_nothing_can_keep_stays_in_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    provider = SqlJms.from_url(f"{url}?poll_interval=0.05")
    receiver = drive(provider.open_receiver(QUEUE, subscription="book", name="one"))

    async def refuse(_: Parking, parked: Sequence[Parked]) -> None:
        raise HistoryUnavailableError(f"parking {len(parked)}")

    @trigger(
        QUEUE,
        name="book",
        history=url,
        transacted=True,
        max_delivery_count=1,
        local_parking_file=NO_FILE,
        redelivery=None,
    )
    def book(connection: Connection) -> None:
        raise TransientError("the bank is away")

    def deliver() -> Outcome | None:
        received = drive(receiver.receive(1))
        return drive(book.pipeline().deliver(receiver, received))[0] if received else None

    drive(provider.send(QUEUE, [Message(body="", uuid="a")]))
    monkeypatch.setattr(Parking, "park", refuse)
    first = deliver()
    second = eventually(deliver)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        (left,) = connection.execute("SELECT COUNT(*) FROM dms_queue_entry").fetchone()
    book.close()
    drive(receiver.close())
    drive(provider.close())

    assert first is not None
    assert not first.acknowledge
    assert isinstance(second, Outcome)
    assert second.rejected
    assert not second.acknowledge
    assert left == 1
