"""If a SQLite file is deleted or restored while it is open, the new file is used and a log line says so."""

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from history import ConfigurationError, HistoryUnavailableError, Parked, ParkedKind, SqlHistory
from history.beside.fingerprints import first_of
from history.beside.journal import JournalLine
from history.bridge import drive
from history.store import Report
from tests.fixtures.waiting import eventually
from tests.integration.history.sql.sql_worker import TRIGGER, opened
from triggers import Message, ProviderUnavailableError, trigger
from triggers.providers import Arrival, Receiver
from triggers.providers.sqljms.provider import SqlJms

HOUR = timedelta(hours=1)

ALARM = "history.support.open_files", logging.CRITICAL

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


def delete(file: Path) -> None:
    for one in file.parent.glob(f"{file.name}*"):
        one.unlink()


def copied(file: Path, backup: Path) -> None:
    delete(file)
    shutil.copy(backup, file)


def moved(file: Path, backup: Path) -> None:
    shutil.copy(backup, copy := file.with_name("copy"))
    delete(file)
    copy.rename(file)


def made_by_another(file: Path, _backup: Path) -> None:
    file.unlink(missing_ok=True)
    with opened(f"sqlite:///{file}") as another:
        drive(another.check())


def backed_up(file: Path) -> Path:
    backup = file.with_name("backup")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    return backup


def claimed(store: SqlHistory, uuid: str) -> bool:
    """Claim like a delivery. Return False for a duplicate."""
    (claim,) = drive(store.claim(TRIGGER, [uuid], "me"))
    if claim.found is None:
        drive(store.complete(TRIGGER, uuid, claim.fence))
    return claim.found is None


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if (one.name, one.levelno) == ALARM]


@pytest.mark.parametrize("lose", [copied, moved, made_by_another])
def test_all_processes_meet_in_the_file_that_is_there_now(
    file: Path, lose: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "before the backup")
        backup = backed_up(file)
        assert claimed(store, "after the backup")

        lose(file, backup)

        assert claimed(store, "after the backup")
        assert claimed(store, "before the backup") is (lose is made_by_another)
        with opened(f"sqlite:///{file}") as another:
            assert not claimed(another, "after the backup")
            assert claimed(another, "by another process")
        assert not claimed(store, "by another process")
    assert alarms(caplog)[0].startswith(f"{file} was replaced by another file while it was open")


