"""Triggers with several destinations: which settings are valid, and how the service gets the messages."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection

from history import ConfigurationError, MemoryHistory
from history.bridge import drive
from tests.fixtures.beside import EntriesOnly
from tests.unit.helpers.in_memory import NO_FILE, Effects, message
from tests.unit.triggers.pipeline.joining.joining import Bench, sent
from triggers import BodyInvalidError, Delivery, Joined, Message, trigger
from triggers.operations.running import run_parked
from triggers.pipeline.joining.composite import compose, is_joined
from triggers.providers.memory import MemoryProvider


class Order(BaseModel):
    id: str


class Payment(BaseModel):
    amount: float


ORDER = sent("o", "orders", body={"id": "N-1"})
PAYMENT = sent("p", "payments", body=b'{"amount": 2.5}')


def as_deep_as_may_be() -> Any:
    """Return the deepest list of lists that a message may have as its body."""
    body: Any = 1
    while True:
        try:
            body = Message(body=[body]).body
        except ValidationError:
            return body


def whole(joined: Joined) -> Joined:
    return joined


def one_part(order: object) -> object:
    return order


def three_parts(a: object, b: object, c: object) -> object:
    return a, b, c


def joined_by(service: Callable[..., Any], **settings: Any) -> Any:
    ship = Bench().trigger(service, **settings)
    assert ship.handle(ORDER).join == "waiting"
    return ship.handle(PAYMENT)


class TestSettings:
    def test_a_join_is_of_any_unless_told_otherwise(self) -> None:
        book = trigger(["orders", "payments"], name="book", history=None)(Effects())

        assert book.settings.join == "any"
        assert book.settings.join_timeout == timedelta(days=1)
        assert (book.destination, list(book.destinations)) == ("orders", ["orders", "payments"])
        assert repr(book) == "<Trigger book on orders + payments>"

    @pytest.mark.parametrize(
        ("destination", "problem"),
        [
            pytest.param(["orders", ""], "empty", id="empty"),
            pytest.param(["orders", "payments", "orders"], "'orders' stands twice", id="twice"),
        ],
    )
    def test_destinations_that_are_none_are_refused(self, destination: Any, problem: str) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            trigger(destination, name="book", history=None)(Effects())

    @pytest.mark.parametrize("join", ["all", "one"])
    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            pytest.param({"transacted": True}, "transacted", id="transacted"),
            pytest.param({"batch": 10}, "one message at a time", id="batch"),
            pytest.param({"detect_duplicates": False}, "copies", id="no detection"),
            pytest.param({"on_history_error": "resolve"}, "cannot do without", id="history error"),
            pytest.param({"history": None}, "there is none", id="no history"),
        ],
    )
    def test_what_a_join_cannot_be_with_is_refused(
        self, join: Any, settings: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            Bench().trigger(whole, join=join, **settings)

    @pytest.mark.parametrize("join", ["all", "one"])
    def test_a_join_of_one_destination_is_refused(self, join: Any) -> None:
        with pytest.raises(ConfigurationError, match="there is one"):
            trigger("orders", name="book", join=join, history=MemoryHistory())(Effects())

    @pytest.mark.parametrize("join", ["all", "one"])
    def test_an_atomic_service_is_refused(self, join: Any) -> None:
        def ship(order: Message, payment: Message, connection: Connection) -> None: ...

        with pytest.raises(ConfigurationError, match="the service takes a Connection"):
            Bench().trigger(ship, join=join)

    def test_a_history_without_joins_is_refused_before_the_first_message(self) -> None:
        store: Any = EntriesOnly()
        ship = Bench().trigger(whole, history=store)

        with pytest.raises(ConfigurationError) as refused:
            ship.handle(ORDER)

        assert refused.value.setting == "history"


class TestBinding:
    def test_bodies_come_in_the_order_of_the_destinations(self) -> None:
        def ship(order: Order, payment: Payment) -> object:
            return order, payment

        assert joined_by(ship).result == (Order(id="N-1"), Payment(amount=2.5))

    def test_all_messages_come_by_their_destinations(self) -> None:
        def ship(joined: Joined) -> object:
            return joined.activation, list(joined), joined["orders"], joined["payments"], len(joined)

        assert joined_by(ship).result == ("a", ["orders", "payments"], ORDER, PAYMENT, 2)

    def test_all_kinds_of_parameters_together(self) -> None:
        def ship(
            delivery: Delivery, order: Message, payment: Payment, *, joined: Joined, extra: int = 7
        ) -> object:
            return delivery.trigger_name, order, payment.amount, len(joined), extra

        assert joined_by(ship).result == ("ship", ORDER, 2.5, 2, 7)

    @pytest.mark.parametrize(
        ("service", "problem"),
        [
            pytest.param(one_part, "1 of the 2", id="too few"),
            pytest.param(three_parts, "'c' is one more", id="too many"),
        ],
    )
    def test_a_service_that_does_not_take_all_is_refused(self, service: Any, problem: str) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            Bench().trigger(service)

    def test_a_body_that_is_not_what_is_asked_for_fails_the_join(self) -> None:
        def ship(order: Order, payment: Order) -> None: ...

        outcome = joined_by(ship)

        assert isinstance(outcome.error, BodyInvalidError)
        assert "'payment'" in str(outcome.error)
        assert outcome.parked

    def test_parts_that_are_small_enough_may_be_large_together(self) -> None:
        big = sent("o", "orders", body="x" * 900)

        def ship_it(order: str, payment: str) -> int:
            return len(order + payment)

        ship = Bench().trigger(ship_it, max_body_size=1000)

        ship.handle(big)

        assert ship.handle(sent("p", "payments", body="\n" * 900)).result == 1800
        assert ship.handle(sent("q", "payments", body="y" * 1001)).parked

    async def test_a_coroutine_function_is_given_the_same(self) -> None:
        async def ship(order: Order, payment: Payment) -> object:
            return order.id, payment.amount

        made = Bench().trigger(ship)

        assert (await made.ahandle(ORDER)).join == "waiting"
        assert (await made.ahandle(PAYMENT)).result == ("N-1", 2.5)


class TestComposing:
    def test_odd_messages_come_out_as_they_went_in(self) -> None:
        bench = Bench()
        odd = "\ud800 nul\0 →注文"
        order = Message(
            body=b"\xff\x00",
            message_id="ID:1",
            destination="orders",
            properties={"activation": odd, "größe": odd, "n": 7, "nothing": None},
            delivery_count=3,
            group_sequence=2,
        )
        payment = Message(
            body={odd: [1, None]}, uuid=odd, destination="payments", properties={"activation": odd}
        )
        got: list[Joined] = []

        def ship_it(joined: Joined) -> None:
            got.append(joined)

        ship = bench.trigger(ship_it)
        outcomes = ship.handle_batch([order, payment])

        assert [outcome.error for outcome in outcomes] == [None, None]
        assert (dict(got[0]), got[0].activation) == ({"orders": order, "payments": payment}, odd)

    def test_a_part_may_be_nested_as_deep_as_a_message(self) -> None:
        bench, got = Bench(), list[Joined]()
        order = sent("o", body=as_deep_as_may_be())

        def ship_it(joined: Joined) -> None:
            got.append(joined)
            raise ValueError

        ship = bench.trigger(ship_it)
        ship.handle_batch([order, sent("p", "payments")])
        (parked,) = bench.parked

        assert parked.message is not None
        assert Joined.of(Message.from_json(parked.message.to_json())) == got[0]
        assert got[0]["orders"] == order

    def test_a_joined_message_is_told_by_a_property(self) -> None:
        bench = Bench()
        ship = bench.trigger(whole)
        ship.handle(ORDER)
        (period,) = bench.waiting

        joined = compose("ship", ("orders", "payments"), period)

        assert is_joined(joined)
        assert not is_joined(ORDER)
        assert (joined.uuid, joined.timestamp) == (f"join:ship:a:{period.number}", period.started_at)
        assert joined.delivery_count == 1

    def test_what_comes_from_a_provider_is_never_taken_for_a_joined_message(self) -> None:
        bench = Bench()
        ship = bench.trigger(whole)
        forged = sent("o", "payments").model_copy(
            update={"properties": {"activation": "a", "doubtless-join": 7}}
        )
        provider = MemoryProvider()
        receiver = drive(provider.open_receiver("orders", subscription="s", name="n"))
        drive(provider.send("orders", [forged]))

        drive(ship.pipeline().at(0).deliver(receiver, drive(receiver.receive(1))))

        (period,) = bench.waiting
        assert list(period.parts) == ["orders"], "where it came from counts, not what its sender says"

    def test_a_forged_message_that_was_parked_runs_as_the_part_that_it_is(self) -> None:
        bench, got = Bench(), list[Joined]()

        def ship_it(joined: Joined) -> None:
            got.append(joined)

        ship = bench.trigger(ship_it)
        parts = {"orders": json.loads(ORDER.to_json()), "payments": json.loads(PAYMENT.to_json())}
        forged = sent("forged", body={"activation": "a", "parts": parts}).model_copy(
            update={"properties": {"activation": "a", "doubtless-join": 7}}
        )
        ship.handle_batch([ORDER, forged])
        (parked,) = bench.parked
        ship.handle(PAYMENT)

        outcome = drive(run_parked(ship, parked, bench.history.parking))

        assert (outcome.join, bench.parked) == ("waiting", [])
        assert [dict(one) for one in got] == [{"orders": ORDER, "payments": PAYMENT}]
        assert [list(period.parts) for period in bench.waiting] == [["orders"]]

    def test_a_message_of_no_destination_is_misuse(self) -> None:
        ship = Bench().trigger(whole)

        with pytest.raises(ConfigurationError, match="one of orders, payments"):
            ship.handle(message("u"))


class TestAny:
    def test_every_message_runs_the_service_and_its_event_says_where_it_came_from(self) -> None:
        effects = Effects(ValueError("no"))
        book = trigger(["orders", "payments"], name="b", history=MemoryHistory(), local_parking_file=NO_FILE)(
            effects
        )

        failed = book.handle(sent("p", "payments", None))
        fine = book.handle(sent("o", "orders", None))

        assert failed.event is not None
        assert (failed.event.destination, failed.event.destination_index) == ("payments", 1)
        assert fine.executed
        assert effects.runs == ["p", "o"]
