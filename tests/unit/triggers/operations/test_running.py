"""An operator decides to run a parked message."""

from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest

from history import ConfigurationError, EntryOutcome, Parked, ParkedKind, State
from history.bridge import drive
from tests.fixtures.threads import in_threads
from tests.fixtures.waiting import PATIENCE
from tests.unit.helpers.in_memory import (
    Effects,
    entry_of,
    made,
    message,
    parked_of,
    started_by_another,
    state_of,
    store_of,
    take_over,
)
from triggers import FatalError, Message, Outcome, TransientError, Trigger
from triggers.operations.running import run_parked
from triggers.pipeline.parking.sweep import close_settled

#: How many messages two operators run at the same time.
MANY = 200


def run_the_parked(book: Trigger[..., object]) -> Outcome:
    [parked] = parked_of(book)
    return drive(run_parked(book, parked, store_of(book).parking))


def in_doubt() -> tuple[Trigger[..., object], Effects]:
    effects = Effects()
    book = made(effects)
    started_by_another(book)
    book.handle(message())
    return book, effects


class TestInDoubt:
    def test_it_runs_under_a_new_fence_and_its_copy_is_removed(self) -> None:
        book, effects = in_doubt()
        before = entry_of(book)

        outcome = run_the_parked(book)

        after = entry_of(book)
        assert (outcome.executed, effects.runs) == (True, ["u-1"])
        assert parked_of(book) == []
        assert (after.outcome, after.fence > before.fence) == (EntryOutcome.OK, True)

    def test_one_that_has_completed_meanwhile_is_a_duplicate_and_its_copy_is_removed(self) -> None:
        book, effects = in_doubt()
        drive(store_of(book).complete(book.name, "u-1", entry_of(book).fence))

        outcome = run_the_parked(book)

        assert (outcome.row, outcome.executed, effects.runs) == (8, False, [])
        assert parked_of(book) == []

    def test_one_that_was_started_again_since_is_in_doubt_again_and_runs_at_the_second_decision(self) -> None:
        book, effects = in_doubt()
        take_over(book, "somebody quicker")

        outcome = run_the_parked(book)

        assert (outcome.executed, effects.runs) == (False, [])
        assert "it was started again after it was parked" in outcome.reason
        assert [one.kind for one in parked_of(book)] == [ParkedKind.IN_DOUBT]
        run_the_parked(book)
        assert (effects.runs, parked_of(book)) == (["u-1"], [])

    def test_one_that_was_started_again_with_a_lease_stays_while_that_is_alive(self) -> None:
        book, effects = in_doubt()
        drive(store_of(book).forget(book.name, "u-1"))
        started_by_another(book, lease=timedelta(minutes=1))

        assert (run_the_parked(book).row, effects.runs) == (12, [])
        assert len(parked_of(book)) == 1


class TestRejected:
    def test_one_that_failed_runs_again(self) -> None:
        effects = Effects(FatalError("no sense"))
        book = made(effects)
        book.handle(message())

        outcome = run_the_parked(book)

        assert (outcome.executed, outcome.error, effects.runs) == (True, None, ["u-1", "u-1"])
        assert (state_of(book), parked_of(book)) == (EntryOutcome.OK, [])

    def test_one_that_is_given_back_stays_parked_and_may_run_again(self) -> None:
        effects = Effects(FatalError("no sense"), TransientError("not now"))
        book = made(effects, on_retry_failure="suspend")
        book.handle(message())

        outcome = run_the_parked(book)
        kept = parked_of(book)
        run_the_parked(book)

        assert (outcome.acknowledge, len(kept)) == (False, 1)
        assert (len(effects.runs), parked_of(book)) == (3, [])

    def test_one_whose_process_dies_in_it_stays_parked_and_started(self) -> None:
        book = made(Effects(FatalError("no sense"), SystemExit(1)))
        book.handle(message())

        with pytest.raises(SystemExit):
            run_the_parked(book)

        assert (state_of(book), len(parked_of(book))) == (State.STARTED, 1)

    def test_one_that_was_delivered_too_often_runs(self) -> None:
        effects = Effects()
        book = made(effects, max_delivery_count=3)
        book.handle(message(delivery_count=4))

        run_the_parked(book)

        assert (effects.runs, parked_of(book)) == (["u-1"], [])


