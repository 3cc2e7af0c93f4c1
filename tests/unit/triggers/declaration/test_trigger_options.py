"""Options that change the handling of a message: batches, forgotten messages, suspension, modes."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from history import ConfigurationError, EntryOutcome, MemoryHistory
from resolvers import Resolution
from tests.unit.helpers.in_memory import AT_ONCE, Effects, made, message, parked_of, resolving, state_of
from triggers import Delivery, FatalError, Message, Retry, Status, TransientError
from triggers.consumer.options import check_triggers
from triggers.detection.suspension import Suspension

DAY = timedelta(days=1)


class TestBatchServices:
    def test_a_service_takes_many_at_once_and_each_is_detected_by_itself(self) -> None:
        taken: list[list[int]] = []

        def book(numbers: list[int]) -> str:
            taken.append(numbers)
            return "booked"

        batched = made(book, batch=2)
        sent = [message(str(number), number) for number in (1, 2, 3)]
        outcomes = batched.handle_batch([*sent, sent[0]])

        assert taken == [[1, 2], [3]]
        assert [one.status for one in outcomes] == [Status.NEW] * 3 + [Status.DUPLICATE]
        assert [one.result for one in outcomes] == ["booked"] * 3 + [None]
        assert batched.handle(message("4", 4)).result == "booked"
        assert taken[-1] == [4]

    def test_a_message_that_cannot_be_given_to_it_fails_alone(self) -> None:
        taken: list[list[int]] = []
        batched = made(taken_by(taken), batch=3)

        outcomes = batched.handle_batch([message("a", 1), message("b", "no number"), message("c", 3)])

        assert taken == [[1, 3]]
        assert [(one.executed, one.error is None) for one in outcomes] == [
            (True, True),
            (False, False),
            (True, True),
        ]
        assert [one.uuid for one in parked_of(batched)] == ["b"]

    def test_all_share_one_end_and_its_retries(self) -> None:
        failures: list[Exception] = [TransientError("once"), FatalError("for good")]

        def fail(numbers: list[int]) -> None:
            raise failures.pop(0)

        batched = made(fail, batch=2, retry=Retry(max_attempts=1, interval=AT_ONCE))
        outcomes = batched.handle_batch([message("a", 1), message("b", 2)])

        assert [one.attempts for one in outcomes] == [2, 2]
        assert [state_of(batched, uuid) for uuid in ("a", "b")] == [EntryOutcome.FAILED] * 2
        assert sorted(one.uuid or "" for one in parked_of(batched)) == ["a", "b"]

    def test_each_message_has_a_fence_of_its_own(self) -> None:
        seen: list[Delivery] = []

        def look(messages: list[Message], deliveries: list[Delivery]) -> None:
            seen.extend(deliveries)
            assert [one.uuid for one in messages] == [one.uuid for one in deliveries]

        outcomes = made(look, batch=2).handle_batch([message("a"), message("b")])

        assert [one.error for one in outcomes] == [None, None]
        assert len({one.fence for one in seen}) == 2


def taken_by(taken: list[list[int]]) -> Any:
    def take(numbers: list[int]) -> None:
        taken.append(numbers)

    return take


class TestForgottenMessages:
    OLD = datetime.now(UTC) - 2 * DAY

    @pytest.mark.parametrize(
        ("facts", "row"),
        [
            ({"delivery_count": 2, "timestamp": OLD}, 20),
            ({"redelivered": True, "timestamp": OLD}, 20),
            ({"delivery_count": 1, "timestamp": OLD}, 7),
            ({"delivery_count": 2, "timestamp": OLD + 2 * DAY}, 7),
            ({"delivery_count": 2}, 7),
        ],
        ids=["old and counted", "old and redelivered", "old, first", "young", "no timestamp"],
    )
    def test_a_redelivered_one_older_than_the_history_remembers_is_in_doubt(
        self, facts: dict[str, Any], row: int
    ) -> None:
        effects = Effects()
        book = made(effects, forgotten="in_doubt", history_time_to_live=DAY)

        assert book.handle(message(**facts)).row == row
        assert len(effects.runs) == (row == 7)
        assert len(parked_of(book)) == (row == 20)
        assert state_of(book) is (EntryOutcome.OK if row == 7 else None), (
            "a claim that is not used is released"
        )

    @pytest.mark.parametrize("resolution", Resolution)
    def test_a_resolver_decides_about_it(self, resolution: Resolution) -> None:
        resolver = resolving(resolution)
        book = made(Effects(), forgotten="in_doubt", history_time_to_live=DAY, resolver=resolver)

        outcome = book.handle(message(delivery_count=2, timestamp=self.OLD))

        runs = resolution is Resolution.NEW
        assert (outcome.row, outcome.executed, outcome.status) == (21, runs, Status[resolution.name])
        assert state_of(book) is (EntryOutcome.OK if runs else None), "what does not run leaves no claim"

    def test_it_is_new_unless_the_trigger_says_otherwise(self) -> None:
        book = made(Effects(), history_time_to_live=DAY)

        assert book.handle(message(delivery_count=2, timestamp=self.OLD)).row == 7

    @pytest.mark.parametrize(("horizon", "warned"), [(2 * DAY, True), (DAY, False), (None, False)], ids=str)
    def test_a_consumer_warns_when_the_history_forgets_sooner_than_messages_come_again(
        self, horizon: timedelta | None, caplog: pytest.LogCaptureFixture, *, warned: bool
    ) -> None:
        book = made(Effects(), redelivery_horizon=horizon, history_time_to_live=DAY)

        with caplog.at_level(logging.WARNING):
            check_triggers([book], None)

        assert ("raise history_time_to_live" in caplog.text) is warned


class TestSuspension:
    def test_a_fatal_failure_suspends_where_the_trigger_says_so(self) -> None:
        book = made(Effects(FatalError("bad"), TransientError("later")), suspend_on_error=True)

        outcomes = [book.handle(message("a")), book.handle(message("b")), book.handle(message("c"))]

        assert [(one.acknowledge, one.suspension) for one in outcomes] == [
            (True, Suspension.FATAL),
            (True, Suspension.FATAL),  # its retries were used up, and it was given up
            (True, None),
        ]

    def test_a_batch_suspends_where_its_service_fails(self) -> None:
        book = made(Effects(FatalError("bad")), suspend_on_error=True)

        outcomes = book.handle_batch([message("a"), message("b")])

        assert [one.suspension for one in outcomes] == [Suspension.FATAL, None]

    def test_a_plain_trigger_has_nothing_to_roll_back(self) -> None:
        with pytest.raises(ConfigurationError, match=r"on_rollback: .*transacted=True"):
            made(Effects(), on_rollback="suspend_and_recover")


class TestAcknowledgeModes:
    @pytest.mark.parametrize("mode", ["auto", "dups_ok"])
    def test_duplicates_are_detected_in_client_mode_only(self, mode: str) -> None:
        effects = Effects()
        book = made(effects, acknowledge_mode=mode, history=MemoryHistory())

        outcomes = [book.handle(message()), book.handle(message(delivery_count=2))]

        assert [one.row for one in outcomes] == [0, 0]
        assert len(effects.runs) == 2

    @pytest.mark.parametrize(
        "settings", [{"transacted": True}, {"on_retry_failure": "suspend"}], ids=["transacted", "suspend"]
    )
    def test_what_is_acknowledged_on_receipt_cannot_be_given_back(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match="acknowledge_mode='client'"):
            made(Effects(), acknowledge_mode="auto", **settings)


class TestExpiration:
    def test_what_has_expired_is_acknowledged_and_leaves_nothing_behind(self) -> None:
        effects = Effects()
        book = made(effects)
        now = datetime.now(UTC)

        outcomes = book.handle_batch(
            [message("late", expiration=now - DAY), message("early", expiration=now + DAY), message("ever")]
        )

        assert effects.runs == ["early", "ever"]
        assert [one.kind for one in outcomes] == ["expired", "ok", "ok"]
        assert (outcomes[0].acknowledge, outcomes[0].parked, outcomes[0].event) == (True, False, None)
        assert state_of(book, "late") is None
