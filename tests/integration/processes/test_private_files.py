"""Only their user may read files with messages, from the moment when they are created."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from history import ConfigurationError, Message, Parked, ParkedKind, open_history
from history.bridge import drive
from history.support.private_files import make_private
from tests.fixtures.threads import in_threads
from tests.unit.helpers.given_up import event
from triggers.pipeline.parking.lot import ParkingLot
from triggers.producer.queue.queue import ClientQueue, ClientQueueUnavailableError
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier
from triggers.sinks import SqlTableSink


@pytest.fixture(autouse=True)
def _generous_umask() -> Iterator[None]:
    """Set a umask that forbids nothing, so that each file gets the requested mode."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    return {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in folder.iterdir()}


def queue_in(folder: Path) -> ClientQueue:
    return ClientQueue(folder / "shop.queue", alias="shop")


def test_only_its_user_may_read_a_client_queue_and_the_files_beside_it(tmp_path: Path) -> None:
    with closing(queue_in(tmp_path)) as queue, queue.draining():
        queue.put("orders", [Message(body="secret")])

        found = modes(tmp_path)

    assert found.keys() >= {"shop.queue", "shop.queue-wal", "shop.queue-shm", "shop.queue-drain"}
    assert set(found.values()) == {"0o600"}


def test_only_its_user_may_read_the_local_parking_file_and_enter_its_folder(tmp_path: Path) -> None:
    lot = ParkingLot(None, tmp_path / "state" / "doubtless" / "parked.sqlite3")

    assert drive(lot.park([parked()]))

    found = modes(tmp_path / "state" / "doubtless")
    drive(lot.close())
    assert modes(tmp_path / "state") == {"doubtless": "0o700"}
    assert found["parked.sqlite3"] == "0o600"
    assert set(found.values()) == {"0o600"}


def parked() -> Parked:
    return Parked(
        id="1",
        trigger_name="book",
        kind=ParkedKind.IN_DOUBT,
        reason="",
        destination="orders",
        raw={"body": "x"},
    )


def test_from_a_queue_of_before_the_rights_of_all_others_are_taken_and_those_of_the_group_stay(
    tmp_path: Path,
) -> None:
    with closing(queue_in(tmp_path)) as queue:
        queue.put("orders", [Message(body="secret")])
        for file in tmp_path.iterdir():
            file.chmod(0o664)

        with closing(queue_in(tmp_path)) as again:
            assert again.size() == 1
            assert set(modes(tmp_path).values()) == {"0o660"}


def test_what_is_no_file_keeps_its_mode(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o666)

    make_private(pipe)

    assert modes(tmp_path) == {"pipe": "0o666"}


def test_making_a_file_private_lets_go_of_no_lock_on_it(tmp_path: Path) -> None:
    file = tmp_path / "locked.sqlite3"
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("CREATE TABLE t (x)")
        holder.execute("BEGIN EXCLUSIVE")

        make_private(file)

        assert is_locked(file)
        holder.execute("ROLLBACK")


def is_locked(file: Path) -> bool:
    """Whether another process finds the file locked. A connection of this process would not see the lock."""
    look = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT * FROM t')"
    ended = subprocess.run([sys.executable, "-c", look, file], capture_output=True, text=True, check=False)
    return "database is locked" in ended.stderr


def test_a_queue_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with pytest.raises(ClientQueueUnavailableError, match="No such file"):
        queue_in(tmp_path / "nowhere").size()


def test_processes_and_threads_may_make_one_at_the_same_time(tmp_path: Path) -> None:
    start = threading.Barrier(8)

    def put(_: int) -> None:
        start.wait()
        with closing(queue_in(tmp_path)) as queue:
            queue.put("orders", [Message(body="x")])

    in_threads(put, range(8))

    with closing(queue_in(tmp_path)) as queue:
        assert queue.size() == 8


# Files of SQLite that a URL names -----------------------------------------------------------------------


def remember(url: str) -> None:
    store = open_history(url)
    try:
        drive(store.claim("book", ["order-1"], "worker"))
    finally:
        drive(store.close())


async def remember_in_a_loop(url: str) -> None:
    store = open_history(url).for_asyncio()
    try:
        await store.claim("book", ["order-1"], "worker")
        assert set(modes(Path(url.removeprefix("sqlite:///")).parent).values()) == {"0o600"}
    finally:
        await store.close()


def test_only_its_user_may_read_a_history(tmp_path: Path) -> None:
    store = open_history(f"sqlite:///{tmp_path}/history.sqlite3")
    drive(store.claim("book", ["order-1"], "worker"))

    found = modes(tmp_path)
    drive(store.close())

    assert found.keys() == {"history.sqlite3", "history.sqlite3-wal", "history.sqlite3-shm"}
    assert set(found.values()) == {"0o600"}


def test_only_its_user_may_read_a_history_of_an_event_loop(tmp_path: Path) -> None:
    asyncio.run(remember_in_a_loop(f"sqlite:///{tmp_path}/history.sqlite3"))


def test_only_its_user_may_read_a_history_that_a_uri_names(tmp_path: Path) -> None:
    remember(f"sqlite:///file:{tmp_path}/history.sqlite3?mode=rwc&uri=true")

    assert set(modes(tmp_path).values()) == {"0o600"}


def test_a_uri_that_makes_no_file_makes_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        remember(f"sqlite:///file:{tmp_path}/history.sqlite3?mode=rw&uri=true")

    assert modes(tmp_path) == {}


def test_a_database_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "shop.sqlite3"
    file.touch(mode=0o644)

    remember(f"sqlite:///{file}")

    assert modes(tmp_path)["shop.sqlite3"] == "0o644"


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "history.sqlite3"
    link.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigurationError) as error:
        remember(f"sqlite:///{link}")

    assert error.value.setting == "history"
    assert not (tmp_path / "elsewhere").exists()


def test_a_link_of_somebody_elses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, file = tmp_path / "history.sqlite3", tmp_path / "elsewhere"
    file.touch()
    link.symlink_to(file)
    os.lchown(link, 4711, 4711) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 4711)

    with pytest.raises(ConfigurationError):
        remember(f"sqlite:///{link}")

    assert file.stat().st_size == 0


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    link, file = tmp_path / "history.sqlite3", tmp_path / "elsewhere"
    file.touch()
    link.symlink_to(file)

    remember(f"sqlite:///{link}")

    assert file.stat().st_size > 0


def test_only_its_user_may_read_the_events_of_a_sink(tmp_path: Path) -> None:
    sink = SqlTableSink(f"sqlite:///{tmp_path}/events.sqlite3")
    sink(event())
    sink.close()

    assert set(modes(tmp_path).values()) == {"0o600"}


# Messages that are carried in folders -------------------------------------------------------------------


def carried(folder: Path) -> dict[str, str]:
    """Put a message into an inbox, and return the modes of its files."""
    carrier = DirectoryCarrier(folder)
    carrier.put("till", b"secret")
    carrier.close()
    return modes(folder / "till")


def test_only_its_user_may_read_a_carried_message(tmp_path: Path) -> None:
    assert list(carried(tmp_path).values()) == ["0o600"]
    assert modes(tmp_path) == {"till": "0o700"}


@pytest.mark.parametrize(("folder", "file"), [(0o770, "0o660"), (0o750, "0o640"), (0o755, "0o644")])
def test_who_may_read_an_inbox_may_read_what_is_put_into_it(tmp_path: Path, folder: int, file: str) -> None:
    (tmp_path / "till").mkdir(mode=folder)

    assert list(carried(tmp_path).values()) == [file]
