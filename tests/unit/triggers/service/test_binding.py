"""How the parameters of a service are filled, and which services and bodies are refused."""

import contextlib
import functools
import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, NewType, Optional

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from sqlalchemy import Connection

from history import ConfigurationError, Message, Uuid
from triggers import BodyInvalidError, Delivery, FatalError
from triggers.service.binding import Binding

DELIVERY = Delivery(uuid="u-1", fence=7, attempt=2, trigger_name="book", delivery_count=3)


class Order(BaseModel):
    id: str
    amount: float = 0.0


ORDER = Order(id="o-1", amount=2.5)
AS_JSON = '{"id": "o-1", "amount": 2.5}'


def call(service: Callable[..., object], body: bytes | str | JsonValue) -> object:
    positional, named = Binding(service).arguments(Message(body=body, uuid=Uuid("u-1")), DELIVERY)
    return service(*positional, **named)


def given(*arguments: object) -> tuple[object, ...]:
    return arguments


def of_one(service: Callable[[Any], object]) -> Callable[..., object]:
    return service


def of_three(service: Callable[[Any, Any, Any], object]) -> Callable[..., object]:
    return service


class TestBodies:
    @pytest.mark.parametrize("body", [AS_JSON, AS_JSON.encode(), {"id": "o-1", "amount": 2.5}])
    def test_a_model_is_read_from_text_bytes_and_json_values(self, body: Any) -> None:
        def service(order: Order) -> Order:
            return order

        assert call(service, body) == ORDER

    @pytest.mark.parametrize(
        ("hint", "body", "expected"),
        [
            (dict[str, int], '{"a": 1}', {"a": 1}),
            (list[Order], f"[{AS_JSON}]", [ORDER]),
            (int, b"5", 5),
            (int, 5, 5),
            (datetime | None, "null", None),
            (Annotated[int, Field(gt=4)], "5", 5),
            (Any, b"{}", b"{}"),
            (object, {"a": 1}, {"a": 1}),
            (bytes, b"\xff", b"\xff"),
            (bytes, "ä", b"\xc3\xa4"),
            (str, b"\xc3\xa4", "ä"),
            (str, "plain, no JSON", "plain, no JSON"),
            (bytes, {"naïve": [1, None]}, '{"naïve":[1,null]}'.encode()),
            (str, {"naïve": [1, None]}, '{"naïve":[1,null]}'),
            (bytes, ["\ud800"], b'["\\ud800"]'),
            (bytes, None, b"null"),
            (str, 1.5, "1.5"),
            (Annotated[bytes, Field(max_length=9)], [1, 2], b"[1,2]"),
            (Annotated[str, Field(max_length=9)], "no JSON", "no JSON"),
            (NewType("Raw", bytes), {"a": 1}, b'{"a":1}'),
        ],
    )
    def test_any_type_that_pydantic_knows_will_do(self, hint: Any, body: Any, expected: object) -> None:
        def service(body: object) -> object:
            return body

        service.__annotations__["body"] = hint

        assert call(service, body) == expected

    def test_a_parameter_without_annotation_gets_the_body_as_it_is(self) -> None:
        assert call(of_one(lambda body: body), b"{}") == b"{}"

    @pytest.mark.parametrize(
        ("hint", "body", "problem"),
        [
            (Order, b'{"amount": 1}', "id: Field required"),
            (Order, "no JSON", "Invalid JSON"),
            (Order, b"\xff\xfe", "Invalid JSON|unicode"),
            (Order, "\ud800", "unicode"),
            (Order, b"", "Invalid JSON"),
            (Order, None, "body: Input should be a valid dictionary or instance of Order"),
            (Order, '{"id": "o", "amount": "much"}', "amount: Input should be a valid number"),
            (str, b"caf\xe9", "not UTF-8: .*position 3"),
            (bytes, "\ud800", "not UTF-8: .*position 0"),
            (Annotated[bytes, Field(max_length=3)], {"a": 1}, "at most 3 bytes"),
            (Annotated[str, Field(max_length=3)], "long", "at most 3 characters"),
            (Annotated[int, Field(gt=4)], "4", "greater than 4"),
            (int, "[" * 100_000, "recursion limit|Invalid JSON"),
        ],
    )
    def test_a_body_that_does_not_fit_is_fatal_and_the_error_says_where(
        self, hint: Any, body: Any, problem: str
    ) -> None:
        def service(content: object) -> None:
            raise AssertionError("it must not run")

        service.__annotations__["content"] = hint

        with pytest.raises(BodyInvalidError, match=f"parameter 'content': .*({problem})") as caught:
            call(service, body)
        assert isinstance(caught.value, FatalError)

    def test_an_error_repeats_nothing_that_may_be_personal_and_names_ten_fields_at_most(self) -> None:
        def service(orders: list[Order]) -> None:
            """Take orders."""

        def error_of(body: Any) -> str:
            with pytest.raises(BodyInvalidError) as caught:
                call(service, body)
            return str(caught.value)

        assert "4111" not in error_of([{"id": "o-1", "amount": "4111 1111 1111 1111"}])
        assert error_of([{} for _ in range(50)]).count("Field required") == 10

    def test_a_model_may_be_as_strict_as_it_likes_with_text(self) -> None:
        class Strict(BaseModel):
            model_config = ConfigDict(strict=True)
            when: datetime

        def service(body: Strict) -> int:
            return body.when.year

        service.__annotations__["body"] = Strict

        assert call(service, '{"when": "2024-05-01T12:00:00Z"}') == 2024


