"""Messages with an earlier, unfinished run: leases, In Doubt and the resolver."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from history import Claim, EntryOutcome, Evidence, MemoryHistory, ParkedKind, State
from history.bridge import SuspendedError, drive
from resolvers import Resolution
from tests.unit.helpers.in_memory import (
    NAME,
    Clock,
    Effects,
    entry_of,
    made,
    message,
    parked_of,
    resolving,
    started_by_another,
    state_of,
    store_of,
    take_over,
    told,
)
from triggers import ConfigurationError, Delivery, Message, Status


class TestInDoubt:
    def test_it_is_parked_with_what_is_known_of_the_earlier_run(self) -> None:
        book = made(Effects())
        started_by_another(book)

        outcome = book.handle(message(body=b"whole", delivery_count=2))

        assert (outcome.status, outcome.executed, outcome.acknowledge) == (Status.IN_DOUBT, False, True)
        assert outcome.event is None
        (parked,) = parked_of(book)
        entry = entry_of(book)
        assert parked.kind is ParkedKind.IN_DOUBT
        assert parked.message == message(body=b"whole", delivery_count=2)
        assert parked.reason == outcome.reason
        assert parked.evidence == Evidence(
            delivery_count=2, owner="somebody else", started_at=entry.started_at, fence=entry.fence
        )
        assert entry.owner == "somebody else"

    def test_parking_is_logged_without_the_body_and_is_no_error(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        book = made(Effects())
        started_by_another(book)

        with caplog.at_level(logging.WARNING, "triggers.pipeline.pipeline"):
            outcome = book.handle(message(body=b"secret"))

        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage().startswith(f"u-1 {outcome.reason}. Next: ")
        assert outcome.reason == "IN DOUBT: an earlier run did not finish; parked (row 10)"
        assert (vars(record)["trigger"], vars(record)["uuid"], vars(record)["status"]) == (
            NAME,
            "u-1",
            "IN_DOUBT",
        )
        assert "secret" not in caplog.text

    def test_in_doubt_execute_runs_it_under_a_fence_of_its_own(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        seen: list[Delivery] = []
        book = made(told(seen), in_doubt="execute")
        started_by_another(book)
        earlier = entry_of(book)

        outcome = book.handle(message(delivery_count=2))

        assert (outcome.status, outcome.executed, outcome.parked) == (Status.IN_DOUBT, True, False)
        assert seen[0].fence is not None
        assert seen[0].fence > earlier.fence
        assert [record.funcName for record in caplog.records] == ["_take_over"]
        assert f"from {earlier.owner}" in caplog.text
        assert state_of(book) is EntryOutcome.OK

    def test_in_doubt_acknowledge_drops_it_loudly(self, caplog: pytest.LogCaptureFixture) -> None:
        effects = Effects()
        book = made(effects, in_doubt="acknowledge")
        started_by_another(book)

        with caplog.at_level(logging.ERROR, "triggers.pipeline.pipeline"):
            outcome = book.handle(message(body=b"secret", delivery_count=2))

        assert (outcome.status, outcome.acknowledge, outcome.parked) == (Status.IN_DOUBT, True, False)
        assert effects.runs == []
        assert parked_of(book) == []
        (record,) = caplog.records
        assert "dropped" in record.message
        assert (vars(record)["trigger"], vars(record)["uuid"]) == (NAME, "u-1")
        assert "secret" not in caplog.text

    def test_of_one_that_is_rejected_the_history_is_not_asked(self) -> None:
        store = Noting()
        book = made(Effects(), history=store, max_delivery_count=3)

        outcomes = book.handle_batch([message("u-1", delivery_count=4), message("u-2", delivery_count=3)])

        assert [outcome.row for outcome in outcomes] == [1, 7]
        assert store.claimed == ["u-2"]


class Noting(MemoryHistory):
    def __init__(self) -> None:
        super().__init__()
        self.claimed: list[str] = []

    async def claim(self, trigger: str, uuids: Sequence[str], *args: Any, **options: Any) -> Sequence[Claim]:
        self.claimed += uuids
        return await super().claim(trigger, uuids, *args, **options)


class TestLease:
    def test_the_wait_is_never_longer_than_ten_minutes_nor_a_busy_loop(self) -> None:
        clock = Clock()
        book = made(Effects(), history=MemoryHistory(clock=clock), lease=timedelta(hours=1))
        started_by_another(book, lease=timedelta(hours=1))

        long = book.handle(message())
        clock.now += timedelta(hours=1) - timedelta(milliseconds=1)
        short = book.handle(message())

        assert (long.recover_after, short.recover_after) == (600.0, 0.1)

    def test_a_copy_of_a_crashed_run_is_looked_at_when_the_lease_is_over(self) -> None:
        clock = Clock()
        book = made(Effects(), history=MemoryHistory(clock=clock))
        started_by_another(book, lease=timedelta(seconds=30))
        clock.now += timedelta(seconds=28)

        early = book.handle(message(delivery_count=2))
        clock.now += timedelta(seconds=early.recover_after)
        then = book.handle(message(delivery_count=3))

        assert early.recover_after == 2.0
        assert (then.row, then.status) == (10, Status.IN_DOUBT)

    @pytest.mark.parametrize(
        ("limit", "hours", "counted"), [(100, 12, True), (20, 2, True), (5, 0.25, True), (5, 12, False)]
    )
    def test_a_copy_that_waits_for_a_long_run_is_not_delivered_too_often(
        self, limit: int, hours: float, *, counted: bool
    ) -> None:
        clock, lease = Clock(), timedelta(seconds=30)
        begun = clock.now
        book = made(Effects(), history=MemoryHistory(clock=clock), max_delivery_count=limit)
        started_by_another(book, lease=lease)
        running = entry_of(book)
        deliveries, pause = 0, 0.0

        while clock.now - begun < timedelta(hours=hours):
            deliveries += 1
            drive(store_of(book).renew(NAME, "u-1", running.fence, lease))
            waiting = book.handle(message(delivery_count=deliveries if counted else -1))
            assert (waiting.row, waiting.acknowledge) == (12, False)
            pause = waiting.recover_after
            clock.now += timedelta(seconds=pause)

        assert 0 < pause <= 600.0
        assert deliveries <= 100


class TestResolver:
    def test_it_is_told_what_is_known_of_the_earlier_run(self) -> None:
        asked: list[tuple[str, str, Message, Evidence]] = []

        def resolver(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolution:
            asked.append((uuid, trigger_name, message, evidence))
            return Resolution.DUPLICATE

        book = made(Effects(), resolver=resolver)
        started_by_another(book)
        entry = entry_of(book)

        book.handle(message(delivery_count=4))

        known = Evidence(
            delivery_count=4, owner="somebody else", started_at=entry.started_at, fence=entry.fence
        )
        assert asked == [("u-1", NAME, message(delivery_count=4), known)]

    def test_its_death_is_the_death_of_the_process(self) -> None:
        book = made(Effects(), resolver=resolving(KeyboardInterrupt()))
        started_by_another(book)

        with pytest.raises(KeyboardInterrupt):
            book.handle(message())

    def test_it_is_asked_again_about_an_entry_that_changed_hands_meanwhile(self) -> None:
        effects, rivals = Effects(), iter(["rival"])

        def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
            for rival in rivals:
                take_over(book, rival)
            return Resolution.NEW

        book = made(effects, resolver=resolver)
        started_by_another(book)

        assert book.handle(message()).executed
        assert effects.runs == ["u-1"]
        assert state_of(book) is EntryOutcome.OK

    @pytest.mark.parametrize("policy", ["park", "execute"])
    def test_an_entry_that_keeps_changing_hands_is_left_to_those_who_are_alive(self, policy: str) -> None:
        effects, numbers = Effects(), count()

        def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
            take_over(book, f"rival {next(numbers)}")
            return Resolution.NEW

        book = made(effects, resolver=resolver, in_doubt=policy)
        started_by_another(book)

        outcome = book.handle(message())

        assert effects.runs == []
        assert (outcome.acknowledge, outcome.parked) == (False, False)
        assert outcome.recover_after > 0
        assert "kept changing hands" in outcome.reason
        assert state_of(book) is State.STARTED

    async def test_one_that_waits_for_an_event_loop_can_be_asked_under_asyncio_only(self) -> None:
        async def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
            await asyncio.sleep(0)
            return Resolution.NEW

        book = made(Effects(), resolver=resolver)
        started_by_another(book)

        with pytest.raises(SuspendedError, match="use the asyncio form") as caught:
            book.handle(message())
        assert isinstance(caught.value, ConfigurationError)
        assert (await book.ahandle(message())).executed
