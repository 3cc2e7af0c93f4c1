"""The journal; a store that keeps none passes."""

import pytest

from history.contract.common import TRIGGER
from history.store import HistoryStore
from history.store.journal import Journal, JournalLine, journal_of


def _journal(store: HistoryStore) -> Journal:
    journal = journal_of(store)
    if journal is None:
        pytest.skip("it keeps no journal")
    return journal


class JournalContract:
    """What is written there every client reads, by the uuid, in its order."""

    async def test_lines_are_read_by_another_client_in_their_order(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        first = JournalLine(uuid="u1\0\ud800", verdict="duplicate", reason="it ran\0\ud800", row=8, fence=7)
        second = JournalLine(uuid="u1\0\ud800", verdict="in doubt", reason="who knows?", delivery_count=2)
        others = [JournalLine(uuid=uuid, verdict="rejected", reason="no") for uuid in ("u2", None)]
        await _journal(store).append(TRIGGER, [first, *others])
        await _journal(store).append(TRIGGER, [second])

        read = await _journal(another).read(TRIGGER, "u1\0\ud800")

        assert [(line.id, line.uuid, line.verdict, line.reason, line.row, line.fence) for line in read] == [
            (line.id, line.uuid, line.verdict, line.reason, line.row, line.fence) for line in (first, second)
        ]
        assert all(line.at is not None for line in read)
        assert await _journal(another).read(f"{TRIGGER}-2", "u1\0\ud800") == []

    async def test_a_line_that_is_sent_twice_is_read_once(self, store: HistoryStore) -> None:
        line = JournalLine(uuid="u1", verdict="duplicate", reason="it ran")
        for _ in range(2):
            await _journal(store).append(TRIGGER, [line])

        assert [read.id for read in await _journal(store).read(TRIGGER, "u1")] == [line.id]

    async def test_of_many_lines_the_last_are_read(self, store: HistoryStore) -> None:
        lines = [JournalLine(uuid="u1", verdict="duplicate", reason=str(number)) for number in range(12)]
        for line in lines:
            await _journal(store).append(TRIGGER, [line])

        read = await _journal(store).read(TRIGGER, "u1", limit=3)

        assert [line.reason for line in read] == ["9", "10", "11"]

    async def test_the_last_lines_of_a_trigger_are_read_whatever_they_are_about(
        self, store: HistoryStore
    ) -> None:
        for uuid in ("u1", None, "u2"):
            line = JournalLine(uuid=uuid, verdict="rejected", reason=f"of {uuid}")
            await _journal(store).append(TRIGGER, [line])
        await _journal(store).append(f"{TRIGGER}-2", [JournalLine(verdict="duplicate", reason="it ran")])

        read = await _journal(store).read(TRIGGER, limit=2)

        assert [line.reason for line in read] == ["of None", "of u2"]

    async def test_nothing_is_read_where_nothing_was_written(self, store: HistoryStore) -> None:
        assert await _journal(store).read(TRIGGER, "u1") == []
        assert await _journal(store).read(TRIGGER) == []