def test_none_is_made_where_one_was_deleted_and_it_may_come_back(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A person may be about to copy a backup there. A new file in use would spoil it."""
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "a")
        file.rename(aside := file.with_name("aside"))
        for _ in range(2):
            with pytest.raises(HistoryUnavailableError):
                claimed(store, "a")
        file.touch()
        with pytest.raises(HistoryUnavailableError):
            claimed(store, "a")

        aside.rename(file)

        assert not claimed(store, "a")
        assert claimed(store, "b")
    (alarm,) = alarms(caplog)
    assert alarm.startswith(f"{file} was deleted while it was open: nothing is read or written until")


def test_nothing_is_said_where_nothing_happens(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(f"sqlite:///{file}") as store, opened(f"sqlite:///{file}") as another:
        assert claimed(store, "a")
        assert not claimed(another, "a")
    file.unlink()
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "a")

    assert alarms(caplog) == []


def test_an_engine_that_was_disposed_of_may_begin_with_an_empty_file(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = create_engine(f"sqlite:///{file}")
    store = SqlHistory(engine)
    assert claimed(store, "a")
    engine.dispose()
    delete(file)

    assert claimed(store, "a")
    assert not any("while it was open" in one for one in alarms(caplog))
    engine.dispose()


def test_fences_go_on_above_those_of_the_lost_file(file: Path) -> None:
    with opened(f"sqlite:///{file}") as store:
        (first,) = drive(store.claim(TRIGGER, ["a"], "me"))
        made_by_another(file, file)
        (second,) = drive(store.claim(TRIGGER, ["a"], "you"))

        assert second.found is None
        assert second.fence > first.fence
        assert not drive(store.complete(TRIGGER, "a", first.fence)), "its file is gone, and it is another's"


def _all_parts(store: SqlHistory) -> None:
    """Use each part of the history that has its own tables."""
    drive(store.parking.park([PARKED]))
    drive(store.journal.append(TRIGGER, [JournalLine(verdict="new", reason="a test", uuid="a")]))
    drive(first_of(store.fingerprints, TRIGGER, "a", b"print", HOUR))
    drive(store.control.beat("token", [Report(consumer="me", trigger=TRIGGER)]))
    assert drive(store.results.get(TRIGGER, "a")) is None
    assert drive(store.parking.count(trigger=TRIGGER)) == 1
    assert len(drive(store.journal.read(TRIGGER))) == 1
    assert len(drive(store.control.overview()).beats) == 1


def test_every_part_makes_its_tables_anew(file: Path) -> None:
    with opened(f"sqlite:///{file}") as store:
        _all_parts(store)
        file.unlink()
        with pytest.raises(HistoryUnavailableError):
            drive(store.check())
        with closing(sqlite3.connect(file)) as another:
            another.execute("CREATE TABLE orders (id)")  # a foreign file, with a free inode number

        _all_parts(store)


async def test_tasks_follow_as_well(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqlHistory.from_url(f"sqlite:///{file}").for_asyncio()
    await store.claim(TRIGGER, ["a"], "me")
    await asyncio.to_thread(file.unlink)
    with pytest.raises(HistoryUnavailableError):
        await store.claim(TRIGGER, ["a"], "me")
    await asyncio.to_thread(made_by_another, file, file)

    claims = await asyncio.gather(*(store.claim(TRIGGER, ["a", f"b{n}"], f"{n}") for n in range(20)))

    assert sum(claim[0].found is None for claim in claims) == 1
    assert all(claim[1].found is None for claim in claims)
    assert len([one for one in alarms(caplog) if "was deleted while it was open" in one]) == 1
    await store.close()


def test_a_folder_that_is_away_is_waited_for(file: Path) -> None:
    file = file.parent / "mounted" / file.name
    file.parent.mkdir()
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "a")
        file.parent.rename(away := file.parent.with_name("away"))

        with pytest.raises(HistoryUnavailableError):
            claimed(store, "b")
        away.rename(file.parent)
        assert not claimed(store, "a")
        assert claimed(store, "b")


def test_an_atomic_service_writes_to_the_file_that_is_there_now(file: Path) -> None:
    @trigger("orders", name="book", history=f"sqlite:///{file}", transacted=True)
    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (uuid TEXT)"))
        connection.execute(text("INSERT INTO bookings VALUES (:uuid)"), {"uuid": message.uuid})

    message = Message(body={}, uuid="a", destination="orders")
    assert book.handle(message).status == "NEW"
    file.unlink()
    lost = book.handle(message)
    assert (lost.executed, lost.acknowledge) == (False, False)
    made_by_another(file, file)

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
    """A reader of the tutorial deletes the file to begin again, while a consumer runs."""
    consumer, producer = (SqlJms.from_url(f"sqlite:///{file}") for _ in range(2))
    receiver = drive(consumer.open_receiver("queue://orders", subscription="book", name="one"))
    drive(producer.send("queue://orders", [Message(body="a", uuid="a")]))
    assert received(receiver) == ["a"]
    file.unlink()
    with pytest.raises(ProviderUnavailableError):
        drive(producer.send("queue://orders", [Message(body="lost", uuid="lost")]))
    with closing(sqlite3.connect(file)):
        pass  # as another process begins

    with pytest.raises(ProviderUnavailableError):
        drive(receiver.receive(10))
    third = SqlJms.from_url(f"sqlite:///{file}")
    drive(third.send("queue://orders", [Message(body="b", uuid="b")]))
    drive(producer.send("queue://orders", [Message(body="c", uuid="c")]))

    assert received(receiver) == ["b", "c"]
    drive(receiver.close())
    for provider in (producer, consumer, third):
        drive(provider.close())


def left(file: Path, backup: Path) -> None:
    """Restore a backup like most people: they forget the write-ahead log of the old file."""
    file.unlink()
    shutil.copy(backup, file)


@pytest.mark.parametrize("deleted_before", [False, True])
def test_the_log_of_the_old_file_is_not_put_into_a_backup(
    file: Path, *, deleted_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite would apply the log to the backup, and the database would be damaged."""
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "before the backup")
        backup = backed_up(file)
        assert claimed(store, "after the backup")
        if deleted_before:
            file.unlink()
            with pytest.raises(HistoryUnavailableError):
                claimed(store, "a")
            file.touch()
        left(file, backup)

        for _ in range(2):
            with pytest.raises(HistoryUnavailableError):
                claimed(store, "a")
        file.with_name(f"{file.name}-wal").unlink()

        assert not claimed(store, "before the backup")
        assert claimed(store, "after the backup")
    *others, alarm, follows = alarms(caplog)
    assert len(others) == deleted_before
    assert "and its log was left" in alarm
    assert f"delete {file}-wal and {file}-shm" in alarm
    assert "that one is used now" in follows
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_an_atomic_service_commits_nothing_to_a_file_that_is_lost_meanwhile(file: Path) -> None:
    other = file.with_name("other")

    @trigger("orders", name="book", history=f"sqlite:///{file}", transacted=True)
    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bookings (uuid TEXT)"))
        connection.execute(text("INSERT INTO bookings VALUES (:uuid)"), {"uuid": message.uuid})
        if message.body:
            delete(file)
            other.rename(file)

    made_by_another(other, other)
    lost = book.handle(Message(body="lose it", uuid="a", destination="orders"))
    assert (lost.executed, lost.acknowledge) == (True, False)

    assert book.handle(Message(body="", uuid="a", destination="orders")).status == "NEW"
    book.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT uuid FROM bookings").fetchall() == [("a",)]


