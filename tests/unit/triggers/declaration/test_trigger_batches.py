"""A trigger handles many messages in one call, also under asyncio, and when another run takes its claim."""

import asyncio
from datetime import timedelta

import pytest

from history import ConfigurationError, EntryOutcome, State
from history.bridge import drive
from tests.unit.helpers.in_memory import (
    NAME,
    Effects,
    entry_of,
    made,
    message,
    started_by_another,
    state_of,
    store_of,
    take_over,
)
from triggers import Delivery, Retry, Status, TransientError, UnawaitedError


class TestBatches:
    def test_an_empty_batch_is_nothing(self) -> None:
        assert list(made(Effects()).handle_batch([])) == []

    def test_a_uuid_that_stands_twice_is_a_duplicate_of_its_first_and_outcomes_come_in_order(self) -> None:
        effects = Effects()
        book = made(effects)

        outcomes = book.handle_batch([message(uuid, uuid) for uuid in ("a", "b", "a", "a", "c")])

        assert [outcome.uuid for outcome in outcomes] == ["a", "b", "a", "a", "c"]
        assert [outcome.result for outcome in outcomes] == ["a", "b", None, None, "c"]
        assert [str(outcome.status) for outcome in outcomes[1:4]] == ["NEW", "DUPLICATE", "DUPLICATE"]
        assert sorted(filter(None, effects.runs)) == ["a", "b", "c"]

    def test_a_second_one_gets_its_turn_when_the_first_was_released(self) -> None:
        effects = Effects(TransientError())
        book = made(effects, on_retry_failure="suspend")

        first, second = book.handle_batch([message(body=b"1"), message(body=b"2")])

        assert (first.acknowledge, first.suspend) == (False, True)
        assert (second.status, second.acknowledge, second.result) == (Status.NEW, True, b"2")

    def test_each_message_has_a_fate_of_its_own(self) -> None:
        def service(body: str) -> str:
            if body == "fatal":
                raise ValueError(body)
            if body == "transient":
                raise TransientError
            return body

        book = made(service, on_retry_failure="suspend")
        started_by_another(book, "doubt")
        book.handle(message("done", "ok"))

        outcomes = book.handle_batch(
            [
                message("new", "ok"),
                message("bad", "fatal"),
                message(None, "orphan"),
                message("doubt", "ok"),
                message("done", "ok"),
                message("later", "transient"),
                message("over", "ok", delivery_count=101),
            ]
        )

        assert [(outcome.row, outcome.acknowledge, outcome.parked) for outcome in outcomes] == [
            (7, True, False),
            (7, True, True),
            (19, True, True),
            (10, True, True),
            (8, True, False),
            (7, False, False),
            (1, True, True),
        ]
        assert state_of(book, "new") is EntryOutcome.OK
        assert state_of(book, "bad") is EntryOutcome.FAILED
        assert state_of(book, "later") is None
        assert state_of(book, "over") is None

    def test_messages_without_identity_do_not_wait_for_each_other(self) -> None:
        effects = Effects()
        book = made(effects, history=None)

        outcomes = book.handle_batch([message(None, delivery_count=1) for _ in range(3)])

        assert [outcome.executed for outcome in outcomes] == [True] * 3


class TestAsyncio:
    async def test_its_failures_and_retries_are_those_of_a_blocking_one(self) -> None:
        attempts: list[int] = []

        async def service(delivery: Delivery) -> None:
            await asyncio.sleep(0)
            attempts.append(delivery.attempt)
            raise TransientError

        book = made(service, retry=Retry(max_attempts=2, interval=timedelta(milliseconds=1)))

        outcome = await book.ahandle(message())

        assert attempts == [1, 2, 3]
        assert isinstance(outcome.error, TransientError)
        assert state_of(book) is EntryOutcome.FAILED

    async def test_what_a_blocking_service_leaves_to_await_is_awaited_before_its_end_is_recorded(
        self,
    ) -> None:
        effects: list[str] = []

        async def work() -> str:
            await asyncio.sleep(0)
            effects.append("done")
            return "result"

        def service() -> object:
            return work()

        outcome = await made(service).ahandle(message())

        assert (outcome.result, effects) == ("result", ["done"])

    def test_a_coroutine_function_is_refused_by_handle_before_anything_is_claimed(self) -> None:
        async def service() -> None:
            await asyncio.sleep(0)

        book = made(service)

        with pytest.raises(ConfigurationError, match="use ahandle or an asyncio consumer"):
            book.handle(message())
        assert state_of(book) is None

    def test_a_service_that_leaves_something_to_await_has_failed_where_nobody_awaits(self) -> None:
        async def work() -> None:
            raise AssertionError("it must not run")

        def service() -> object:
            return work()

        book = made(service)

        outcome = book.handle(message())

        assert isinstance(outcome.error, UnawaitedError)
        assert outcome.parked
        assert state_of(book) is EntryOutcome.FAILED

    async def test_a_blocking_service_runs_as_well(self) -> None:
        outcomes = await made(Effects()).ahandle_batch([message("a", b"1"), message("b", b"2")])

        assert [outcome.result for outcome in outcomes] == [b"1", b"2"]


class TestLostClaims:
    @pytest.mark.parametrize("fails", [False, True])
    def test_a_late_worker_does_not_record_over_its_successor_and_says_so(
        self, caplog: pytest.LogCaptureFixture, *, fails: bool
    ) -> None:
        def service() -> None:
            take_over(book, "successor")
            if fails:
                raise TransientError

        book = made(service, on_retry_failure="suspend")

        outcome = book.handle(message())

        entry = entry_of(book)
        assert (outcome.executed, outcome.acknowledge, outcome.parked) == (True, False, False)
        assert caplog.records[-1].levelname == "ERROR"
        assert "to successor: its end is not recorded" in outcome.reason
        assert (entry.state, entry.owner) == (State.STARTED, "successor")

    def test_one_whose_successor_has_completed_may_acknowledge(self) -> None:
        def service() -> None:
            take_over(book, "successor")
            drive(store_of(book).complete(NAME, "u-1", entry_of(book).fence, EntryOutcome.OK))

        book = made(service)

        outcome = book.handle(message())

        assert (outcome.acknowledge, outcome.parked) == (True, False)
        assert state_of(book) is EntryOutcome.OK

    def test_one_that_somebody_else_has_claimed_since_is_left_to_them(self) -> None:
        def service() -> None:
            drive(store_of(book).forget(NAME, "u-1"))
            started_by_another(book)

        book = made(service)

        assert not book.handle(message()).acknowledge
        assert state_of(book) is State.STARTED
