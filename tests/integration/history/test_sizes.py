"""`doubtless size` predicts the size of a filled history."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from secrets import token_bytes
from urllib.parse import urlsplit

import psycopg
import pytest

from history import EntryOutcome, Settlement, Uuid, open_history
from history.beside.results import KeptResult
from history.bridge import drive
from history.store import HistoryStore
from tests.fixtures.beside import kept_in
from tests.fixtures.servers.redis import connected
from triggers.operations.sizes import STORES

COST = {store.name: store for store in STORES}

#: The smallest number with a clear result, because tables and Redis hashes grow in steps.
ENTRIES, RESULTS, LENGTH = 20_000, 2000, 500


def fill(store: HistoryStore) -> None:
    uuids = [f"5f0c6b1e-9f5d-4a70-{number:012}" for number in range(ENTRIES)]
    claims = drive(store.claim("orders", uuids, "shop-7:4711:0123456789abcdef"))
    settled = [
        Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
        for uuid, claim in zip(uuids, claims, strict=True)
    ]
    assert all(drive(store.settle("orders", settled)))


def keep(store: HistoryStore) -> None:
    results = kept_in(store).results
    for number in range(RESULTS):
        kept = KeptResult(1_795_430_682_261_405, token_bytes(LENGTH))  # cannot be compressed
        drive(results.put("orders", f"5f0c6b1e-9f5d-4a70-{number:012}", kept, timedelta(days=7)))


def held_by(url: str) -> int:
    """Return the bytes that the history uses."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        file = parts.path.removeprefix("/")
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Path(file).stat().st_size
    if parts.scheme == "redis":
        with connected(url) as client:
            return int(client.info("memory")["used_memory_dataset"])
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema::regnamespace"
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.prove
def test_a_filled_history_is_as_large_as_was_said(history_url: str) -> None:
    cost = COST[urlsplit(history_url).scheme]
    store = open_history(history_url)
    drive(store.stats("orders"))
    before = held_by(history_url)

    fill(store)
    entry = (held_by(history_url) - before) / ENTRIES
    before = held_by(history_url)
    keep(store)
    result = (held_by(history_url) - before) / RESULTS - LENGTH
    drive(store.close())

    assert cost.entry == pytest.approx(entry, rel=0.3)
    assert cost.result == pytest.approx(result, rel=0.35)
