"""Steps of records that settle entries, require records or count; a store without records passes."""

import pytest

from history.contract.common import TRIGGER, found, state_of
from history.contract.records import LINES, a_line, each_kind, records_in
from history.entry import EntryOutcome, Fence, Settlement, State, digest
from history.message import Uuid
from history.store import HistoryStore
from history.store.records import (
    Change,
    Delete,
    Expects,
    Fail,
    Get,
    Kind,
    Now,
    Put,
    Record,
    Settle,
    clock_of,
    is_done,
)

_KEY = b"\x00\xff key"


def _completion(uuid: str, fence: int) -> Settle:
    return Settle(Settlement(Uuid(uuid), Fence(fence), EntryOutcome.OK, "worker"))


class StepContract:
    """What else a step of records can do."""

    @each_kind
    async def test_entries_are_settled_in_the_step(self, store: HistoryStore, of: Kind) -> None:
        records, gone, new = records_in(store), Record(b"gone", b"old"), Record(_KEY, b"new")
        claims = await store.claim(TRIGGER, ["u0", "u1"], "worker")
        await records.apply(TRIGGER, [Put(of, gone)])
        changes: list[Change] = [
            Put(of, new),
            _completion("u0", claims[0].fence),
            Get(of, b"gone", required=True),
            Delete(of, b"gone"),
            _completion("u1", claims[1].fence),
            a_line("once"),
        ]

        answers = await records.apply(TRIGGER, changes)

        assert is_done(changes, answers)
        assert [answers[0], answers[2]] == [new, gone]
        assert [(await found(store, uuid)).outcome for uuid in ("u0", "u1")] == [EntryOutcome.OK] * 2
        assert await records.get(TRIGGER, of, [_KEY, b"gone"]) == [new, None]

    @each_kind
    async def test_a_refused_settlement_refuses_the_step(self, store: HistoryStore, of: Kind) -> None:
        records, old = records_in(store), Record(b"gone", b"old")
        claims = await store.claim(TRIGGER, ["u0", "u1"], "worker")
        await records.apply(TRIGGER, [Put(of, old)])
        changes: list[Change] = [
            _completion("u0", claims[0].fence),
            Put(of, Record(_KEY, b"new")),
            Delete(of, b"gone"),
            _completion("u1", claims[1].fence + 1),
            a_line("never"),
        ]

        answers = await records.apply(TRIGGER, changes)

        assert answers[0] is not None
        assert answers[3] is None
        entries = await store.lookup(TRIGGER, ["u0", "u1"])
        assert [state_of(entry) for entry in entries] == [State.STARTED] * 2
        assert await records.get(TRIGGER, of, [_KEY, b"gone"]) == [None, old]
        assert (await records.log(TRIGGER, LINES)).lines == []

    @each_kind
    async def test_a_missing_record_that_is_required_refuses_the_step(
        self, store: HistoryStore, of: Kind
    ) -> None:
        records, old = records_in(store), Record(b"there", b"old")
        claim, *_ = await store.claim(TRIGGER, ["u0"], "worker")
        await records.apply(TRIGGER, [Put(of, old)])
        changes: list[Change] = [
            Get(of, b"there", required=True),
            Get(of, b"missing", required=True),
            Get(of, b"missing too"),
            Delete(of, b"there"),
            _completion("u0", claim.fence),
        ]

        answers = await records.apply(TRIGGER, changes)

        assert answers[:2] == [old, None]
        assert answers[4] is not None
        assert await records.get(TRIGGER, of, [b"there"]) == [old]
        assert (await found(store, "u0")).state is State.STARTED

    @each_kind
    async def test_a_counted_record_tells_how_often_it_was_stored(
        self, store: HistoryStore, another: HistoryStore, of: Kind
    ) -> None:
        records = records_in(store)
        for value in (b"1", b"2", b"2"):
            changes = [Put(of, Record(key, value), Expects.COUNTED) for key in (_KEY, b"other")]
            assert is_done(changes, await records.apply(TRIGGER, changes))
        await records.apply(TRIGGER, [Delete(of, b"other")])
        await records.apply(TRIGGER, [Put(of, Record(b"other", b"3"), Expects.COUNTED)])

        stored = await records_in(another).get(TRIGGER, of, [_KEY, b"other"])

        assert stored == [Record(_KEY, b"2", 3), Record(b"other", b"3")]

    @pytest.mark.parametrize("lasting", [False, True])
    async def test_records_of_a_kind_are_counted(self, store: HistoryStore, *, lasting: bool) -> None:
        records, of = records_in(store), Kind("counted here", listed=True, lasting=lasting)
        for trigger, many in ((TRIGGER, 7), ("another", 2)):
            await records.apply(trigger, [Put(of, Record(b"%d" % number, b"")) for number in range(many)])
        await records.apply(TRIGGER, [Put(Kind("others", listed=True), Record(_KEY, b""))])
        await records.apply(TRIGGER, [Put(of, Record(b"0", b"again")), Delete(of, b"1", b"3")])

        assert await records.count(TRIGGER, of) == 4
        assert await records.count("another", of) == 2
        assert await records.count("nobody's", of) == 0
        assert [record.key for record in await records.page(TRIGGER, of)] == [b"6", b"5", b"4", b"0"]
        assert await records.page(TRIGGER, of, prefix=b"5") == [Record(b"5", b"")]

    @each_kind
    async def test_another_version_than_the_required_one_refuses_the_step(
        self, store: HistoryStore, of: Kind
    ) -> None:
        records, stored = records_in(store), Record(b"there", b"7 old", 7)
        await records.apply(TRIGGER, [Put(of, stored), Put(of, Record(b"gone", b""))])
        for version in (6, 70, 1):
            changes: list[Change] = [
                Get(of, b"there", required=True, version=version),
                Delete(of, b"gone"),
            ]
            answers = await records.apply(TRIGGER, changes)
            assert (answers[0], is_done(changes, answers)) == (stored, False)
        assert await records.get(TRIGGER, of, [b"gone"]) == [Record(b"gone", b"")]

        changes = [Get(of, b"there", required=True, version=7), Delete(of, b"gone")]

        assert is_done(changes, await records.apply(TRIGGER, changes))
        assert await records.get(TRIGGER, of, [b"gone"]) == [None]

    async def test_an_entry_is_settled_once_if_the_step_asks_for_it(self, store: HistoryStore) -> None:
        records, new = records_in(store), Put(Kind("alone"), Record(_KEY, b"new"))
        claims = await store.claim(TRIGGER, ["u0", "u1", "u2"], "worker")
        first, second, other = (
            Settle(_completion(uuid, claim.fence).settlement, once=True)
            for uuid, claim in zip(("u0", "u1", "u2"), claims, strict=True)
        )

        assert is_done([first, new], await records.apply(TRIGGER, [first, new]))
        await records.apply(TRIGGER, [Delete(new.kind, _KEY)])
        answers = await records.apply(TRIGGER, [second, first, new, other])

        assert answers[0] is not None
        assert answers[1] is None
        assert answers[3] is not None
        assert await records.get(TRIGGER, new.kind, [_KEY]) == [None]
        entries = await store.lookup(TRIGGER, ["u0", "u1", "u2"])
        assert [state_of(entry) for entry in entries] == [EntryOutcome.OK, State.STARTED, State.STARTED]
        assert await records.apply(TRIGGER, [_completion("u0", claims[0].fence)]) != [None]

    async def test_completed_entries_are_failed_in_the_step(self, store: HistoryStore) -> None:
        records, new = records_in(store), Record(_KEY, b"new")
        uuids = ["ok", "other fence", "started", "failed"]
        fences = [claim.fence for claim in await store.claim(TRIGGER, uuids, "worker")]
        for uuid, fence in zip(uuids[:2], fences, strict=False):
            await store.complete(TRIGGER, uuid, fence)
        await store.complete(TRIGGER, "failed", fences[3], EntryOutcome.FAILED)
        asked = [fences[0], fences[1] + 1, *fences[2:]]
        changes: list[Change] = [
            *(Fail(digest(uuid), Fence(fence)) for uuid, fence in zip(uuids, asked, strict=True)),
            Fail(digest("never"), Fence(1)),
            Put(Kind("alone"), new),
        ]

        assert is_done(changes, await records.apply(TRIGGER, changes))

        entries = await store.lookup(TRIGGER, [*uuids, "never"])
        assert [state_of(entry) for entry in entries] == [
            EntryOutcome.FAILED,
            EntryOutcome.OK,
            State.STARTED,
            EntryOutcome.FAILED,
            None,
        ]
        assert entries[0] is not None
        assert entries[0].is_of(fences[0])
        assert await store.take_over(TRIGGER, "ok", "another", None, fences[0], failed=True) is not None

    async def test_a_refused_step_fails_no_entry(self, store: HistoryStore) -> None:
        claim, *_ = await store.claim(TRIGGER, ["u0"], "worker")
        await store.complete(TRIGGER, "u0", claim.fence)
        required = Get(Kind("alone"), b"missing", required=True)

        await records_in(store).apply(TRIGGER, [Fail(digest("u0"), claim.fence), required])

        assert (await found(store, "u0")).outcome is EntryOutcome.OK

    async def test_a_step_reads_the_clock(self, store: HistoryStore) -> None:
        records, listed = records_in(store), Kind("listed", listed=True)
        before = await clock_of(records)

        put, clock = await records.apply(TRIGGER, [Put(listed, Record(_KEY, b"")), Now()])
        _, again = await records.apply(TRIGGER, [Get(listed, _KEY), Now()], each=True)

        assert put is not None
        assert clock is not None
        assert again is not None
        assert before <= put.at <= clock.at <= again.at <= await clock_of(records)
