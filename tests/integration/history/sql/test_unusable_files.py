"""A SQLite history is locked by another process, or damaged. Waits for the lock do not add up."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy import Connection

from history import HistoryUnavailableError, SqlHistory
from history.bridge import drive
from triggers import Message, trigger

LOCKED = "locked by another process"


#: A single wait is a second long, so this many full waits take longer than the tests allow.
CALLS, ALLOWED = 20, 12.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/history.sqlite3?timeout=1"


@pytest.fixture
def locker(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another connection to the file, in autocommit."""
    with closing(
        sqlite3.connect(tmp_path / "history.sqlite3", isolation_level=None, check_same_thread=False)
    ) as connection:
        yield connection


async def test_only_the_first_write_waits_for_the_lock(
    form: str, url: str, locker: sqlite3.Connection
) -> None:
    history = SqlHistory.from_url(url)
    history = history if form == "blocking" else history.for_asyncio()
    await history.claim("orders", ["u0"], "worker")
    locker.execute("BEGIN EXCLUSIVE")
    began = monotonic()

    for number in range(CALLS):
        with pytest.raises(HistoryUnavailableError, match=LOCKED):
            await history.claim("orders", [f"u{number}"], "worker")

    assert 0.9 < monotonic() - began < ALLOWED
    assert await history.lookup("orders", ["u1"]) == [None], "readers do not wait"
    await history.close()


def test_writes_wait_as_usual_after_one_succeeded(tmp_path: Path, locker: sqlite3.Connection) -> None:
    history = SqlHistory.from_url(f"sqlite:///{tmp_path}/history.sqlite3?timeout=2")
    drive(history.claim("orders", ["u0"], "worker"))
    locker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(HistoryUnavailableError, match=LOCKED):
        drive(history.claim("orders", ["u1"], "worker"))
    locker.execute("ROLLBACK")
    drive(history.claim("orders", ["u1"], "worker"))
    locker.execute("BEGIN EXCLUSIVE")
    unlocking = threading.Timer(0.5, locker.execute, ["ROLLBACK"])
    unlocking.start()

    (claim,) = drive(history.claim("orders", ["u2"], "worker"))

    unlocking.join()
    assert claim.found is None
    drive(history.close())


def test_a_run_whose_history_is_locked_meanwhile_ends_after_one_wait(
    tmp_path: Path, locker: sqlite3.Connection
) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite3?timeout=3"

    @trigger("queue", name="orders", history=url)
    def lock(_message: Message) -> None:
        locker.execute("BEGIN EXCLUSIVE")

    began = monotonic()
    outcome = lock.handle(Message(body={}, uuid="u1"))

    assert monotonic() - began < ALLOWED, "one wait of 3 s, not one for each try"
    assert outcome.executed
    assert LOCKED in outcome.reason


def damage(file: Path) -> None:
    for part in file.parent.glob(f"{file.name}*"):
        part.write_bytes(b"x" * part.stat().st_size)


@pytest.mark.parametrize("asyncio", [False, True], ids=["blocking", "asyncio"])
async def test_a_file_that_is_damaged_later_is_an_unavailable_history(
    tmp_path: Path, *, asyncio: bool
) -> None:
    file = tmp_path / "history.sqlite3"

    @trigger("queue", name="orders", history=f"sqlite:///{file}")
    def run(_message: Message) -> None:
        pass

    async def handle(uuid: str) -> object:
        message = Message(body={}, uuid=uuid)
        return (await run.ahandle(message) if asyncio else run.handle(message)).error

    assert await handle("u1") is None
    damage(file)

    assert isinstance(await handle("u2"), HistoryUnavailableError)
    assert isinstance(await handle("u1"), HistoryUnavailableError)
    await run.aclose()


def test_a_transacted_trigger_recovers_as_well(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite3"

    @trigger("queue", name="orders", history=f"sqlite:///{file}", transacted=True)
    def run(_message: Message, _connection: Connection) -> None:
        pass

    assert run.handle(Message(body={}, uuid="u1")).executed
    damage(file)
    outcome = run.handle(Message(body={}, uuid="u2"))

    assert isinstance(outcome.error, HistoryUnavailableError)
    assert (outcome.row, outcome.acknowledge, outcome.suspend) == (13, False, True)
