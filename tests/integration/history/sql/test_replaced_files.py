"""A file of SQLite that is deleted or restored while it is open: what is there now is used, and said."""

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql import SqlHistory
from history.store.control import Report
from history.store.journal import JournalLine
from history.store.parking import Parked, ParkedKind
from tests.fixtures.waiting import eventually
from tests.integration.history.sql.sql_worker import TRIGGER, opened
from triggers import Message, trigger
from triggers.providers.provider import Arrival, Receiver
from triggers.providers.sqljms.provider import SqlJms

HOUR = timedelta(hours=1)

PARKED = Parked(
    id="id-1",
    trigger_name=TRIGGER,
    kind=ParkedKind.IN_DOUBT,
    reason="a test",
    uuid="a",
    message=Message(body=""),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite3"


def deleted(file: Path, _backup: Path) -> None:
    for one in file.parent.glob(f"{file.name}*"):
        one.unlink()


def deleted_alone(file: Path, _backup: Path) -> None:
    file.unlink()


def restored(file: Path, backup: Path) -> None:
    deleted(file, backup)
    shutil.copy(backup, file)


def moved(file: Path, backup: Path) -> None:
    shutil.copy(backup, copy := file.with_name("copy"))
    deleted(file, backup)
    copy.rename(file)


LOSSES = [deleted, deleted_alone, restored, moved]


def backed_up(file: Path) -> Path:
    backup = file.with_name("backup")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    return backup


def claimed(store: SqlHistory, uuid: str) -> bool:
    """Claim as a delivery does; False for a duplicate."""
    (claim,) = drive(store.claim(TRIGGER, [uuid], "me"))
    if claim.found is None:
        drive(store.complete(TRIGGER, uuid, claim.fence))
    return claim.found is None


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.CRITICAL]


@pytest.mark.parametrize("lose", LOSSES)
def test_all_processes_meet_in_the_file_that_is_there_now(
    file: Path, lose: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "before the backup")
        backup = backed_up(file)
        assert claimed(store, "after the backup")

        lose(file, backup)

        assert claimed(store, "after the backup")
        assert claimed(store, "before the backup") is (lose in {deleted, deleted_alone})
        with opened(f"sqlite:///{file}") as another:
            assert not claimed(another, "after the backup")
            assert claimed(another, "by another process")
        assert not claimed(store, "by another process")
    assert f"{file} was" in alarms(caplog)[0]
    assert "while it was open" in alarms(caplog)[0]


def test_nothing_is_said_where_nothing_happens(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(f"sqlite:///{file}") as store, opened(f"sqlite:///{file}") as another:
        assert claimed(store, "a")
        assert not claimed(another, "a")
    file.unlink()
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "a")

    assert alarms(caplog) == []


def test_fences_go_on_above_those_of_the_lost_file(file: Path) -> None:
    with opened(f"sqlite:///{file}") as store:
        (first,) = drive(store.claim(TRIGGER, ["a"], "me"))
        file.unlink()
        (second,) = drive(store.claim(TRIGGER, ["a"], "you"))

        assert second.found is None
        assert second.fence > first.fence
        assert not drive(store.complete(TRIGGER, "a", first.fence)), "its file is gone, and it is another's"


def _all_parts(store: SqlHistory) -> None:
    """Use each part that has tables of its own."""
    drive(store.parking.park([PARKED]))
    drive(store.journal.append(TRIGGER, [JournalLine(verdict="new", reason="a test", uuid="a")]))
    drive(store.fingerprints.first(TRIGGER, "a", b"print", HOUR))
    drive(store.control.beat("token", [Report(consumer="me", trigger=TRIGGER)]))
    assert drive(store.results.get(TRIGGER, "a")) is None
    assert drive(store.parking.count(trigger=TRIGGER)) == 1
    assert len(drive(store.journal.read(TRIGGER))) == 1
    assert len(drive(store.control.overview()).beats) == 1


def test_every_part_makes_its_tables_anew(file: Path) -> None:
    with opened(f"sqlite:///{file}") as store:
        _all_parts(store)
        file.unlink()

        _all_parts(store)


async def test_tasks_follow_as_well(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqlHistory.from_url(f"sqlite:///{file}").for_asyncio()
    await store.claim(TRIGGER, ["a"], "me")
    deleted_alone(file, file)

    claims = await asyncio.gather(*(store.claim(TRIGGER, ["a", f"b{n}"], f"{n}") for n in range(20)))

    assert sum(claim[0].found is None for claim in claims) == 1
    assert all(claim[1].found is None for claim in claims)
    assert len([one for one in alarms(caplog) if "while it was open" in one]) == 1
    await store.close()


def test_a_folder_that_is_away_is_named_and_may_come_back(file: Path) -> None:
    file = file.parent / "mounted" / file.name
    file.parent.mkdir()
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "a")
        shutil.rmtree(file.parent)

        with pytest.raises(ConfigurationError, match="cannot be opened"):
            claimed(store, "a")
        file.parent.mkdir()
        assert claimed(store, "a")
        assert not claimed(store, "a")


def test_an_atomic_service_writes_to_the_file_that_is_there_now(file: Path) -> None:
    @trigger("orders", name="book", history=f"sqlite:///{file}", transacted=True)
    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (uuid TEXT)"))
        connection.execute(text("INSERT INTO bookings VALUES (:uuid)"), {"uuid": message.uuid})

    message = Message(body={}, uuid="a", destination="orders")
    assert book.handle(message).status == "NEW"
    file.unlink()

    assert [book.handle(message).status for _ in range(2)] == ["NEW", "DUPLICATE"]
    book.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT uuid FROM bookings").fetchall() == [("a",)]


def received(receiver: Receiver) -> list[str | None]:
    """Receive and acknowledge until there is something."""
    found = eventually(lambda: drive(receiver.receive(10)))
    drive(receiver.acknowledge(found))
    return [one.message.uuid for one in found if isinstance(one, Arrival)]


def test_a_consumer_of_sql_jms_receives_what_is_sent_to_the_new_file(file: Path) -> None:
    """As who tries the tutorial does it: delete the file to begin again, while a consumer runs."""
    consumer, producer = (SqlJms.from_url(f"sqlite:///{file}") for _ in range(2))
    receiver = drive(consumer.open_receiver("queue://orders", subscription="book", name="one"))
    drive(producer.send("queue://orders", [Message(body="a", uuid="a")]))
    assert received(receiver) == ["a"]
    file.unlink()

    drive(producer.send("queue://orders", [Message(body="b", uuid="b")]))

    assert received(receiver) == ["b"]
    drive(receiver.close())
    for provider in (producer, consumer):
        drive(provider.close())
