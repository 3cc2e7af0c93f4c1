"""Journals do not grow for ever, and expired fingerprints leave nothing behind."""

from datetime import timedelta
from pathlib import Path

from history.beside.fingerprints import first_of
from history.beside.journal import JOURNAL_LENGTH, Journal, JournalLine
from history.bridge import drive
from history.opening import open_history
from history.redis.connection.client import PAGE
from history.sql.database.engine import Pooled, open_engine
from history.sql.records import SqlRecords
from history.store import HistoryStore
from history.store.records import Log
from tests.fixtures.beside import kept_in
from tests.fixtures.databases import asked
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually


def lines(count: int, uuid: str = "u-1") -> list[JournalLine]:
    return [JournalLine(uuid=uuid, verdict="duplicate", reason=str(number)) for number in range(count)]


def short_journal(pooled: Pooled) -> Journal:
    """Return a journal of 20 lines, as another process would make it."""
    return Journal(SqlRecords(pooled), Log("journal", most=20))


def test_in_sql_the_first_call_of_a_process_deletes_old_lines(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/journal.db", asyncio=False)
    pooled = Pooled(engine, disposable=True)
    journal = short_journal(pooled)
    for line in lines(30):
        drive(journal.append("book", [line]))
    drive(journal.append("other", lines(3)))
    before = len(drive(journal.read("book", "u-1", limit=1000)))

    for line in lines(30, "u-2"):
        drive(short_journal(pooled).append("book", [line]))

    assert before == 30
    assert len(drive(journal.read("book", "u-1", limit=1000))) < before
    # Redis keeps the lines of one millisecond together.
    assert len(drive(journal.read("book", "u-2", limit=1000))) >= 20
    assert len(drive(journal.read("other", "u-1"))) == 3
    drive(pooled.close())


def test_in_sql_old_lines_of_each_trigger_are_deleted(tmp_path: Path) -> None:
    pooled = Pooled(open_engine(f"sqlite:///{tmp_path}/journal.db", asyncio=False), disposable=True)
    before = short_journal(pooled)
    for number in range(30):
        for trigger in ("book", "ship"):
            drive(before.append(trigger, lines(1, f"{number}")))
    later = short_journal(pooled)
    for trigger in ("book", "ship"):
        drive(later.append(trigger, lines(1, "last")))

    kept = [len(drive(later.read(trigger, limit=1000))) for trigger in ("book", "ship")]

    assert max(kept) < 30, kept
    drive(pooled.close())


def test_in_redis_the_stream_is_cut_and_is_read_over_many_pages(redis_url: str) -> None:
    store = open_history(redis_url)
    journal = kept_in(store).journal
    drive(journal.append("book", lines(1, "gone")))
    for _ in range(JOURNAL_LENGTH // PAGE):
        drive(journal.append("book", lines(PAGE, "others")))
    drive(journal.append("book", [*lines(2), *lines(PAGE, "others")]))

    mine = drive(journal.read("book", "u-1"))
    gone = drive(journal.read("book", "gone"))
    drive(store.close())

    with connected(redis_url) as client:
        assert JOURNAL_LENGTH <= client.xlen("doubtless:{book}:journal") < JOURNAL_LENGTH + PAGE
    assert [line.reason for line in mine] == ["0", "1"]
    assert gone == []


SOON, DAY = timedelta(seconds=0.5), timedelta(days=1)


def counted(url: str) -> int:
    """Return the number of fingerprints on the server."""
    if url.startswith("redis"):
        client = connected(url)
        with client:
            return len(client.keys("*:fingerprint:*"))
    ((count,),) = asked(url, "SELECT COUNT(*) FROM doubtless_records")
    return int(count)


def test_they_go_as_others_come(history_url: str, store: HistoryStore) -> None:
    kept = kept_in(store).fingerprints
    for number in range(30):
        drive(first_of(kept, "book", f"old-{number}", b"12345678", SOON))

    eventually(lambda: drive(first_of(kept, "book", "old-29", b"87654321", DAY)) == b"87654321")
    for number in range(4):
        drive(first_of(kept, "book", f"new-{number}", b"12345678", DAY))

    eventually(lambda: counted(history_url) == 5)
