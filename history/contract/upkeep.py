"""Scanning, counting and cleaning up."""

import pytest

from history.contract.common import SHORT, TRIGGER, absent, claim_one, eventually, found, state_of
from history.entry import EntryOutcome, Settlement, State, short_digest
from history.message import Uuid
from history.store import BatchOwner, HistoryStore, ScanPart


class UpkeepContract:
    """Scanning, counting and cleaning up."""

    async def test_a_scan_meets_everything_once(self, store: HistoryStore) -> None:
        uuids = [f"u{n}" for n in range(450)]
        claims = await store.claim(TRIGGER, uuids[:400], "worker-1")
        await store.claim(TRIGGER, uuids[400:], BatchOwner("query-1/7"))
        await store.settle(
            TRIGGER,
            [
                Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
                for uuid, claim in zip(uuids[:200], claims[:200], strict=True)
            ],
        )
        await store.claim("another", ["u1000"], "worker-1")

        page = await store.scan(TRIGGER, limit=40)
        scanned = list(page.entries)
        while page.cursor is not None:
            page = await store.scan(TRIGGER, cursor=page.cursor, limit=40)
            scanned += page.entries

        assert sorted(entry.digest for entry in scanned) == sorted(map(short_digest, uuids))
        completed = {entry.digest for entry in scanned if entry.entry.outcome is EntryOutcome.OK}
        assert completed == set(map(short_digest, uuids[:200]))

    async def spoil_entry(self, store: HistoryStore, uuid: str) -> bool:  # noqa: ARG002
        """Overwrite the entry of a STARTED uuid with something else; False if that is impossible.

        A subclass overrides this if its server keeps entries as bytes; the columns of a table have types.
        """
        return False

    async def test_an_entry_that_cannot_be_read_is_in_doubt_and_hides_no_other(
        self, store: HistoryStore
    ) -> None:
        uuids = ["u0", "u1", "u2"]
        claims = await store.claim(TRIGGER, uuids, "worker-1")
        assert await store.complete(TRIGGER, "u2", claims[2].fence)
        if not await self.spoil_entry(store, "u1"):
            pytest.skip("this store has no entries that could be spoilt")

        later = await store.claim(TRIGGER, [*uuids, "u3"], "worker-2")
        of_batch = await store.claim(TRIGGER, ["u1", "u4"], BatchOwner("query/1"))
        scanned = await store.scan(TRIGGER)
        await store.purge(TRIGGER)
        stats = await store.stats(TRIGGER)
        late = [Settlement(Uuid(u), c.fence, EntryOutcome.OK) for u, c in zip(uuids, claims, strict=True)][:2]

        assert [state_of(claim.found) for claim in later] == [
            State.STARTED,
            State.STARTED,
            EntryOutcome.OK,
            None,
        ]
        spoilt = later[1].found
        assert spoilt is not None
        assert (spoilt.lease_until, "cannot be read" in (spoilt.owner or "")) == (None, True)
        assert [state_of(claim.found) for claim in of_batch] == [State.STARTED, None]
        assert len(scanned.entries) == 5
        assert (stats.started, stats.completed) == (4, 1)
        assert list(await store.settle(TRIGGER, late)) == [True, False]
        taken = await store.take_over(TRIGGER, "u1", "somebody", None, spoilt.fence)
        assert taken is not None
        assert await store.complete(TRIGGER, "u1", taken.fence)
        assert (await found(store, "u1")).outcome is EntryOutcome.OK

    async def test_parts_of_a_scan_are_together_everything_once(self, store: HistoryStore) -> None:
        uuids = [f"u{n}" for n in range(900)]
        claims = await store.claim(TRIGGER, uuids[:700], "worker-1")
        await store.claim(TRIGGER, uuids[700:], BatchOwner("query-1/7"))
        await store.settle(
            TRIGGER,
            [
                Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
                for uuid, claim in zip(uuids[:600], claims[:600], strict=True)
            ],
        )

        for of in (1, 2, 64):
            parts = [await _scanned(store, ScanPart(number, of)) for number in range(of)]

            assert sorted(key for part in parts for key in part) == sorted(map(short_digest, uuids))
            assert max(map(len, parts)) < 900 * 3 / of + 30

    async def test_an_unknown_trigger_is_empty(self, store: HistoryStore) -> None:
        page = await store.scan("nobody's")
        stats = await store.stats("nobody's")

        assert (list(page.entries), page.cursor) == ([], None)
        assert (stats.trigger, stats.started, stats.completed) == ("nobody's", 0, 0)
        assert await store.purge("nobody's") == 0
        assert "nobody's" not in await store.triggers()

    async def test_purge_removes_only_what_has_expired(self, store: HistoryStore) -> None:
        old = [f"old{n}" for n in range(5)]
        claims = await store.claim(TRIGGER, old, "worker-1", time_to_live=3 * SHORT)
        await store.complete(TRIGGER, old[0], claims[0].fence)
        kept = await store.claim(TRIGGER, ["started", "completed"], "worker-1")
        await store.complete(TRIGGER, "completed", kept[1].fence)
        await store.claim("another", ["old0"], "worker-1")

        async def all_expired() -> bool:
            return all(entry is None for entry in await store.lookup(TRIGGER, old))

        await eventually(all_expired)

        assert 0 <= await store.purge(TRIGGER) <= len(old)
        assert await store.purge(TRIGGER) == 0
        entries = await store.lookup(TRIGGER, ["started", "completed"])
        stats = await store.stats(TRIGGER)
        assert [state_of(entry) for entry in entries] == [State.STARTED, EntryOutcome.OK]
        assert (stats.started, stats.completed) == (1, 1)
        assert (await found(store, "old0", "another")).state is State.STARTED

    async def test_a_purge_is_done_in_pieces(self, store: HistoryStore) -> None:
        old = [f"old{n}" for n in range(2500)]
        await store.claim(TRIGGER, old, "worker-1", time_to_live=3 * SHORT)
        await store.claim(TRIGGER, ["kept"], "worker-1")
        await store.claim("another", old[:10], "worker-1", time_to_live=3 * SHORT)

        async def all_expired() -> bool:
            return not any(await store.lookup("another", old[:10])) and not any(
                await store.lookup(TRIGGER, old)
            )

        await eventually(all_expired)
        pieces = await _purged(store)

        assert len(pieces) > 2
        assert sum(pieces) == len(old)
        assert sum(await _purged(store)) == 0
        assert state_of(await found(store, "kept")) is State.STARTED
        assert (await store.stats(TRIGGER)).started == 1

    async def test_the_ledger_of_batches_is_purged_in_pieces(self, store: HistoryStore) -> None:
        batches = [BatchOwner(f"query-1/{n}") for n in range(1100)]
        for batch in batches:
            await store.claim(TRIGGER, [batch.token], batch, time_to_live=3 * SHORT)
        kept = BatchOwner("query-1/kept")
        await store.claim(TRIGGER, ["kept"], kept)

        await eventually(lambda: absent(store, batches[-1].token))
        pieces = await _purged(store)

        assert len(pieces) > 1
        assert sum(await _purged(store)) == 0
        assert not await store.settle_batch(TRIGGER, batches[0], EntryOutcome.OK)
        assert await store.settle_batch(TRIGGER, kept, EntryOutcome.OK)
        assert state_of(await found(store, "kept")) is EntryOutcome.OK

    async def test_what_is_forgotten_is_new_again(self, store: HistoryStore) -> None:
        claims = await store.claim(TRIGGER, ["started", "completed"], "worker-1")
        await store.complete(TRIGGER, "completed", claims[1].fence)
        await store.claim(TRIGGER, ["batched", "other"], BatchOwner("query-1/7"))

        for uuid in ("started", "completed", "batched"):
            assert await store.forget(TRIGGER, uuid)
            assert not await store.forget(TRIGGER, uuid)
            assert await absent(store, uuid)

        assert not await store.complete(TRIGGER, "started", claims[0].fence)
        assert await store.settle_batch(TRIGGER, BatchOwner("query-1/7"), EntryOutcome.OK)
        assert await absent(store, "batched")
        assert (await claim_one(store, "batched", "worker-2")).found is None
        assert state_of(await found(store, "other")) is EntryOutcome.OK

    async def test_stats_count_by_state(self, store: HistoryStore) -> None:
        claims = await store.claim(TRIGGER, [f"u{n}" for n in range(5)], "worker-1")
        await store.complete(TRIGGER, "u0", claims[0].fence)
        await store.complete(TRIGGER, "u1", claims[1].fence, EntryOutcome.FAILED)
        await store.release(TRIGGER, "u2", claims[2].fence)
        await store.claim(TRIGGER, [f"b{n}" for n in range(3)], BatchOwner("query-1/7"))
        await store.settle_batch(TRIGGER, BatchOwner("query-1/7"), EntryOutcome.OK)
        await store.claim(TRIGGER, [f"c{n}" for n in range(4)], BatchOwner("query-1/8"))

        stats = await store.stats(TRIGGER)

        assert (stats.trigger, stats.started, stats.completed) == (TRIGGER, 2 + 4, 2 + 3)

    async def test_triggers_are_named_in_order(self, store: HistoryStore) -> None:
        await store.claim("b", ["u1"], "worker-1")
        await store.claim("a", ["u1"], BatchOwner("query-1/7"))

        assert list(await store.triggers()) == ["a", "b"]

    async def test_a_server_is_checked(self, store: HistoryStore) -> None:
        warnings = await store.check()

        assert all(isinstance(warning, str) and warning for warning in warnings)


async def _purged(store: HistoryStore) -> list[int]:
    deleted, cursor = await store.purge_some(TRIGGER)
    pieces = [deleted]
    while cursor is not None:
        deleted, cursor = await store.purge_some(TRIGGER, cursor)
        pieces.append(deleted)
    return pieces


async def _scanned(store: HistoryStore, part: ScanPart) -> list[bytes]:
    page = await store.scan(TRIGGER, limit=30, part=part)
    keys = [entry.digest for entry in page.entries]
    while page.cursor is not None:
        page = await store.scan(TRIGGER, cursor=page.cursor, limit=30, part=part)
        keys += [entry.digest for entry in page.entries]
    return keys
