"""Leases and times to live."""

import asyncio
from datetime import datetime, timedelta

import pytest

from history.contract.common import LONG, PATIENCE, SHORT, TRIGGER, absent, claim_one, eventually, found
from history.entry import LONGEST, SHORTEST, EntryOutcome, outliving, short_digest
from history.errors import ConfigurationError
from history.store import BatchOwner, HistoryStore


class TimeContract:
    """Leases and times to live, by the server's clock."""

    #: How coarse the instants of a completed entry may be; a subclass may set more.
    coarseness = timedelta(seconds=1)

    async def test_time_to_live_counts_from_the_claim(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", time_to_live=LONG)
        before = await found(store, "u1")

        await store.complete(TRIGGER, "u1", claimed.fence)

        after = await found(store, "u1")
        assert abs(before.expires_at - before.started_at - LONG) <= timedelta(milliseconds=1)
        assert timedelta(0) <= after.expires_at - before.expires_at <= self.coarseness
        assert abs(after.started_at - before.started_at) <= self.coarseness

    async def test_a_started_entry_is_absent_once_its_time_to_live_is_over(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", time_to_live=SHORT)

        await eventually(lambda: absent(store, "u1"))

        assert not await store.complete(TRIGGER, "u1", claimed.fence)
        assert not await store.renew(TRIGGER, "u1", claimed.fence, LONG)
        assert await store.take_over(TRIGGER, "u1", "worker-2", None, claimed.fence) is None
        assert (await claim_one(store, "u1", "worker-2")).found is None

    async def test_a_completed_entry_is_absent_once_its_time_to_live_is_over(
        self, store: HistoryStore
    ) -> None:
        claimed = await claim_one(store, "u1", "worker-1", time_to_live=3 * SHORT)
        assert await store.complete(TRIGGER, "u1", claimed.fence)

        await eventually(lambda: absent(store, "u1"))

        assert (await claim_one(store, "u1", "worker-2")).found is None

    async def test_a_claim_of_an_expired_entry_keeps_nothing_of_it(self, store: HistoryStore) -> None:
        old = await claim_one(store, "u1", "worker-1", lease=LONG, time_to_live=SHORT)
        await eventually(lambda: absent(store, "u1"))

        new = await claim_one(store, "u1", "worker-1")

        entry = await found(store, "u1")
        assert new.fence > old.fence
        assert (entry.fence, entry.lease_until, entry.outcome) == (new.fence, None, None)
        assert entry.expires_at - entry.read_at > LONG

    async def test_a_lease_ends(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=SHORT)

        async def lease_is_over() -> bool:
            return not (await found(store, "u1")).lease_alive

        await eventually(lease_is_over)
        second = await claim_one(store, "u1", "worker-2", lease=SHORT)

        assert second.found is not None
        assert (second.found.owner, second.found.lease_alive) == ("worker-1", False)
        assert second.found.lease_until is not None
        assert await store.complete(TRIGGER, "u1", claimed.fence), (
            "a lease that is over is no fence that is stale"
        )

    async def test_a_lease_is_renewed_from_now(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=SHORT)

        async def lease_is_over() -> bool:
            return not (await found(store, "u1")).lease_alive

        await eventually(lease_is_over)
        assert await store.renew(TRIGGER, "u1", claimed.fence, LONG)

        entry = await found(store, "u1")
        assert entry.lease_alive
        assert entry.lease_until is not None
        assert abs(entry.lease_until - entry.read_at - LONG) < timedelta(seconds=PATIENCE)
        assert entry.fence == claimed.fence

    async def test_an_entry_whose_lease_is_renewed_outlives_its_time_to_live(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        lease, time_to_live = timedelta(seconds=1), timedelta(seconds=1.5)
        claimed = await claim_one(store, "u1", "worker-1", lease=lease, time_to_live=time_to_live)
        over_at = (await found(store, "u1")).expires_at

        async def has_outlived_it() -> bool:
            assert await store.renew(TRIGGER, "u1", claimed.fence, lease)
            entry = await found(store, "u1")
            assert entry.lease_until is not None
            assert entry.expires_at >= outliving(entry.started_at, entry.lease_until)
            return entry.read_at > over_at + timedelta(seconds=0.5)

        await eventually(has_outlived_it)

        assert (await claim_one(another, "u1", "worker-2")).found is not None
        assert await store.complete(TRIGGER, "u1", claimed.fence)
        entry = await found(another, "u1")
        assert (await claim_one(another, "u1", "worker-2")).found is not None
        assert entry.outcome is EntryOutcome.OK
        assert entry.expires_at - entry.read_at > lease, "what comes again now is a duplicate"

    async def test_what_was_renewed_expires_when_nobody_renews_it_any_more(self, store: HistoryStore) -> None:
        second = timedelta(seconds=1)
        started, failed = await store.claim(
            TRIGGER, ["started", "failed"], "worker-1", second, time_to_live=second
        )
        assert await store.renew(TRIGGER, "started", started.fence, second)
        assert await store.renew(TRIGGER, "failed", failed.fence, second)
        assert await store.complete(TRIGGER, "failed", failed.fence, EntryOutcome.FAILED)

        await eventually(lambda: absent(store, "started"))
        await eventually(lambda: absent(store, "failed"))

        assert not await store.complete(TRIGGER, "started", started.fence)

    async def test_a_renewal_leaves_a_life_alone_that_is_long_enough(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=SHORT, time_to_live=24 * LONG)
        before = await found(store, "u1")

        for _ in range(2):  # the answer may be lost, and the call is sent again
            assert await store.renew(TRIGGER, "u1", claimed.fence, LONG)

        after = await found(store, "u1")
        assert after.started_at == before.started_at
        assert after.expires_at == before.expires_at

    async def test_a_lease_that_outlives_its_batch_is_not_granted(self, store: HistoryStore) -> None:
        batch = BatchOwner("query-1/7")
        claimed = await claim_one(store, "u1", batch, lease=SHORT, time_to_live=LONG)
        before = await found(store, "u1")

        assert not await store.renew(TRIGGER, "u1", claimed.fence, 2 * LONG)
        assert (await found(store, "u1")).lease_until == before.lease_until
        assert await store.renew(TRIGGER, "u1", claimed.fence, LONG / 2)
        assert (await found(store, "u1")).expires_at == before.expires_at

    async def test_a_duration_that_no_store_can_hold_is_refused(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1", lease=LONGEST, time_to_live=LONGEST)
        entry = await found(store, "u1")
        assert entry.expires_at - entry.started_at == LONGEST
        assert await store.renew(TRIGGER, "u1", claimed.fence, LONGEST)
        assert await store.complete(TRIGGER, "u1", claimed.fence)
        assert not await absent(store, "u1")

        for wrong in (timedelta.max, LONGEST + SHORTEST, SHORTEST / 2, timedelta(0), -LONG):
            with pytest.raises(ConfigurationError, match="time_to_live"):
                await store.claim(TRIGGER, ["u2"], "worker-1", time_to_live=wrong)
            with pytest.raises(ConfigurationError, match="lease"):
                await store.claim(TRIGGER, ["u2"], BatchOwner("query-1/7"), wrong)
            with pytest.raises(ConfigurationError, match="time_to_live"):
                await store.take_over(TRIGGER, "u1", "worker-2", None, claimed.fence, time_to_live=wrong)
            with pytest.raises(ConfigurationError, match="lease"):
                await store.renew(TRIGGER, "u1", claimed.fence, wrong)
        assert await absent(store, "u2")

    async def test_nothing_is_forgotten_early_whenever_it_began(self, store: HistoryStore) -> None:
        # A store may group entries by the time of their start: so some start in any part of such a time.
        lives_for, begins = timedelta(seconds=2), 16
        ends: dict[str, datetime] = {}
        number = 0
        for number in range(begins):
            ends |= await _remembered(store, number, lives_for)
            await asyncio.sleep(lives_for.total_seconds() / 2 / begins)
        await claim_one(store, "clock", "worker-1")

        while ends:
            number += 1  # new entries start all the time, and may delete old ones
            await _remembered(store, number, lives_for)
            scanned = set(await _scanned(store))
            entries = await store.lookup(TRIGGER, list(ends))
            probe = await store.claim(TRIGGER, list(ends), BatchOwner("probe"))
            await store.purge(TRIGGER)
            now = (await found(store, "clock")).read_at
            for (uuid, end), entry, claim in zip(list(ends.items()), entries, probe, strict=True):
                kept = entry is not None and claim.found is not None and short_digest(uuid) in scanned
                assert kept or end <= now, f"{uuid} is forgotten {end - now} early"
                if not kept:
                    del ends[uuid]
            await asyncio.sleep(0.05)

    async def test_what_has_expired_is_claimed_from_then_on_and_never_earlier(
        self, store: HistoryStore
    ) -> None:
        # A store may keep entries longer than they live, together with later ones: so some start at any time.
        lives_for, begins = timedelta(seconds=2), 8
        ends: dict[str, datetime] = {}
        for number in range(begins):
            remembered = [*await _remembered(store, number, lives_for), f"started {number}"]
            await claim_one(store, remembered[-1], "worker-1", time_to_live=lives_for)
            ends |= {uuid: (await found(store, uuid)).expires_at for uuid in remembered}
            await asyncio.sleep(lives_for.total_seconds() / 2 / begins)
        await claim_one(store, "clock", "worker-1")

        while ends:
            claims = await store.claim(TRIGGER, list(ends), "worker-2")
            now = (await found(store, "clock")).read_at
            for (uuid, end), claim in zip(list(ends.items()), claims, strict=True):
                if claim.found is not None:
                    assert claim.found.read_at < end, f"{uuid} is found after its end"
                    continue
                assert end <= now, f"{uuid} is claimed {end - now} early"
                del ends[uuid]
            await asyncio.sleep(0.02)


async def _scanned(store: HistoryStore) -> list[bytes]:
    page = await store.scan(TRIGGER)
    scanned = [scanned_entry.digest for scanned_entry in page.entries]
    while page.cursor is not None:
        page = await store.scan(TRIGGER, cursor=page.cursor)
        scanned += [scanned_entry.digest for scanned_entry in page.entries]
    return scanned


async def _remembered(store: HistoryStore, number: int, lives_for: timedelta) -> dict[str, datetime]:
    """Complete one, fail one, and complete one of a batch; return when each may be forgotten."""
    good, bad, batched = (f"{ending} {number}" for ending in ("completed", "failed", "of a batch"))
    batch = BatchOwner(f"query-1/{number}")
    claims = await store.claim(TRIGGER, [good, bad], "worker-1", time_to_live=lives_for)
    await store.claim(TRIGGER, [batched], batch, time_to_live=lives_for)
    ends = {uuid: (await found(store, uuid)).expires_at for uuid in (good, bad, batched)}
    assert await store.complete(TRIGGER, good, claims[0].fence)
    assert await store.complete(TRIGGER, bad, claims[1].fence, EntryOutcome.FAILED)
    assert await store.settle_batch(TRIGGER, batch, EntryOutcome.OK)
    return ends
