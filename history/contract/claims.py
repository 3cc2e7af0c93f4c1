"""The answers to claims."""

from datetime import timedelta

from history.contract.common import (
    LONG,
    ODD_NAMES,
    ODD_UUIDS,
    PATIENCE,
    TRIGGER,
    absent,
    claim_one,
    found,
    state_of,
)
from history.entry import EntryOutcome, Settlement, State
from history.message import Uuid
from history.store import CLAIM_BATCH, BatchOwner, HistoryStore


class ClaimContract:
    """The answers to claims."""

    async def test_an_absent_uuid_is_claimed_and_then_started(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")

        entry = await found(store, "u1")
        assert claimed.found is None
        assert (entry.state, entry.owner, entry.outcome) == (State.STARTED, "worker-1", None)
        assert entry.fence == claimed.fence >= 1
        assert (entry.lease_until, entry.lease_alive, entry.batch) == (None, False, False)

    async def test_claiming_twice_with_one_token_is_idempotent(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1")

        assert await claim_one(store, "u1", "worker-1") == first

    async def test_a_claim_whose_answer_was_lost_is_known_by_its_token_and_taken_over(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        lost = await claim_one(store, "u1", "attempt-1", lease=LONG)
        again = await claim_one(another, "u1", "attempt-2", lease=LONG)
        assert again.found is not None
        assert again.found.owner == "attempt-1"

        taken = await another.take_over(
            TRIGGER, "u1", "attempt-2", LONG, again.found.fence, expected_owner="attempt-1"
        )
        late = await claim_one(store, "u1", "attempt-1", lease=LONG)

        assert taken is not None
        assert taken.fence > lost.fence
        assert late.found is not None
        assert late.found.owner == "attempt-2"

    async def test_a_claim_whose_answer_was_lost_is_released_by_its_token(self, store: HistoryStore) -> None:
        await claim_one(store, "u1", "attempt-1", lease=LONG)
        entry = await found(store, "u1")

        by_another = await store.settle(TRIGGER, [Settlement(Uuid("u1"), entry.fence, None, "attempt-2")])
        by_itself = await store.settle(TRIGGER, [Settlement(Uuid("u1"), entry.fence, None, "attempt-1")])

        assert [*by_another, *by_itself] == [False, True]
        assert await absent(store, "u1")

    async def test_another_owner_finds_the_started_entry(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1", lease=LONG)

        second = await claim_one(store, "u1", "worker-2", lease=LONG)

        assert second.found is not None
        assert (second.found.state, second.found.owner) == (State.STARTED, "worker-1")
        assert second.fence == second.found.fence == first.fence
        assert second.found.lease_alive
        assert timedelta(0) <= second.found.age < timedelta(seconds=PATIENCE)
        assert second.found.started_at.utcoffset() == timedelta(0)

    async def test_the_second_place_of_a_uuid_finds_the_entry_of_the_first(self, store: HistoryStore) -> None:
        claims = await store.claim(TRIGGER, ["u1", "u2", "u1", "u1"], "worker-1")

        assert [claim.found is None for claim in claims] == [True, True, False, False]
        for repeat in claims[2:]:
            assert repeat.found is not None
            assert (repeat.found.state, repeat.found.owner) == (State.STARTED, "worker-1")
            assert repeat.fence == repeat.found.fence == claims[0].fence

    async def test_the_second_place_stays_the_second_when_the_claim_is_sent_twice(
        self, store: HistoryStore
    ) -> None:
        first = await store.claim(TRIGGER, ["u1", "u1"], "worker-1")

        again = await store.claim(TRIGGER, ["u1", "u1"], "worker-1")

        assert again[0] == first[0]
        assert again[1].found is not None

    async def test_places_far_apart_in_one_long_call_are_decided_in_order(self, store: HistoryStore) -> None:
        uuids = [f"u{n}" for n in range(CLAIM_BATCH + 10)] + ["u0", "u209"]

        claims = await store.claim(TRIGGER, uuids, "worker-1")

        assert [n for n, claim in enumerate(claims) if claim.found is not None] == [
            CLAIM_BATCH + 10,
            CLAIM_BATCH + 11,
        ]

    async def test_completed_ok_and_failed_are_told_apart(self, store: HistoryStore) -> None:
        for uuid, outcome in (("good", EntryOutcome.OK), ("bad", EntryOutcome.FAILED)):
            claimed = await claim_one(store, uuid, "worker-1")
            assert await store.complete(TRIGGER, uuid, claimed.fence, outcome)

            entry = await found(store, uuid)
            again = await claim_one(store, uuid, "worker-2")

            assert (entry.state, entry.outcome) == (State.COMPLETED, outcome)
            assert entry.fence == claimed.fence
            assert not entry.lease_alive
            assert again.found is not None
            assert (again.found.state, again.found.outcome) == (State.COMPLETED, outcome)
            assert again.fence == claimed.fence

    async def test_an_owner_finds_what_it_completed_itself(self, store: HistoryStore) -> None:
        claimed = await claim_one(store, "u1", "worker-1")
        await store.complete(TRIGGER, "u1", claimed.fence)

        again = await claim_one(store, "u1", "worker-1")

        assert state_of(again.found) is EntryOutcome.OK

    async def test_answers_stand_in_the_order_of_the_uuids(self, store: HistoryStore) -> None:
        uuids = [f"u{n * 7919 % 1009}" for n in range(2 * CLAIM_BATCH + 50)]
        taken = set(uuids[::3])
        await store.claim(TRIGGER, sorted(taken), "worker-1")

        claims = await store.claim(TRIGGER, uuids, "worker-2")
        entries = await store.lookup(TRIGGER, uuids)

        assert [claim.found is not None for claim in claims] == [uuid in taken for uuid in uuids]
        assert [entry and entry.owner for entry in entries] == [
            "worker-1" if uuid in taken else "worker-2" for uuid in uuids
        ]
        assert [entry and entry.fence for entry in entries] == [claim.fence for claim in claims]

    async def test_an_empty_call_answers_nothing(self, store: HistoryStore) -> None:
        assert list(await store.claim(TRIGGER, [], "worker-1")) == []
        assert list(await store.claim(TRIGGER, [], BatchOwner("query/1"))) == []
        assert list(await store.lookup(TRIGGER, [])) == []
        assert list(await store.settle(TRIGGER, [])) == []

    async def test_triggers_are_independent(self, store: HistoryStore) -> None:
        mine = (await store.claim("a", ["u1"], "worker-1"))[0]
        theirs = (await store.claim("b", ["u1"], "worker-2"))[0]

        assert await store.complete("a", "u1", mine.fence)

        assert theirs.found is None
        assert (await found(store, "u1", "a")).state is State.COMPLETED
        assert (await found(store, "u1", "b")).state is State.STARTED
        assert not await store.forget("c", "u1")

    async def test_a_uuid_may_be_of_any_length_and_hold_any_character(self, store: HistoryStore) -> None:
        claims = await store.claim(TRIGGER, ODD_UUIDS, "worker-1")
        done = await store.settle(
            TRIGGER,
            [
                Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
                for uuid, claim in zip(ODD_UUIDS, claims, strict=True)
            ],
        )

        assert all(claim.found is None for claim in claims)
        assert all(done)
        assert {state_of(entry) for entry in await store.lookup(TRIGGER, ODD_UUIDS)} == {EntryOutcome.OK}

    async def test_a_trigger_may_have_any_name(self, store: HistoryStore) -> None:
        for name in ODD_NAMES:
            (claimed,) = await store.claim(name, ["u1"], "worker-1")
            assert claimed.found is None
            assert await store.complete(name, "u1", claimed.fence)
            assert (await store.claim(name, ["u2"], BatchOwner("query/1")))[0].found is None
            assert await store.settle_batch(name, BatchOwner("query/1"), EntryOutcome.OK)

            assert [state_of(entry) for entry in await store.lookup(name, ["u1", "u2"])] == [
                EntryOutcome.OK
            ] * 2
            assert len((await store.scan(name)).entries) == 2

        assert set(ODD_NAMES) <= set(await store.triggers())


class AdoptionContract:
    """Entries that another owner has started become a batch's own."""

    #: The batch that adopts, and an earlier run of it.
    batch, earlier = BatchOwner("query-1/7/b"), BatchOwner("query-1/7/a")

    async def test_adopted_entries_complete_with_the_batch(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        uuids = [f"u{n}" for n in range(1500)]
        claims = await store.claim(TRIGGER, uuids, self.earlier)
        single = await claim_one(store, "single", "worker-1")
        wanted = [(uuid, claim.fence) for uuid, claim in zip(uuids, claims, strict=True)]

        adopted = await another.adopt(TRIGGER, [*wanted, ("single", single.fence)], self.batch)

        assert set(adopted) == {True}
        mine = await another.claim(TRIGGER, [*uuids, "single"], self.batch)
        assert {claim.found for claim in mine} == {None}
        assert await store.settle_batch(TRIGGER, self.earlier, EntryOutcome.FAILED)
        assert (await found(store, "u7")).state is State.STARTED
        assert await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        entries = await store.lookup(TRIGGER, [*uuids, "single"])
        assert {state_of(entry) for entry in entries} == {EntryOutcome.OK}

    async def test_adopting_twice_succeeds_twice(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", self.earlier)

        assert await store.adopt(TRIGGER, [("u1", first.fence)], self.batch) == [True]
        assert await store.adopt(TRIGGER, [("u1", first.fence)], self.batch) == [True]
        assert (await found(store, "u1")).owner == self.batch.token

    async def test_what_is_stale_completed_or_absent_is_not_adopted(self, store: HistoryStore) -> None:
        done = await claim_one(store, "done", "worker-1")
        await store.complete(TRIGGER, "done", done.fence)
        standing = await claim_one(store, "held", "worker-1")

        wanted = [("done", done.fence), ("held", standing.fence - 1), ("absent", 1)]
        assert await store.adopt(TRIGGER, wanted, self.batch) == [False, False, False]

        assert state_of(await found(store, "done")) is EntryOutcome.OK
        assert (await found(store, "held")).owner == "worker-1"
        assert await store.lookup(TRIGGER, ["absent"]) == [None]

    async def test_who_was_adopted_from_can_settle_it_no_more(self, store: HistoryStore) -> None:
        first = await claim_one(store, "u1", "worker-1")
        await store.adopt(TRIGGER, [("u1", first.fence)], self.batch)

        assert not await store.complete(TRIGGER, "u1", first.fence)
        assert (await found(store, "u1")).state is State.STARTED

    async def test_a_completed_batch_adopts_under_a_new_number(self, store: HistoryStore) -> None:
        await claim_one(store, "u1", self.batch)
        await store.settle_batch(TRIGGER, self.batch, EntryOutcome.OK)
        other = await claim_one(store, "u2", "worker-1")

        assert await store.adopt(TRIGGER, [("u2", other.fence)], self.batch) == [True]

        assert (await found(store, "u2")).state is State.STARTED
