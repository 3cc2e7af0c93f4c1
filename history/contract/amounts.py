"""More than one piece of everything: a store that works in pieces must still cover the whole."""

from datetime import timedelta

from history.contract.common import SHORT, TRIGGER, eventually
from history.contract.records import LISTED, records_in
from history.store import BatchOwner, HistoryStore
from history.store.records import Put, Record, all_records

#: More small records than any store takes in one call.
MANY = 1300


class AmountContract:
    """No step reads or deletes an unlimited amount; and still nothing is left out."""

    async def test_many_records_are_read_counted_and_forgotten(self, store: HistoryStore) -> None:
        records = records_in(store)
        kept = [Record(b"%04d" % number, b"x") for number in range(MANY)]
        await records.apply(TRIGGER, [Put(LISTED, record) for record in kept], each=True)

        assert await all_records(records, TRIGGER, LISTED) == kept[::-1]
        assert (await records.view(TRIGGER, [LISTED])).records == [kept[::-1]]
        assert await records.get(TRIGGER, LISTED, [record.key for record in kept]) == kept
        assert await records.count(TRIGGER, LISTED) == MANY

        forgotten = 0
        while some := await records.forget(TRIGGER, LISTED, timedelta(days=-1)):
            forgotten += some
        assert forgotten == MANY
        assert await records.count(TRIGGER, LISTED) == 0

    async def test_a_scan_and_the_counts_pass_by_what_has_expired(self, store: HistoryStore) -> None:
        old = [f"old{n}" for n in range(3000)]
        await store.claim(TRIGGER, old, "worker-1", time_to_live=3 * SHORT)
        kept = [f"kept{n}" for n in range(40)]
        claims = await store.claim(TRIGGER, kept, "worker-1")
        for uuid, claim in zip(kept, claims, strict=True):
            await store.complete(TRIGGER, uuid, claim.fence)
        await store.claim(TRIGGER, [f"held{n}" for n in range(20)], BatchOwner("query-1/7"))

        async def all_expired() -> bool:
            return not any(await store.lookup(TRIGGER, old))

        await eventually(all_expired)
        page = await store.scan(TRIGGER, limit=50)
        pages = [page]
        while page.cursor is not None:
            page = await store.scan(TRIGGER, cursor=page.cursor, limit=50)
            pages.append(page)

        assert sum(len(page.entries) for page in pages) == 60
        assert max(len(page.entries) for page in pages) <= 60
        stats = await store.stats(TRIGGER)
        assert stats.completed == 40
        assert stats.started >= 20
