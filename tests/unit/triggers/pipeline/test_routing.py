"""Which service of a trigger gets a message, and what happens to a message that no service wants."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy import Connection

from history import ConfigurationError, EntryOutcome, MemoryHistory, Message, ParkedKind
from history.bridge import drive
from history.json_text import NotJsonError
from tests.unit.helpers.in_memory import AT_ONCE, NO_FILE, Effects, made, message, parked_of, state_of
from triggers import Delivery, FilterAnswerError, Outcome, Retry, Status, TransientError, Trigger, trigger
from triggers.consumer.gate import Gate
from triggers.events import Cause
from triggers.operations.running import run_parked


class Order(BaseModel):
    id: str


def routed(ran: list[str], **settings: Any) -> Trigger[..., object]:
    """Make a trigger with two rules; each service records that it ran."""
    book = made(lambda: ran.append("book"), **settings)

    @book.route("cancel", filter="JMSType = 'cancel'")
    def cancel() -> None:
        ran.append("cancel")

    @book.route("express", filter="body.express")
    def express() -> None:
        ran.append("express")

    assert callable(cancel)
    assert callable(express)
    return book


def echoed(body: bytes) -> bytes:
    return body


def never(one: Message) -> bool:
    return False


def left_nothing(book: Trigger[..., object]) -> bool:
    return state_of(book) is None and not parked_of(book)


def unmatched(outcome: Outcome) -> bool:
    told = (outcome.status, outcome.executed, outcome.acknowledge, outcome.rejected, outcome.row)
    return told == (None, False, True, False, 0) and outcome.kind == "unmatched"


class TestRules:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"type": "cancel"}, "cancel"),
            ({"body": b'{"express": true}'}, "express"),
            ({"type": "cancel", "body": b'{"express": true}'}, "cancel"),
            ({}, "book"),
        ],
        ids=["first", "second", "both", "none"],
    )
    def test_the_first_that_matches_has_the_message_and_the_trigger_s_own_service_is_last(
        self, fields: dict[str, Any], expected: str
    ) -> None:
        ran: list[str] = []
        book = routed(ran)

        outcome = book.handle(message(**fields))

        assert ran == [expected]
        assert (outcome.status, outcome.executed) == (Status.NEW, True)
        assert outcome.reason.endswith(f"; route {expected} (row 7)") is (expected != "book")
        assert state_of(book) is EntryOutcome.OK

    def test_a_message_whose_body_a_rule_cannot_read_is_parked(self) -> None:
        ran: list[str] = []

        outcome = routed(ran).handle(message(type="Cancel", body=b"no json"))

        assert (ran, outcome.rejected, outcome.parked) == ([], True, True)
        assert isinstance(outcome.error, NotJsonError)

    def test_each_service_is_given_what_it_asks_for(self) -> None:
        book = made(echoed)
        got: list[object] = []

        @book.route("typed", filter="JMSType = 'typed'")
        def typed(order: Order, message: Message, delivery: Delivery) -> str:
            got.extend([order, message.type, delivery.trigger_name])
            return order.id

        outcome = book.handle(message(body=b'{"id": "N-1"}', type="typed"))
        plain = book.handle(message("u-2", body=b'{"id": "N-2"}'))

        assert outcome.result == "N-1"
        assert got == [Order(id="N-1"), "typed", "book"]
        assert plain.result == b'{"id": "N-2"}'
        assert (
            typed(Order(id="N-3"), message(), Delivery(uuid=None, fence=None, attempt=1, trigger_name=""))
            == "N-3"
        )

    def test_each_is_retried_as_the_trigger_says(self) -> None:
        effects = Effects(TransientError("once"))
        book = made(lambda: None, retry=Retry(max_attempts=1, interval=AT_ONCE))
        book.route("again", filter="JMSType = 'again'")(effects)

        outcome = book.handle(message(type="again"))

        assert effects.attempts == [1, 2]
        assert outcome.error is None

    def test_a_batch_service_gets_only_what_its_filter_matches(self) -> None:
        got: list[str | None] = []

        def together(messages: list[Message]) -> None:
            got.extend(one.uuid for one in messages)

        book = made(together, batch=10, filter="JMSPriority > 4")

        outcomes = book.handle_batch([message(str(priority), priority=priority) for priority in (3, 5, 9)])

        assert got == ["5", "9"]
        assert unmatched(outcomes[0])

    def test_a_batch_is_routed_message_by_message(self) -> None:
        ran: list[str] = []
        book = routed(ran, filter="JMSType IS NULL")

        outcomes = book.handle_batch(
            [
                message("a"),
                message("b", type="other"),
                message("c", type="cancel"),
                message("a", type="cancel"),
            ]
        )

        assert [outcome.kind for outcome in outcomes] == ["ok", "unmatched", "ok", "duplicate"]
        assert ran == ["book", "cancel"]

    async def test_coroutine_functions_are_routed_under_asyncio(self) -> None:
        ran: list[str] = []

        async def own() -> None:
            ran.append("own")

        async def other() -> None:
            ran.append("other")

        book = made(own)
        book.route("other", filter="JMSType = 'other'")(other)

        await book.ahandle(message(type="other"))
        await book.ahandle(message("u-2"))

        assert ran == ["other", "own"]

    def test_a_filter_may_be_a_function(self) -> None:
        ran: list[str] = []

        def urgent(one: Message) -> bool:
            return one.priority > 4

        book = made(lambda: ran.append("book"), filter=urgent)
        book.route("low", filter=lambda one: one.priority == 0)(lambda: ran.append("low"))

        outcomes = [book.handle(message(str(priority), priority=priority)) for priority in (0, 4, 9)]

        assert ran == ["low", "book"]
        assert [unmatched(outcome) for outcome in outcomes] == [False, True, False]


class TestUnmatched:
    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"selector": "region = 'EU'"}, "the selector does not match"),
            ({"filter": "body.express"}, "no routing rule matches"),
            ({"filter": never}, "no routing rule matches"),
            ({"selector": "region IS NULL", "filter": "region = 'EU'"}, "no routing rule matches"),
        ],
        ids=["selector", "filter", "function", "both"],
    )
    @pytest.mark.parametrize("uuid", ["u-1", None], ids=["identified", "unidentified"])
    def test_a_message_is_acknowledged_and_leaves_nothing_behind(
        self, settings: dict[str, Any], reason: str, uuid: str | None
    ) -> None:
        effects = Effects()
        book = made(effects, **settings)

        outcome = book.handle(message(uuid))

        assert unmatched(outcome)
        assert (outcome.reason, outcome.event, outcome.uuid) == (reason, None, uuid)
        assert left_nothing(book)
        assert effects.runs == []

    def test_a_message_can_match_later_for_it_left_no_entry(self) -> None:
        effects = Effects()
        book = made(lambda: None, filter="FALSE")

        first = book.handle(message())
        book.route("late", filter="TRUE")(effects)
        second = book.handle(message(delivery_count=2))

        assert unmatched(first)
        assert second.status is Status.NEW
        assert effects.runs == ["u-1"]

    def test_a_message_that_a_rule_wants_needs_the_selector_first(self) -> None:
        ran: list[str] = []
        book = routed(ran, selector="JMSPriority > 4")

        low, high = book.handle(message(type="cancel")), book.handle(message(type="cancel", priority=5))

        assert unmatched(low)
        assert (high.kind, ran) == ("ok", ["cancel"])

    def test_what_was_delivered_too_often_is_rejected_unasked(self) -> None:
        asked: list[Message] = []

        def wanted(one: Message) -> bool:
            asked.append(one)
            return False

        book = made(lambda: None, max_delivery_count=2, filter=wanted, selector="FALSE")

        outcome = book.handle(message(delivery_count=3))

        assert (outcome.row, outcome.rejected, outcome.parked) == (1, True, True)
        assert asked == []

    def test_it_is_counted_and_told_at_debug(self, caplog: pytest.LogCaptureFixture) -> None:
        book = made(lambda: None, selector="FALSE")
        gate = Gate(book)

        with caplog.at_level(logging.DEBUG, "triggers.pipeline.routing"):
            gate.note(book.handle(message()))

        assert gate.counts == {"unmatched": 1}
        [record] = caplog.records
        assert record.getMessage() == "not run: the selector does not match"
        assert (vars(record)["trigger"], vars(record)["uuid"]) == ("book", "u-1")

    def test_without_history_it_is_the_same(self) -> None:
        assert unmatched(made(lambda: None, history=None, selector="FALSE").handle(message()))

    def test_a_parked_message_that_no_rule_wants_any_more_stays_parked(self) -> None:
        history = MemoryHistory()
        failing = made(Effects(ValueError("no")), history=history)
        failing.handle(message())
        changed = made(lambda: None, history=history, filter="FALSE")

        [parked] = parked_of(changed)
        assert unmatched(drive(run_parked(changed, parked, history.parking)))
        assert parked_of(changed) == [parked]


class TestAFilterThatFails:
    @pytest.mark.parametrize("failure", [ValueError("no such key"), ConnectionError("away")], ids=repr)
    @pytest.mark.parametrize("transacted", [False, True], ids=["plain", "transacted"])
    def test_is_a_fatal_failure_of_the_message_before_its_service(
        self, failure: Exception, *, transacted: bool
    ) -> None:
        effects = Effects()
        book = made(effects, transacted=transacted)
        book.route("broken", filter=raising(failure))(lambda: None)

        outcome = book.handle(message())

        assert (outcome.status, outcome.executed, outcome.acknowledge) == (None, False, True)
        assert (outcome.rejected, outcome.parked, outcome.reason) == (True, True, "a filter failed")
        assert outcome.error is failure
        assert outcome.event is not None
        assert outcome.event.cause is Cause.FILTER_FAILED
        assert outcome.event.exception_message == str(failure)
        [parked] = parked_of(book)
        assert (parked.kind, parked.message, parked.error_message) == (
            ParkedKind.REJECTED,
            message(),
            str(failure),
        )
        assert state_of(book) is None
        assert effects.runs == []

    @pytest.mark.parametrize("answer", [None, 1, "", []], ids=repr)
    def test_fails_if_it_answers_neither_true_nor_false(self, answer: Any) -> None:
        def wanted(one: Message) -> object:
            return answer

        book = made(lambda: None, filter=wanted)

        outcome = book.handle(message())

        assert isinstance(outcome.error, FilterAnswerError)
        assert f"returned a {type(answer).__name__}: return True or False" in str(outcome.error)
        assert outcome.parked

    def test_is_not_asked_after_a_rule_before_it_matched(self) -> None:
        ran: list[str] = []
        book = routed(ran, filter=raising(ValueError("never asked")))

        assert book.handle(message(type="cancel")).error is None

    def test_gives_the_message_back_when_it_cannot_be_parked(self) -> None:
        book = made(lambda: None, history=None, filter=raising(ValueError("no")))

        outcome = book.handle(message())

        assert (outcome.acknowledge, outcome.parked) == (False, False)
        assert outcome.recover_after > 0

    def test_fails_only_its_own_message_of_a_batch(self) -> None:
        effects = Effects()

        def wanted(one: Message) -> bool:
            return bool(one.properties["wanted"])

        book = made(effects, filter=wanted)

        outcomes = book.handle_batch([message("a"), message("b", properties={"wanted": True})])

        assert [outcome.kind for outcome in outcomes] == ["rejected", "ok"]
        assert effects.runs == ["b"]

    def test_can_run_once_it_is_mended(self) -> None:
        history, effects = MemoryHistory(), Effects()
        made(effects, history=history, filter=raising(ValueError("no"))).handle(message())
        mended = made(effects, history=history, filter="TRUE")

        [parked] = parked_of(mended)
        assert drive(run_parked(mended, parked, history.parking)).status is Status.NEW
        assert effects.runs == ["u-1"]
        assert parked_of(mended) == []

    def test_ends_the_process_if_it_says_so(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            made(lambda: None, filter=raising(KeyboardInterrupt())).handle(message())


class TestMisuse:
    def test_a_filter_must_answer_at_once(self) -> None:
        async def wanted(one: Message) -> bool:
            return True

        class Wanted:
            async def __call__(self, one: Message) -> bool:
                return one.redelivered

        for given in (wanted, Wanted()):
            with pytest.raises(ConfigurationError, match=r"^filter: it is a coroutine function"):
                made(lambda: None, filter=given)

    def test_a_route_has_a_name_of_its_own(self) -> None:
        book = routed([])

        for name, problem in (("cancel", "another one has this name"), ("", "empty"), (5, "no text")):
            with pytest.raises(ConfigurationError, match=problem):
                book.route(name, filter="TRUE")(lambda: None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert [route.name for route in book.routing.routes] == ["cancel", "express"]

    def test_a_join_of_all_and_a_batch_have_one_service(self) -> None:
        def joined(one: bytes, other: bytes) -> None: ...

        def together(messages: list[Message]) -> None: ...

        both: dict[str, Any] = {"history": MemoryHistory(), "local_parking_file": NO_FILE, "join": "all"}

        with pytest.raises(ConfigurationError, match="has one service, for all of its messages"):
            trigger(["orders", "bills"], filter="TRUE", **both)(joined)
        with pytest.raises(ConfigurationError, match="has one service, for all of its messages"):
            trigger(["orders", "bills"], **both)(joined).route("other", filter="TRUE")(together)
        with pytest.raises(ConfigurationError, match="a batch is for one service"):
            made(together, batch=2).route("other", filter="TRUE")(together)

    def test_all_services_of_a_trigger_are_of_one_kind(self) -> None:
        def plain() -> None: ...

        async def coroutine() -> None: ...

        def atomic(connection: Connection) -> None: ...

        refused(plain, coroutine, "is a coroutine function, and the trigger's own is not")
        refused(coroutine, plain, "is not a coroutine function, and the trigger's own is")
        refused(plain, atomic, "takes a Connection, and the trigger's own takes none")


def refused(own: Callable[..., object], other: Callable[..., object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        made(own).route("other", filter="TRUE")(other)


def raising(failure: BaseException) -> Callable[[Message], bool]:
    def wanted(one: Message) -> bool:
        raise failure

    return wanted
