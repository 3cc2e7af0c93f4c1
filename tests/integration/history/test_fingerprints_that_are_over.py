"""Fingerprints whose time to live is over leave nothing behind, whatever the history."""

from datetime import timedelta

from history.beside.fingerprints import first_of
from history.bridge import drive
from history.store import HistoryStore
from tests.fixtures.beside import kept_in
from tests.fixtures.databases import asked
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually

SOON, DAY = timedelta(seconds=0.5), timedelta(days=1)


def counted(url: str) -> int:
    """Return how many fingerprints the server keeps."""
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
