"""Two tasks open one batch at the same time: both claim for the same row of the ledger."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from history import open_history
from history.bridge import drive
from history.entry import EntryOutcome
from history.sql.database.engine import fetch
from history.sql.statements.entries import LEDGER
from history.store import BatchOwner

OWNER = BatchOwner("query-1/7")


def test_a_batch_that_was_opened_meanwhile_is_not_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_history(f"sqlite:///{tmp_path}/history.db")
    drive(store.claim("book", ["first"], OWNER))
    looks = list[object]()

    async def too_early(connection: Any, statement: Any, **values: Any) -> Sequence[Any]:
        if statement is LEDGER and not looks:
            looks.append(statement)
            return []
        return await fetch(connection, statement, **values)

    monkeypatch.setattr("history.sql.entries.claims.fetch", too_early)
    drive(store.claim("book", ["second"], OWNER))
    completed = drive(store.settle_batches("book", [OWNER], EntryOutcome.OK))
    entries = drive(store.lookup("book", ["first", "second"]))
    drive(store.close())

    assert looks
    assert completed
    assert [entry and entry.outcome for entry in entries] == [EntryOutcome.OK, EntryOutcome.OK]