class TestPlaces:
    def test_message_delivery_and_body_are_told_apart_by_annotation_in_any_order(self) -> None:
        def service(context: Delivery, what: Message, order: Order) -> object:
            return given(context, what.uuid, order)

        assert call(service, AS_JSON) == (DELIVERY, "u-1", ORDER)

    def test_without_annotations_the_names_message_and_delivery_do_it(self) -> None:
        service = of_three(lambda delivery, body, message: given(delivery, body, message.uuid))

        assert call(service, "b") == (DELIVERY, "b", "u-1")

    def test_keyword_only_and_positional_only_parameters_are_filled(self) -> None:
        def service(order: Order, /, *, context: Delivery, message: Message) -> object:
            return given(order, context.fence, message.uuid)

        assert call(service, AS_JSON) == (ORDER, 7, "u-1")

    def test_what_may_be_none_or_is_annotated_besides_is_still_what_it_asks_for(self) -> None:
        def service(
            order: Order | None = None,
            what: Annotated[Message, "all of it"] | None = None,
            context: Optional[Delivery] = None,  # noqa: UP045  (as users write it)
        ) -> object:
            return given(order, what, context)

        def transacted(order: Order, line: Connection | None = None) -> object:
            return given(order, line)

        assert call(service, AS_JSON) == (None, Message(body=AS_JSON, uuid=Uuid("u-1")), DELIVERY)
        assert Binding(transacted).resources == {"Connection": False}

    def test_a_message_that_is_returned_takes_no_body_from_a_parameter(self) -> None:
        def service(order: Order | None = None) -> Message:
            return Message(body=repr(order))

        assert call(service, AS_JSON) == Message(body=repr(ORDER))

    def test_a_default_stands_once_the_body_has_found_its_place(self) -> None:
        def service(order: Order, limit: int = 10, *, unit: str = "EUR") -> object:
            return given(order, limit, unit)

        assert call(service, AS_JSON) == (ORDER, 10, "EUR")

    def test_a_default_in_the_middle_does_not_move_what_comes_after_it(self) -> None:
        def service(order: Order, limit: int = 10, message: Message = Message(body="")) -> object:  # noqa: B008
            return given(order, limit, message.uuid)

        assert call(service, AS_JSON) == (ORDER, 10, "u-1")

    def test_a_service_may_take_nothing_and_rest_parameters_stay_empty(self) -> None:
        assert call(lambda: "ran", b"") == "ran"
        assert call(lambda *rest, **more: given(rest, more), b"") == ((), {})

    def test_two_parameters_for_the_body_are_refused(self) -> None:
        def service(order: Order, also: Order) -> None:
            """Take two."""

        with pytest.raises(
            ConfigurationError, match="'order' and 'also' both ask for the body; annotate one"
        ):
            Binding(service)

    def test_an_annotation_that_is_nothing_for_a_body_is_refused(self) -> None:
        class Opaque:
            pass

        def service(body: Opaque) -> None:
            """Take something."""

        service.__annotations__["body"] = Opaque

        with pytest.raises(ConfigurationError, match="parameter 'body': pydantic cannot validate a body as"):
            Binding(service)

    def test_a_model_that_is_not_whole_yet_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"parameter 'parcel': .* is not fully defined"):
            Binding(ship)

    @pytest.mark.parametrize(
        ("annotation", "problem"),
        [
            ("Nowhere", "'Nowhere' is not defined"),
            ("functools.Nowhere", "no attribute 'Nowhere'"),
            ("Order |", "Forward reference"),
            ("5 | 'x'", "unsupported operand"),
        ],
    )
    def test_an_annotation_that_cannot_be_read_is_refused(self, annotation: str, problem: str) -> None:
        def service(body: object) -> None:
            """Take something."""

        service.__annotations__["body"] = annotation

        with pytest.raises(
            ConfigurationError, match=f"service .*service: an annotation cannot be read: .*{problem}"
        ):
            Binding(service)

    def test_that_of_the_result_need_not_be_readable(self) -> None:
        def service(order: Order) -> object:
            return order

        service.__annotations__["return"] = "OnlyForTheTypeChecker"

        assert call(service, AS_JSON) == ORDER

    def test_annotations_may_name_what_is_local_to_the_caller(self) -> None:
        class Local(BaseModel):
            id: str

        def service(body: object) -> object:
            return body

        service.__annotations__["body"] = "Local"
        binding = Binding(service, {"Local": Local})

        assert binding.arguments(Message(body={"id": "1"}), DELIVERY) == ([Local(id="1")], {})


