"""Simulations that cannot show anything are refused, and effects that no clean run has are found."""

from typing import Any

import pytest

from triggers import ConfigurationError, Message, trigger
from triggers.spark import foreach_batch
from triggers.testing import Effects, exactly_once, exactly_once_batch

pytestmark = pytest.mark.slow

MESSAGES = [Message(body={"id": "N-1"}, uuid="o-1")]


def raises(bank: Effects) -> Any:
    def book(order: dict[str, Any]) -> None:
        bank.record(order["idd"])

    return trigger("orders", name="raises", in_doubt="execute")(book)


def unmatched(bank: Effects) -> Any:
    def book(order: dict[str, Any]) -> None:
        bank.record(order["id"])

    return trigger("orders", name="unmatched", in_doubt="execute", selector="region = 'EU'")(book)


def invalid(bank: Effects) -> Any:
    def book(order: list[int]) -> None:
        bank.record(order[0])

    return trigger("orders", name="invalid", in_doubt="execute")(book)


def idle(_: Effects) -> Any:
    def book(order: dict[str, Any]) -> None: ...

    return trigger("orders", name="idle")(book)


@pytest.mark.parametrize("made", [raises, unmatched, invalid, idle])
def test_messages_without_any_effect_are_refused(made: Any) -> None:
    bank = Effects()

    with pytest.raises(ConfigurationError) as refused:
        exactly_once(made(bank), MESSAGES, effects=bank)

    assert refused.value.setting == "messages"


@pytest.mark.parametrize("messages", [MESSAGES[0], [{"id": "N-1"}], {"id": "N-1"}, 5])
def test_what_is_no_list_of_messages_is_refused(messages: Any) -> None:
    bank = Effects()

    with pytest.raises(ConfigurationError) as refused:
        exactly_once(idle(bank), messages, effects=bank)

    assert refused.value.setting == "message"
    assert "Message(" in refused.value.remedy


@pytest.mark.parametrize("rows", [{"uuid": "1"}, ["1"], 5, "1"])
def test_what_is_no_list_of_rows_is_refused(rows: Any) -> None:
    @foreach_batch("orders", name="load", uuid="uuid", history="sqlite:///unused.db")
    def load(new: Any, batch_id: int) -> None: ...

    with pytest.raises(ConfigurationError) as refused:
        exactly_once_batch(load, rows, effects=Effects())

    assert refused.value.setting == "rows"


def test_a_function_of_batches_is_decorated_once() -> None:
    declare = foreach_batch("orders", name="load", uuid="uuid", history="sqlite:///unused.db")

    def load(new: Any, batch_id: int) -> None: ...

    with pytest.raises(ConfigurationError) as refused:
        declare(declare(load))

    assert refused.value.setting == "foreach_batch"


def test_an_effect_that_a_redelivery_alone_makes_is_found() -> None:
    bank = Effects()

    @trigger("orders", name="refund", in_doubt="execute")
    def book(order: dict[str, Any], message: Message) -> None:
        bank.record_once(("charge", order["id"]))
        if message.redelivered:
            bank.record(("refund", order["id"]))

    report = exactly_once(book, MESSAGES, effects=bank)

    assert not report.never_twice
    assert report.doubled[0].doubled == {("refund", "N-1"): (1, 0)}


def test_an_object_that_remembers_what_it_has_done_loses_nothing_but_its_memory() -> None:
    bank = Effects()

    class Shop:
        def __init__(self) -> None:
            self.done: set[str] = set()

        def book(self, order: dict[str, Any]) -> None:
            if order["id"] not in self.done:
                bank.record(order["id"])  # a new process does it again
                self.done.add(order["id"])

    book = trigger("orders", name="forgetful", in_doubt="execute")(Shop().book)

    assert not exactly_once(book, MESSAGES, effects=bank).never_twice


def test_an_object_that_no_run_resets_is_the_reason_and_not_the_messages() -> None:
    bank = Effects()

    class Shop:
        def __init__(self) -> None:
            self.done: set[str] = set()

        def book(self, order: dict[str, Any]) -> None:
            if order["id"] not in self.done:
                bank.record(order["id"])
                self.done.add(order["id"])

    shop = Shop()

    @trigger("orders", name="kept", in_doubt="execute")
    def book(order: dict[str, Any]) -> None:
        shop.book(order)

    with pytest.raises(ConfigurationError) as refused:
        exactly_once(book, MESSAGES, effects=bank)

    assert refused.value.setting == "reset"


def test_what_a_service_object_has_got_is_gone_in_a_new_process() -> None:
    bank = Effects()

    class Shop:
        done = 0

        def book(self, order: dict[str, Any]) -> None:
            if not self.done:
                bank.record_once(order["id"])
                self.done += 1

    book = trigger("orders", name="counted", in_doubt="execute")(Shop().book)

    assert exactly_once(book, MESSAGES, effects=bank).none_lost
