"""Several clients in parallel."""

import asyncio
from collections.abc import Sequence
from random import Random

from history.bridge import drive
from history.contract.common import (
    SHORT,
    TRIGGER,
    claim_one,
    eventually,
    found,
    state_of,
    together,
    tokens_of_clones,
)
from history.entry import EntryOutcome, Settlement, State
from history.message import Uuid
from history.store import BatchOwner, HistoryStore, Owner


class RaceContract:
    """Two clients of one server in parallel."""

    async def test_two_clients_that_race_get_each_uuid_once(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool
    ) -> None:
        uuids = [f"u{n}" for n in range(1000)]

        async def claim_all(client: HistoryStore, owner: str, order: Sequence[str], size: int) -> set[str]:
            pieces = [order[n : n + size] for n in range(0, len(order), size)]
            answers = [claim for piece in pieces for claim in await client.claim(TRIGGER, piece, owner)]
            return {uuid for uuid, claim in zip(order, answers, strict=True) if claim.found is None}

        mine, theirs, fine, coarse = await together(
            [
                claim_all(store, "mine", uuids, 50),
                claim_all(another, "theirs", uuids[::-1], 50),
                claim_all(another, "fine", uuids[::2] + uuids[1::2], 7),
                claim_all(store, "coarse", uuids[500:] + uuids[:500], 1000),
            ],
            blocking=blocking,
        )

        assert len(mine) + len(theirs) + len(fine) + len(coarse) == 1000
        assert mine | theirs | fine | coarse == set(uuids)
        owners = {uuid: owner for owner, owned in (("mine", mine), ("theirs", theirs)) for uuid in owned}
        for uuid, entry in zip(owners, await store.lookup(TRIGGER, list(owners)), strict=True):
            assert entry is not None
            assert entry.owner == owners[uuid]

    async def test_singles_and_batches_that_race_get_each_uuid_once(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool
    ) -> None:
        uuids = [f"u{n}" for n in range(600)]

        async def claim_all(client: HistoryStore, owner: Owner, order: Sequence[str]) -> list[str]:
            pieces = [order[n : n + 60] for n in range(0, len(order), 60)]
            answers = [claim for piece in pieces for claim in await client.claim(TRIGGER, piece, owner)]
            return [uuid for uuid, claim in zip(order, answers, strict=True) if claim.found is None]

        shares = await together(
            [
                claim_all(store, "single", uuids),
                claim_all(another, BatchOwner("query-1/7"), uuids[::-1]),
                claim_all(another, "other", uuids[300:] + uuids[:300]),
                claim_all(store, BatchOwner("query-1/8"), uuids[::2] + uuids[1::2]),
            ],
            blocking=blocking,
        )

        assert sorted(uuid for share in shares for uuid in share) == sorted(uuids)

    async def test_of_two_clones_of_a_process_one_gets_a_uuid(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        mine, theirs = await asyncio.to_thread(tokens_of_clones)

        first = await claim_one(store, "u1", mine)
        second = await claim_one(another, "u1", theirs)

        assert first.found is None
        assert second.found is not None
        assert second.found.owner == mine
        assert await store.take_over(TRIGGER, "u1", theirs, None, first.fence) is not None
        assert await another.take_over(TRIGGER, "u1", mine, None, first.fence) is None

    async def test_what_has_expired_or_was_released_is_claimed_once(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool
    ) -> None:
        uuids = [f"u{n}" for n in range(300)]
        batch = BatchOwner("query-1/7")
        await store.claim(TRIGGER, uuids[:100], "old", time_to_live=SHORT)
        await store.claim(TRIGGER, uuids[100:200], batch)
        await store.settle_batch(TRIGGER, batch, None)
        released = await store.claim(TRIGGER, uuids[200:], "old")
        await store.settle(
            TRIGGER,
            [
                Settlement(Uuid(uuid), claim.fence, None)
                for uuid, claim in zip(uuids[200:], released, strict=True)
            ],
        )

        async def gone() -> bool:
            return await store.lookup(TRIGGER, uuids) == [None] * 300

        await eventually(gone)
        owners: Sequence[Owner] = ("worker-1", batch, "worker-2", "worker-3")
        answers = await together(
            [
                (store, another)[n % 2].claim(TRIGGER, uuids if n % 3 else uuids[::-1], owner)
                for n, owner in enumerate(owners)
            ],
            blocking=blocking,
        )

        answers = [answer if n % 3 else answer[::-1] for n, answer in enumerate(answers)]
        winners = [[claim.found for claim in claims].count(None) for claims in zip(*answers, strict=True)]
        assert winners == [1] * 300

    async def test_a_uuid_is_held_by_one_at_a_time(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool
    ) -> None:
        uuids = [f"u{n}" for n in range(30)]
        owned: set[str] = set()
        held_twice: list[str] = []

        async def hold_and_release(client: HistoryStore, number: int) -> int:
            chance, times = Random(number), 0  # noqa: S311  (repeatable, not secret)
            owner: Owner = BatchOwner(f"batch-{number}") if number % 2 else f"worker-{number}"
            for _ in range(25):
                order = chance.sample(uuids, 12)
                claims = dict(zip(order, await client.claim(TRIGGER, order, owner), strict=True))
                mine = {uuid: claim.fence for uuid, claim in claims.items() if claim.found is None}
                held_twice.extend(owned & mine.keys())
                owned.update(mine)
                times += len(mine)
                await client.lookup(TRIGGER, order)
                owned.difference_update(mine)
                if isinstance(owner, BatchOwner) and chance.random() < 0.7:
                    await client.settle_batch(TRIGGER, owner, None)
                else:
                    await client.settle(TRIGGER, [Settlement(Uuid(u), f, None) for u, f in mine.items()])
            return times

        times = await together(
            [hold_and_release((store, another)[n // 2 % 2], n) for n in range(6)], blocking=blocking
        )

        assert held_twice == []
        assert sum(times) > len(uuids), "they did pass them on"
        assert {state_of(entry) for entry in await store.lookup(TRIGGER, uuids)} == {None}

    async def test_partitions_of_one_batch_share_it(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool
    ) -> None:
        batch = BatchOwner("query-1/7")
        uuids = [f"u{n}" for n in range(800)]

        parts = await together(
            [
                store.claim(TRIGGER, uuids[:400], batch),
                another.claim(TRIGGER, uuids[400:], batch),
                another.claim(TRIGGER, uuids[300:500][::-1], batch),
            ],
            blocking=blocking,
        )

        assert all(claim.found is None for part in parts for claim in part)
        assert len({claim.fence for part in parts for claim in part}) == 1
        assert await store.settle_batch(TRIGGER, batch, EntryOutcome.OK)
        assert {state_of(entry) for entry in await store.lookup(TRIGGER, uuids)} == {EntryOutcome.OK}

    async def test_one_of_many_takes_over(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool
    ) -> None:
        first = await claim_one(store, "u1", "worker-0")

        answers = await together(
            [
                (store, another)[n % 2].take_over(TRIGGER, "u1", f"worker-{n + 1}", None, first.fence)
                for n in range(8)
            ],
            blocking=blocking,
        )

        (winner,) = [n for n, answer in enumerate(answers) if answer is not None]
        assert (await found(store, "u1")).owner == f"worker-{winner + 1}"

    async def test_one_of_many_takes_a_failed_entry_over(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool
    ) -> None:
        uuids = [f"u{n}" for n in range(20)]
        for uuid in uuids:
            claimed = await claim_one(store, uuid, "worker-0")
            await store.complete(TRIGGER, uuid, claimed.fence, EntryOutcome.FAILED)

        for uuid in uuids:
            fence = (await found(store, uuid)).fence
            answers = await together(
                [
                    (store, another)[n % 2].take_over(TRIGGER, uuid, f"worker-{n}", None, fence, failed=True)
                    for n in range(4)
                ],
                blocking=blocking,
            )
            assert sum(answer is not None for answer in answers) == 1

    async def test_a_blocking_store_never_suspends(self, store: HistoryStore, *, blocking: bool) -> None:
        if not blocking:
            return

        def use() -> list[State | EntryOutcome | None]:
            (claimed,) = drive(store.claim(TRIGGER, ["u1"], "worker-1"))
            drive(store.complete(TRIGGER, "u1", claimed.fence))
            return [state_of(entry) for entry in drive(store.lookup(TRIGGER, ["u1"]))]

        assert await asyncio.to_thread(use) == [EntryOutcome.OK]