@pytest.mark.slow
class TestTwoOperators:
    """Two operators see the same list, and decide at the same time."""

    @pytest.mark.parametrize("lease", [None, timedelta(minutes=1)])
    @pytest.mark.parametrize("kind", ["rejected", "in doubt", "delivered too often"])
    def test_each_of_their_messages_runs_once(self, kind: str, lease: timedelta | None) -> None:
        effects = Effects(*[FatalError("no sense")] * (MANY if kind == "rejected" else 0))
        book = made(effects, max_delivery_count=1, lease=lease)
        for number in range(MANY):
            if kind == "in doubt":
                started_by_another(book, f"u-{number}")
            book.handle(message(f"u-{number}", delivery_count=2 if kind == "delivered too often" else 1))
        effects.runs.clear()

        run_at_once(book)

        assert sorted(map(str, effects.runs)) == sorted(f"u-{number}" for number in range(MANY))
        drive(close_settled(book.name, store_of(book), store_of(book).parking))
        assert list(parked_of(book)) == []

    def test_what_fails_again_runs_once_and_stays_parked_with_its_error(self) -> None:
        effects = Effects(*[FatalError("no sense")] * MANY, *[FatalError("still none")] * MANY)
        book = made(effects, lease=timedelta(minutes=1))
        for number in range(MANY):
            book.handle(message(f"u-{number}"))

        run_at_once(book)

        assert sorted(map(str, effects.runs[MANY:])) == sorted(f"u-{number}" for number in range(MANY))
        assert [one.error_message for one in parked_of(book)] == ["still none"] * MANY

    def test_the_second_one_leaves_what_has_failed_again_and_meets_a_duplicate_of_what_succeeded(
        self,
    ) -> None:
        effects = Effects(FatalError("no sense"), FatalError("still none"))
        book = made(effects)
        book.handle(message())
        [seen_by_both] = parked_of(book)
        lot = store_of(book).parking

        first = drive(run_parked(book, seen_by_both, lot))
        second = drive(run_parked(book, seen_by_both, lot))

        assert (str(first.error), len(effects.runs)) == ("still none", 2)
        assert (second.executed, second.acknowledge) == (False, False)
        assert "somebody has run it since it was parked, and it failed again" in second.reason
        assert [one.error_message for one in parked_of(book)] == ["still none"]
        assert state_of(book) is EntryOutcome.FAILED
        [there_now] = parked_of(book)
        assert drive(run_parked(book, there_now, lot)).executed, "an operator may decide on the current copy"
        assert drive(run_parked(book, there_now, lot)).row == 8


def test_a_copy_that_was_parked_under_an_older_id_is_replaced() -> None:
    book = made(Effects(FatalError("no sense"), FatalError("still none")))
    lot = store_of(book).parking
    book.handle(message())
    [parked] = parked_of(book)
    older = parked.model_copy(update={"id": "0123abcd"})
    drive(lot.remove(parked))
    drive(lot.park([older]))

    drive(run_parked(book, older, lot))

    assert [one.error_message for one in parked_of(book)] == ["still none"]


def test_messages_without_identity_are_all_kept_and_all_run() -> None:
    effects = Effects()
    book = made(effects)
    for _ in range(3):
        book.handle(message(None, body=b"12 degrees"))

    copies = parked_of(book)

    assert len({one.id for one in copies}) == 3
    assert [one.message and one.message.body for one in copies] == [b"12 degrees"] * 3


def run_at_once(book: Trigger[..., object]) -> None:
    """Let two operators run all parked messages, each in a separate thread."""
    lot, seen = store_of(book).parking, parked_of(book)
    begin = Barrier(2)

    def operator() -> None:
        begin.wait(PATIENCE)
        for parked in seen:
            drive(run_parked(book, parked, lot))

    in_threads(lambda _: operator(), range(2))


def test_an_unreadable_delivery_cannot_run() -> None:
    book = made(Effects())
    parked = Parked(id="1", trigger_name=book.name, kind=ParkedKind.UNREADABLE, reason="no body", raw={})

    with pytest.raises(ConfigurationError, match="send it corrected, or discard it"):
        drive(run_parked(book, parked, store_of(book).parking))


async def test_a_coroutine_function_runs_on_the_event_loop() -> None:
    ran: list[Any] = []

    async def service(told: Message) -> None:
        ran.append(told.uuid)

    book = made(service)
    started_by_another(book)
    await book.ahandle(message())
    [parked] = parked_of(book)

    await run_parked(book, parked, store_of(book).parking)

    assert (ran, parked_of(book)) == (["u-1"], [])