def test_a_sender_takes_no_number_of_the_old_file_for_another_queue_of_the_new_one(file: Path) -> None:
    sender, another = (SqlJms.from_url(f"sqlite:///{file}") for _ in range(2))
    drive(sender.send("queue://orders", [Message(body="", uuid="a")]))
    delete(file)
    with closing(sqlite3.connect(file)) as empty:
        empty.execute("CREATE TABLE other (id)")
    drive(another.send("queue://invoices", [Message(body="", uuid="b")]))
    drive(sender.send("queue://orders", [Message(body="", uuid="c")]))

    for queue, uuid in (("invoices", "b"), ("orders", "c")):
        receiver = drive(another.open_receiver(f"queue://{queue}", subscription="book", name=queue))
        assert received(receiver) == [uuid]
        drive(receiver.close())
    for provider in (sender, another):
        drive(provider.close())


def in_a_folder_that_was_left(file: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.chdir(file.parent)
    engine = create_engine(f"sqlite:///{file.name}")
    (elsewhere := file.parent / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    return engine


def connects_by_itself(file: Path, _patch: pytest.MonkeyPatch) -> Engine:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(file, check_same_thread=False)

    return create_engine("sqlite:///:nowhere", creator=connect)


def without_a_pool(file: Path, _patch: pytest.MonkeyPatch) -> Engine:
    return create_engine(f"sqlite:///{file}", poolclass=NullPool)


def connected_before(file: Path, _patch: pytest.MonkeyPatch) -> Engine:
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect():
        return engine


def of_a_machine(file: Path, _patch: pytest.MonkeyPatch) -> Engine:
    return create_engine(f"sqlite:///file://localhost{file}?uri=true")


@pytest.mark.parametrize(
    "make", [in_a_folder_that_was_left, connects_by_itself, without_a_pool, connected_before, of_a_machine]
)
def test_an_engine_of_the_users_is_followed_to_the_file_that_it_opens(
    file: Path, make: Callable[[Path, pytest.MonkeyPatch], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make(file, monkeypatch)
    store = SqlHistory(engine)
    assert claimed(store, "a")
    assert not claimed(store, "a")
    made_by_another(file, file)

    assert claimed(store, "a")
    engine.dispose()


@pytest.mark.parametrize(
    "name",
    [
        "file::memory:?cache=shared&uri=true",
        "file:it?mode=memory&cache=shared&uri=true",
        "file:/it?vfs=memdb&uri=true",
    ],
)
def test_a_database_in_memory_is_no_file_that_was_deleted(name: str) -> None:
    with opened(f"sqlite:///{name}") as store:
        assert claimed(store, "a")
        assert not claimed(store, "a")
        with pytest.raises(ConfigurationError, match="has only one client"):
            store.for_asyncio()


def test_a_link_to_another_file_is_followed(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = file.with_name("first"), file.with_name("second")
    first.touch()
    file.symlink_to(first)
    made_by_another(second, second)
    with opened(f"sqlite:///{file}") as store:
        assert claimed(store, "a")
        (link := file.with_name("link")).symlink_to(second)
        link.replace(file)

        assert claimed(store, "a")
        with opened(f"sqlite:///{second}") as another:
            assert not claimed(another, "a")
    assert len(alarms(caplog)) == 1
