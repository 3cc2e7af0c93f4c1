"""A trigger runs each message once, with and without a document history, and refuses wrong settings."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from history import ConfigurationError, EntryOutcome, MemoryHistory
from tests.unit.helpers.in_memory import (
    NAME,
    Effects,
    entry_of,
    made,
    message,
    state_of,
    told,
)
from triggers import Delivery, Retry, TransientError, trigger
from triggers.detection.table import Policy, Status
from triggers.events import Cause


class TestOnce:
    def test_a_new_message_runs_and_its_copies_do_not(self) -> None:
        effects = Effects()
        book = made(effects)

        first, second = book.handle(message()), book.handle(message(delivery_count=2))

        assert (first.status, first.executed, first.acknowledge) == (Status.NEW, True, True)
        assert (first.row, first.uuid) == (7, "u-1")
        assert first.reason == "SUCCEEDED: not seen before (row 7)"
        assert (second.status, second.executed, second.acknowledge) == (Status.DUPLICATE, False, True)
        assert (second.row, effects.runs) == (8, ["u-1"])
        assert state_of(book) is EntryOutcome.OK

    @pytest.mark.parametrize("result", [0, None, False, [], "", {}, 0.0], ids=repr)
    def test_a_result_is_returned_as_it_is_and_counts_as_success(self, result: object) -> None:
        book = made(lambda: result)

        outcome = book.handle(message())

        assert outcome.result is result
        assert outcome.error is None
        assert state_of(book) is EntryOutcome.OK

    def test_a_trigger_that_is_called_is_the_plain_function(self) -> None:
        def service(order: str) -> str:
            """Book an order."""
            return f"booked {order}"

        book = trigger("orders", history=MemoryHistory())(service)

        assert book("o-1") == "booked o-1"
        assert (book.__doc__, book.name) == ("Book an order.", f"{__name__}.{service.__qualname__}")
        assert book.destination == "orders"

    def test_a_trigger_over_another_one_is_refused_because_the_inner_one_would_be_lost(self) -> None:
        def service(order: dict[str, str]) -> object:
            return order

        inner = trigger("orders", name="book", history=MemoryHistory())(service)

        with pytest.raises(ConfigurationError) as refused:
            trigger("returns", name="take-back", history=MemoryHistory())(inner)

        assert refused.value.setting == "@trigger"
        assert trigger("returns", name="take-back")(inner.service).service is service

    def test_what_an_object_that_is_called_keeps_hides_nothing_of_the_trigger(self) -> None:
        class Shop:
            def __init__(self) -> None:
                self.handle = self.close = self.name = "the shop's own"
                self.city = "Rome"

            def __call__(self, order: str) -> str:
                return f"{order} in {self.city}"

        book: Any = trigger("orders", name="book", history=MemoryHistory())(Shop())

        assert book.handle(message(body="o-1")).result == "o-1 in Rome"
        assert (book.name, book.city) == ("book", "Rome")

    def test_the_service_is_told_its_uuid_fence_and_counts(self) -> None:
        seen: list[Delivery] = []
        book = made(told(seen))

        book.handle(message(delivery_count=3))

        fence = entry_of(book).fence
        assert seen == [Delivery(uuid="u-1", fence=fence, attempt=1, trigger_name=NAME, delivery_count=3)]

    def test_detect_duplicates_false_runs_every_delivery_and_remembers_nothing(self) -> None:
        effects = Effects()
        book = made(effects, detect_duplicates=False)

        outcomes = [book.handle(message(uuid)) for uuid in ("u-1", "u-1", None)]

        assert [outcome.status for outcome in outcomes] == [Status.NEW] * 3
        assert [outcome.row for outcome in outcomes] == [0] * 3
        assert effects.runs == ["u-1", "u-1", None]
        assert state_of(book) is None


class TestWithoutHistory:
    @pytest.mark.parametrize("failure", [ValueError(), TransientError()], ids=repr)
    def test_a_transacted_one_rolls_back_each_time_until_the_count_is_passed(
        self, failure: Exception
    ) -> None:
        lot = MemoryHistory().parking
        book = made(
            Effects(failure, failure), history=None, parking=lot, transacted=True, max_delivery_count=2
        )

        first = book.handle(message(delivery_count=1))
        last = book.handle(message(delivery_count=3))

        assert (first.acknowledge, first.parked, first.event) == (False, False, None)
        assert last.rejected
        assert last.acknowledge
        assert last.event is not None
        assert last.event.cause is Cause.MAX_DELIVERY_COUNT


class TestMisuse:
    def test_a_history_that_nobody_named_is_asked_for(self) -> None:
        book = trigger("orders", name=NAME)(Effects())

        assert book.needs_history
        with pytest.raises(ConfigurationError, match=r"no history is named; give history='redis://"):
            book.handle(message())

    def test_a_consumer_gives_its_default_to_those_that_named_none(self) -> None:
        history, own = MemoryHistory(), MemoryHistory()
        book = trigger("orders", name=NAME)(Effects())
        bill, unprotected = made(Effects(), history=own), made(Effects(), history=None)

        for one in (book, bill, unprotected):
            one.use_default_history(history)

        assert [one.open_store() for one in (book, bill, unprotected)] == [history, own, None]

    @pytest.mark.parametrize(
        "settings",
        [
            {"history_time_to_live": timedelta(days=8000 * 366)},
            {"history_time_to_live": timedelta(minutes=1), "lease": timedelta(minutes=2)},
            {"retry": Retry(max_attempts=1), "transacted": True},
        ],
        ids=repr,
    )
    def test_a_setting_that_cannot_work_is_refused_by_its_name(self, settings: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError) as caught:
            made(Effects(), **settings)

        assert caught.value.setting == next(iter(settings))

    @pytest.mark.parametrize(
        "settings",
        [
            {"max_delivery_count": 1},
            {"concurrency": 1},
            {"prefetch": 1},
            {"max_body_size": 1},
            {"name": "x" * 200},
            {"lease": timedelta(milliseconds=1)},
            {"transient": ()},
            {"transacted": True, "retry": Retry()},
        ],
        ids=repr,
    )
    def test_a_setting_at_its_limit_works(self, settings: dict[str, Any]) -> None:
        made(Effects(), **settings)

    def test_what_is_not_set_is_as_documented(self) -> None:
        settings = trigger("orders", name="book", history=None)(Effects()).settings

        assert settings.policy == Policy(
            max_delivery_count=100,
            detect_duplicates=True,
            transacted=False,
            in_doubt="park",
            on_retry_failure="throw",
            on_history_error="suspend",
        )
        assert (settings.concurrency, settings.prefetch) == (1, 10)
        assert settings.max_body_size == 1024 * 1024
        assert settings.history_time_to_live == timedelta(days=7)
        assert settings.monitor_interval == timedelta(seconds=60)
        assert (settings.retry.max_attempts, settings.transient) == (0, (ConnectionError, TimeoutError))
        assert settings.lease == timedelta(seconds=30)
        assert (settings.monitor, settings.parking) == (None, None)

    def test_an_annotation_may_name_a_model_of_the_function_around_it(self) -> None:
        class Local(BaseModel):
            id: str

        def service(order: object) -> object:
            return order

        service.__annotations__["order"] = "Local"  # as under "from __future__ import annotations"
        book = trigger("orders", history=None)(service)

        assert book.handle(message(body='{"id": "o-1"}', delivery_count=1)).result == Local(id="o-1")
