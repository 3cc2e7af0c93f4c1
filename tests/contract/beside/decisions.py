"""Decisions about parked messages: carried out and recorded in one step."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from history.beside.kept import KeepsBeside
from history.contract.common import LONG, ODD_NAMES, TRIGGER, claim_one, found, state_of
from history.entry import Claim, EntryOutcome, Settlement, State
from history.message import Uuid
from history.store import BatchOwner
from history.store.decisions import Decided, DecisionKind, DecisionRecord, Ended, OperatorDecision
from history.support.paging import pages
from tests.contract.beside.parking import labels_once, parked


def by_somebody(kind: DecisionKind = DecisionKind.DONE, reason: str = "looked it up") -> OperatorDecision:
    return OperatorDecision(kind=kind, by="ops", reason=reason)


def done(number: int, claim: Claim, owner: str | None = None) -> Decided:
    """Return a parked message with a completed entry."""
    uuid = f"u{number}"
    return Decided(parked(number).id, uuid, Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK, owner))


async def all_decisions(
    store: KeepsBeside, trigger: str = TRIGGER, *, limit: int = 100
) -> Sequence[DecisionRecord]:
    """Read all records, the newest first."""
    records: list[DecisionRecord] = []
    async for page in pages(lambda cursor: store.parking.decisions(trigger, cursor=cursor, limit=limit)):
        assert len(page.records) <= limit
        records += page.records
    return records


class DecisionContract:
    """Decisions about parked messages."""

    async def test_a_trigger_with_nothing_but_decisions_is_still_named(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(0)])
        assert await store.parking.decide(TRIGGER, by_somebody(), [Decided(parked(0).id, "u0")]) == [True]

        assert TRIGGER in await store.triggers()

    async def test_done_completes_the_entries_and_takes_the_messages_out(self, store: KeepsBeside) -> None:
        claims = await store.claim(TRIGGER, [f"u{n}" for n in range(3)], "dead")
        await store.parking.park([parked(n) for n in range(3)])

        chosen = [done(n, claims[n], "dead") for n in range(2)]
        answers = await store.parking.decide(TRIGGER, by_somebody(), chosen)

        assert list(answers) == [True, True]
        assert [state_of(entry) for entry in await store.lookup(TRIGGER, ["u0", "u1", "u2"])] == [
            EntryOutcome.OK,
            EntryOutcome.OK,
            State.STARTED,
        ]
        assert [label.uuid for label in await labels_once(store)] == ["u2"]
        assert [message.uuid for message in await store.parking.list()] == ["u2"]
        stats = await store.stats(TRIGGER)
        assert (stats.started, stats.completed) == (1, 2)
        assert (await claim_one(store, "u0", "next")).found is not None

    async def test_who_decided_what_when_and_why_is_kept(self, store: KeepsBeside) -> None:
        before = datetime.now(UTC) - timedelta(minutes=5)
        claim = await claim_one(store, "u1", "dead")
        await store.parking.park([parked(n) for n in range(1, 4)])
        discarded = [Decided(parked(2).id, None)]
        run = [Decided(parked(3).id, "u3")]

        await store.parking.decide(TRIGGER, by_somebody(reason="→ it's booked"), [done(1, claim)])
        await store.parking.decide(TRIGGER, by_somebody(DecisionKind.DISCARD), discarded)
        await store.parking.decide(TRIGGER, by_somebody(DecisionKind.RUN), run)

        last, second, first = await all_decisions(store)
        assert (first.kind, first.by, first.reason) == (DecisionKind.DONE, "ops", "→ it's booked")
        assert list(first.messages) == [(parked(1).id, "u1")]
        assert list(second.messages) == [(parked(2).id, None)]
        assert (last.kind, last.trigger_name) == (DecisionKind.RUN, TRIGGER)
        assert before < first.at <= second.at <= last.at < datetime.now(UTC) + timedelta(minutes=5)
        assert [label.uuid for label in await labels_once(store)] == ["u3"], "a run decision removes nothing"

    async def test_an_entry_that_somebody_runs_again_meanwhile_is_left_alone(
        self, store: KeepsBeside
    ) -> None:
        claims = await store.claim(TRIGGER, ["u0", "u1"], "dead")
        await store.parking.park([parked(0), parked(1)])
        taken = await store.take_over(TRIGGER, "u0", "again", LONG, claims[0].fence)
        assert taken is not None

        chosen = [done(0, claims[0], "dead"), done(1, claims[1], "dead")]
        answers = await store.parking.decide(TRIGGER, by_somebody(), chosen)

        assert list(answers) == [False, True]
        entry = await found(store, "u0")
        assert (entry.state, entry.fence, entry.owner) == (State.STARTED, taken.fence, "again")
        assert [label.uuid for label in await labels_once(store)] == ["u0"]
        (record,) = await all_decisions(store)
        assert list(record.messages) == [(parked(1).id, "u1")]

    async def test_another_owner_of_the_same_fence_is_left_alone(self, store: KeepsBeside) -> None:
        claim = await claim_one(store, "u1", "worker")
        await store.parking.park([parked(1)])

        answers = await store.parking.decide(TRIGGER, by_somebody(), [done(1, claim, "somebody else")])

        assert list(answers) == [False]
        assert (await found(store, "u1")).state is State.STARTED
        assert await all_decisions(store) == []

    async def test_what_is_not_parked_any_more_is_not_settled(self, store: KeepsBeside) -> None:
        claim = await claim_one(store, "u1", "dead")

        answers = await store.parking.decide(TRIGGER, by_somebody(), [done(1, claim, "dead")])

        assert list(answers) == [False]
        assert (await found(store, "u1")).state is State.STARTED
        assert await all_decisions(store) == []

    async def test_a_decision_that_is_sent_twice_is_carried_out_once(self, store: KeepsBeside) -> None:
        claim = await claim_one(store, "u1", "dead")
        await store.parking.park([parked(1)])
        decision, chosen = by_somebody(), [done(1, claim), Decided("gone", None)]

        answers = [list(await store.parking.decide(TRIGGER, decision, chosen)) for _ in range(2)]

        assert answers == [[True, False]] * 2
        assert len(await all_decisions(store)) == 1

    async def test_two_messages_of_one_uuid_are_decided_together(self, store: KeepsBeside) -> None:
        claim = await claim_one(store, "u1", "dead")
        await store.parking.park([parked(1), parked(2, uuid="u1")])
        second = done(1, claim)._replace(id=parked(2).id)

        answers = await store.parking.decide(TRIGGER, by_somebody(), [done(1, claim), second])

        assert list(answers) == [True, True]
        assert await store.parking.count() == 0

    async def test_an_entry_that_has_completed_meanwhile_is_no_obstacle(self, store: KeepsBeside) -> None:
        claim = await claim_one(store, "u1", "slow")
        await store.parking.park([parked(1)])
        assert await store.complete(TRIGGER, "u1", claim.fence)

        answers = await store.parking.decide(TRIGGER, by_somebody(), [done(1, claim)])

        assert list(answers) == [True]
        assert (await found(store, "u1")).outcome is EntryOutcome.OK

    async def test_entries_of_a_batch_are_settled_one_by_one(self, store: KeepsBeside) -> None:
        claims = await store.claim(TRIGGER, ["u0", "u1"], BatchOwner("query/7"))
        await store.parking.park([parked(0)])

        answers = await store.parking.decide(TRIGGER, by_somebody(), [done(0, claims[0], "query/7")])

        assert list(answers) == [True]
        assert (await found(store, "u0")).outcome is EntryOutcome.OK
        assert (await found(store, "u1")).state is State.STARTED

    async def test_records_are_read_in_pages_the_newest_first(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(n) for n in range(7)])
        for n in range(7):
            decision = by_somebody(DecisionKind.DISCARD, f"reason {n}")
            await store.parking.decide(TRIGGER, decision, [Decided(parked(n).id, f"u{n}")])

        reasons = [record.reason for record in await all_decisions(store, limit=3)]

        assert reasons == [f"reason {n}" for n in reversed(range(7))]
        assert await all_decisions(store, "another") == []

    @pytest.mark.parametrize("name", ODD_NAMES)
    async def test_decisions_about_odd_triggers(self, store: KeepsBeside, name: str) -> None:
        await store.parking.park([parked(1, trigger_name=name, uuid="x" * 5000)])

        decided = [Decided(parked(1).id, "x" * 5000)]
        answers = await store.parking.decide(name, by_somebody(DecisionKind.DISCARD, name), decided)

        assert list(answers) == [True]
        (record,) = await all_decisions(store, name)
        assert (record.trigger_name, record.reason) == (name, name)
        assert record.messages[0].uuid is not None
        assert len(record.messages[0].uuid) <= 200

    async def test_what_came_of_a_decision_is_recorded_and_changes_nothing(self, store: KeepsBeside) -> None:
        await store.parking.park([parked(1), parked(2)])
        run = by_somebody(DecisionKind.RUN)
        await store.parking.decide(TRIGGER, run, [Decided(parked(1).id, "u1")])
        await store.parking.remove(parked(1))
        ended = (Ended("it ran, and completed", True, (parked(1).id,)),)  # noqa: FBT003
        outcome = run.model_copy(update={"token": f"{run.token}/1", "outcome_of": run.token, "ended": ended})

        for _ in range(2):
            await store.parking.decide(TRIGGER, outcome, [Decided(parked(1).id, "u1")])

        last, first = await all_decisions(store)
        assert (first.outcome_of, first.ended) == (None, ())
        assert (last.outcome_of, last.ended, last.messages[0].uuid) == (run.token, ended, "u1")
        assert await store.parking.count() == 1
