"""The journal and the security log; a store without them passes."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from history.beside.journal import JournalLine
from history.beside.kept import KeepsBeside
from history.beside.security import (
    LONGEST_NAME,
    SecurityEvent,
    SecurityOutcome,
    SecurityRecord,
)
from history.contract.common import TRIGGER
from history.errors import ConfigurationError
from history.support.paging import pages
from tests.fixtures.beside import kept_in


class JournalContract:
    """Every client reads the written lines by uuid, in their order."""

    async def test_lines_are_read_by_another_client_in_their_order(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        first = JournalLine(uuid="u1\0\ud800", verdict="duplicate", reason="it ran\0\ud800", row=8, fence=7)
        second = JournalLine(uuid="u1\0\ud800", verdict="in doubt", reason="who knows?", delivery_count=2)
        others = [JournalLine(uuid=uuid, verdict="rejected", reason="no") for uuid in ("u2", None)]
        await kept_in(store).journal.append(TRIGGER, [first, *others])
        await kept_in(store).journal.append(TRIGGER, [second])

        read = await kept_in(another).journal.read(TRIGGER, "u1\0\ud800")

        assert [(line.id, line.uuid, line.verdict, line.reason, line.row, line.fence) for line in read] == [
            (line.id, line.uuid, line.verdict, line.reason, line.row, line.fence) for line in (first, second)
        ]
        assert all(line.at is not None for line in read)
        assert await kept_in(another).journal.read(f"{TRIGGER}-2", "u1\0\ud800") == []

    async def test_a_line_that_is_sent_twice_is_read_once(self, store: KeepsBeside) -> None:
        line = JournalLine(uuid="u1", verdict="duplicate", reason="it ran")
        for _ in range(2):
            await kept_in(store).journal.append(TRIGGER, [line])

        assert [read.id for read in await kept_in(store).journal.read(TRIGGER, "u1")] == [line.id]

    async def test_of_many_lines_the_last_are_read(self, store: KeepsBeside) -> None:
        lines = [JournalLine(uuid="u1", verdict="duplicate", reason=str(number)) for number in range(12)]
        for line in lines:
            await kept_in(store).journal.append(TRIGGER, [line])

        read = await kept_in(store).journal.read(TRIGGER, "u1", limit=3)

        assert [line.reason for line in read] == ["9", "10", "11"]

    async def test_the_last_lines_of_a_trigger_are_read_whatever_they_are_about(
        self, store: KeepsBeside
    ) -> None:
        for uuid in ("u1", None, "u2"):
            line = JournalLine(uuid=uuid, verdict="rejected", reason=f"of {uuid}")
            await kept_in(store).journal.append(TRIGGER, [line])
        await kept_in(store).journal.append(f"{TRIGGER}-2", [JournalLine(verdict="new", reason="x")])

        read = await kept_in(store).journal.read(TRIGGER, limit=2)

        assert [line.reason for line in read] == ["of None", "of u2"]


def _sign_in(user: str, outcome: SecurityOutcome = SecurityOutcome.ALLOWED) -> SecurityRecord:
    return SecurityRecord(event=SecurityEvent.SIGN_IN, outcome=outcome, user=user, source="10.0.0.7")


async def _all_records(store: KeepsBeside, *, limit: int = 100) -> Sequence[SecurityRecord]:
    records: list[SecurityRecord] = []
    async for page in pages(lambda cursor: kept_in(store).security_log.read(cursor=cursor, limit=limit)):
        assert len(page.records) <= limit
        records += page.records
    return records


class SecurityLogContract:
    """Every client reads the written lines, the newest first, and only their age deletes them."""

    async def test_a_record_is_read_by_another_client_as_it_was_written(
        self, store: KeepsBeside, another: KeepsBeside
    ) -> None:
        record = SecurityRecord(
            event=SecurityEvent.DISCARD,
            outcome=SecurityOutcome.ALLOWED,
            user="ann→\0",
            role="operator",
            source="10.0.0.7",
            trigger=TRIGGER,
            message="u1\ud800",
            messages=1,
        )

        await kept_in(store).security_log.append([record])

        assert await _all_records(another) == [record]

    async def test_nothing_but_age_deletes_records(self, store: KeepsBeside) -> None:
        await kept_in(store).security_log.append([_sign_in("ann")])
        await store.purge("")
        await store.purge(TRIGGER)
        await kept_in(store).security_log.delete_older(timedelta(hours=1))
        kept = await _all_records(store)
        await asyncio.sleep(0.1)  # this check is about their age
        await kept_in(store).security_log.append([_sign_in("bob")])

        await kept_in(store).security_log.delete_older(timedelta(seconds=0.05))

        assert [record.user for record in kept] == ["ann"]
        assert "ann" not in {record.user for record in await _all_records(store)}

    async def test_the_security_log_is_no_trigger_and_no_journal(self, store: KeepsBeside) -> None:
        await kept_in(store).security_log.append([_sign_in("x" * 1_000)])

        assert await store.triggers() == []
        assert await kept_in(store).journal.read(TRIGGER) == []
        (record,) = await _all_records(store)
        assert record.user == "x" * LONGEST_NAME

    async def test_a_cursor_that_is_none_is_refused(self, store: KeepsBeside) -> None:
        await kept_in(store).security_log.append([_sign_in("ann")])

        for cursor in ("", "x", "1-\ud800", "-1", "9" * 40):
            with pytest.raises(ConfigurationError, match="cursor"):
                await kept_in(store).security_log.read(cursor=cursor)