class Parcel(BaseModel):
    lines: "list[DefinedLater]"  # type: ignore[name-defined]  # noqa: F821


def ship(parcel: Parcel) -> None: ...


class Booking:
    """Services that are not plain functions."""

    def book(self, order: Order, message: Message) -> object:
        return given(order, message.uuid)

    def __call__(self, order: Order, delivery: Delivery) -> object:
        return given(order, delivery.fence)

    def refund(self, message: Message) -> object:
        return given(self, message)


class AsyncBooking:
    async def __call__(self, order: Order) -> object:
        return given(order)


class Wrapped:
    """A decorator that is a class, as many are."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)


class TestKindsOfServices:
    def test_a_method_and_a_callable_object_are_services(self) -> None:
        assert call(Booking().book, AS_JSON) == (ORDER, "u-1")
        assert call(Booking(), AS_JSON) == (ORDER, 7)

    def test_a_partial_keeps_the_annotations_of_its_function(self) -> None:
        def service(shop: str, order: Order) -> object:
            return given(shop, order)

        assert call(functools.partial(service, "rome"), AS_JSON) == ("rome", ORDER)

    def test_a_decorated_function_keeps_its_own(self) -> None:
        def service(order: Order) -> object:
            return given(order)

        @functools.wraps(service)
        def wrapped(*arguments: Any) -> object:
            return service(*arguments)

        assert call(wrapped, AS_JSON) == (ORDER,)

    def test_one_that_was_made_keeps_the_annotations_that_were_read(self) -> None:
        def service(order: Order) -> object:
            return given(order)

        def made(*arguments: Any) -> object:
            return service(*arguments)

        elsewhere = inspect.Parameter("order", inspect.Parameter.POSITIONAL_ONLY, annotation="Elsewhere")
        vars(made)["__signature__"] = inspect.Signature([elsewhere])
        made.__annotations__ = {"order": Order}

        assert call(made, AS_JSON) == (ORDER,)

    def test_one_that_an_object_is_around_keeps_its_own(self) -> None:
        @Wrapped
        def service(order: Order) -> object:
            return given(order)

        assert call(service, AS_JSON) == (ORDER,)

    @pytest.mark.parametrize(
        ("service", "problem"),
        [
            (Booking.refund, "it is a method, and @trigger has no object to give it as"),
            (Booking, "it is a class: calling it makes an object"),
        ],
        ids=["method", "class"],
    )
    def test_a_method_without_its_object_and_a_class_are_refused(self, service: Any, problem: str) -> None:
        with pytest.raises(ConfigurationError, match=problem):
            Binding(service)

    def test_what_a_decorator_has_made_without_saying_of_what_is_refused(self) -> None:
        def wrapper(*args: object, **kwargs: object) -> object:
            return given(args, kwargs)

        with pytest.raises(ConfigurationError, match=r"only \*args and \*\*kwargs.*functools.wraps"):
            Binding(wrapper)

    @pytest.mark.parametrize("sign", ["*", "**"])
    def test_parameters_that_get_nothing_are_refused(self, sign: str) -> None:
        names: dict[str, Any] = {}
        exec(f"def service({sign}order): ...", names)  # noqa: S102  (our own text)

        with pytest.raises(ConfigurationError) as refused:
            Binding(names["service"])

        assert f"{sign}order" in refused.value.problem

    def test_what_makes_a_coroutine_is_known_as_asynchronous(self) -> None:
        async def service(order: Order) -> None:
            """Take an order."""

        assert Binding(service).is_async
        assert Binding(functools.partial(service)).is_async
        assert Binding(AsyncBooking()).is_async
        assert Binding(functools.partial(AsyncBooking())).is_async
        assert not Binding(Booking()).is_async

    def test_a_generator_is_refused_for_calling_it_runs_nothing(self) -> None:
        def service(order: Order) -> Any:
            yield order

        async def asynchronous(order: Order) -> Any:
            yield order

        for generator in (service, asynchronous):
            with pytest.raises(
                ConfigurationError, match="it is a generator function: calling it runs nothing"
            ):
                Binding(generator)

    @pytest.mark.parametrize("decorator", [contextlib.contextmanager, Wrapped])
    def test_a_generator_that_a_decorator_leaves_to_run_is_a_fatal_failure(self, decorator: Any) -> None:
        def service(order: Order) -> Any:
            yield order

        binding = Binding(decorator(service))
        positional, _ = binding.arguments(Message(body=AS_JSON), DELIVERY)

        with pytest.raises(FatalError, match="nothing of it has run; take the yield out of it"):
            binding.service(*positional)

    def test_one_that_a_decorator_runs_is_a_service(self) -> None:
        def service(order: Order) -> Any:
            yield order

        @functools.wraps(service)
        def run(order: Order) -> object:
            return list(service(order))

        binding = Binding(run)
        positional, _ = binding.arguments(Message(body=AS_JSON), DELIVERY)

        assert binding.service(*positional) == [ORDER]


class TestDefaults:
    def test_a_parameter_with_a_default_keeps_it_beside_the_message_and_else_is_the_body(self) -> None:
        def service(message: Message, limit: int = 10) -> None: ...

        def alone(limit: int = 10) -> None: ...

        message = Message(body=3, uuid=Uuid("u-1"))

        assert Binding(service).arguments(message, DELIVERY)[0] == [message, 10]
        assert Binding(alone).arguments(message, DELIVERY)[0] == [3]


class TestBatches:
    def test_each_parameter_is_a_list_but_for_what_all_messages_share(self) -> None:
        def service(
            bodies: list[int], messages: list[Message], deliveries: list[Delivery], limit: int = 10
        ) -> None: ...

        binding = Binding(service, batch=True)
        messages = [Message(body=number, uuid=Uuid(str(number))) for number in (1, 2)]
        rows = [binding.arguments(message, DELIVERY) for message in messages]

        assert binding.together(rows) == ([[1, 2], messages, [DELIVERY, DELIVERY], 10], {})

    def test_a_parameter_that_is_no_list_is_refused(self) -> None:
        def service(body: int) -> None: ...

        with pytest.raises(ConfigurationError, match=r"list\[int\]"):
            Binding(service, batch=True)
