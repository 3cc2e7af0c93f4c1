"""A message is immutable: if user code changes a body, the original body is still parked and reported."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue

from history.bridge import drive
from history.memory import MemoryHistory
from history.message import Message, Uuid
from history.shell import ThreadShell
from history.store.parking import Evidence
from resolvers.bulk import asking_in_bulk
from resolvers.resolution import Resolution
from tests.unit.helpers.in_memory import AT_ONCE, made, message, parked_of, started_by_another, store_of
from triggers import Joined, trigger
from triggers.declaration.decorator import Trigger
from triggers.events import Handler, RetrievalFailureEvent, on_retrieval_failure
from triggers.operations.running import run_parked
from triggers.patchbay.components import bound_to
from triggers.patchbay.context import MessageContext
from triggers.producer.delivery_failure import DeliveryFailureEvent, on_delivery_failure
from triggers.producer.delivery_failure import publish as publish_delivery_failure
from triggers.service.failures import FatalError, Retry, TransientError
from triggers.service.outcome import Outcome

TWICE = Retry(max_attempts=2, interval=AT_ONCE)


def order() -> dict[str, Any]:
    return {"amount": 10, "lines": [{"sku": "a"}]}


def spoil(body: Any) -> None:
    """Change a body, as careless code does."""
    body["amount"] *= 100
    body["lines"][0]["sku"] = "spoiled"
    body["lines"].append("more")


class Holding(BaseModel):
    """A model that pydantic fills with parts of its input."""

    amount: Any
    lines: list[Any]


@dataclass
class Plain:
    amount: int
    lines: list[dict]  # type: ignore[type-arg]


def by_dict(body: dict[str, Any]) -> object:
    return body


def by_any(body: Any) -> object:
    return body


def by_json(body: JsonValue) -> object:
    return body


# Parameters without annotations are filled by their names.
by_name: Callable[[Any], Any] = lambda body: body  # noqa: E731


def by_message(told: Message) -> object:
    return told.body


by_message_name: Callable[[Message], Any] = lambda message: message.body  # noqa: E731


def by_model(body: Holding) -> object:
    return vars(body)


def by_dataclass(body: Plain) -> object:
    return vars(body)


def by_mapping(body: Mapping[str, Any]) -> object:
    return body


WAYS = [by_dict, by_any, by_json, by_name, by_message, by_message_name, by_model, by_dataclass, by_mapping]


class Spoiling:
    """A service that records its body, changes it, and raises the given failures."""

    def __init__(self, way: Callable[..., Any], *failures: Exception) -> None:
        self.seen: list[Any] = []
        self.failures = list(failures)
        self.service = self._like(way)

    def _like(self, way: Callable[..., Any]) -> Callable[..., Any]:
        def service(*args: Any, **kwargs: Any) -> None:
            body = way(*args, **kwargs)
            self.seen.append(copy.deepcopy(dict(body)))
            spoil(body)
            if self.failures:
                raise self.failures.pop(0)

        service.__wrapped__ = way  # type: ignore[attr-defined]
        service.__annotations__ = way.__annotations__
        return service


@pytest.fixture
def events() -> Iterator[list[RetrievalFailureEvent]]:
    """Two handlers: the first changes the body of its event, the second records the event."""
    seen: list[RetrievalFailureEvent] = []

    def spoiling(event: RetrievalFailureEvent) -> None:
        assert event.message is not None
        spoil(event.message.body)

    handlers: list[Handler] = [spoiling, seen.append]
    subscriptions = [on_retrieval_failure()(handler) for handler in handlers]
    yield seen
    for subscription in subscriptions:
        subscription.cancel()


def kept(book: Trigger[..., object], outcome: Outcome, events: list[RetrievalFailureEvent]) -> list[Any]:
    """Return the reported and the parked bodies of a message that was given up."""
    [parked], [heard] = parked_of(book), events
    assert outcome.event is not None
    return [one.message.body for one in (parked, heard, outcome.event) if one.message is not None]


@pytest.mark.parametrize("way", WAYS)
class TestServices:
    def test_each_attempt_and_what_is_kept_have_what_came(
        self, way: Callable[..., Any], events: list[RetrievalFailureEvent]
    ) -> None:
        spoiling = Spoiling(way, *[TransientError()] * 3)
        book = made(spoiling.service, retry=TWICE)
        sent = message(body=order())

        outcome = book.handle(sent)

        assert spoiling.seen == [order()] * 3
        assert kept(book, outcome, events) == [order()] * 3
        assert sent.body == order()

    def test_a_redelivery_has_what_came(self, way: Callable[..., Any]) -> None:
        spoiling = Spoiling(way, TransientError())
        book = made(spoiling.service, transacted=True)
        sent = message(body=order())

        book.handle(sent)
        book.handle(sent)

        assert spoiling.seen == [order()] * 2

    def test_a_batch_service_has_what_came(
        self, way: Callable[..., Any], events: list[RetrievalFailureEvent]
    ) -> None:
        hint = next(iter(way.__annotations__.values()), None)
        if way in {by_name, by_message_name}:
            pytest.skip("a batch service says what its lists hold")
        seen: list[Any] = []

        def service(many: list[Any]) -> None:
            for body in map(way, many):
                seen.append(copy.deepcopy(dict(body)))
                spoil(body)
            raise TransientError

        service.__annotations__["many"] = list[hint]  # type: ignore[valid-type]
        book = made(service, retry=TWICE, batch=2)

        outcomes = book.handle_batch([message(f"u-{n}", body=order()) for n in range(2)])

        assert seen == [order()] * 6
        assert [one.message and one.message.body for one in parked_of(book)] == [order()] * 2
        assert [one.message and one.message.body for one in events] == [order()] * 2
        assert len(outcomes) == 2

    async def test_a_coroutine_function_has_what_came(self, way: Callable[..., Any]) -> None:
        spoiling = Spoiling(way, TransientError(), TransientError())

        async def service(*args: Any, **kwargs: Any) -> None:
            spoiling.service(*args, **kwargs)

        service.__wrapped__ = way  # type: ignore[attr-defined]
        service.__annotations__ = way.__annotations__
        book = made(service, retry=TWICE)

        assert (await book.ahandle(message(body=order()))).error is None
        assert spoiling.seen == [order()] * 3

    def test_a_component_of_a_patch_bay_has_what_came(self, way: Callable[..., Any]) -> None:
        spoiling = Spoiling(way, TransientError())
        context: Any = object.__new__(MessageContext)
        book = made(bound_to(spoiling.service, "in", context), transacted=True)
        sent = message(body=order())

        assert isinstance(book.handle(sent).error, TransientError)
        assert sent.body == order()


def test_a_parked_message_that_runs_again_is_what_came() -> None:
    spoiling = Spoiling(by_dict, FatalError(), FatalError())
    book = made(spoiling.service)
    book.handle(message(body=order()))

    for _ in range(2):
        [parked] = parked_of(book)
        drive(run_parked(book, parked, store_of(book).parking))

    assert spoiling.seen == [order()] * 3


def test_a_resolver_can_change_nothing_but_its_own() -> None:
    asked: list[Any] = []

    def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
        asked.append(copy.deepcopy(message.body))
        spoil(message.body)
        return Resolution.NEW if len(asked) > 1 else Resolution.IN_DOUBT

    spoiling = Spoiling(by_dict)
    book = made(spoiling.service, resolver=resolver)
    started_by_another(book)
    sent = message(body=order())

    book.handle(sent)
    [parked] = parked_of(book)
    book.handle(sent)

    assert parked.message is not None
    assert parked.message.body == order()
    assert asked == [order()] * 2
    assert spoiling.seen == [order()]


def test_a_resolver_of_many_can_change_nothing_but_its_own() -> None:
    def resolver(
        uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]
    ) -> Sequence[Resolution]:
        for one in messages:
            spoil(one.body)
        return [Resolution.NEW for _ in uuids]

    asked = asking_in_bulk(resolver)
    sent = message(body=order())
    assert asked is not None

    drive(asked.ask(["u-1"], "book", [sent], [Evidence()]))

    assert sent.body == order()


def test_a_filter_can_change_nothing_but_its_own() -> None:
    def spoiling_filter(told: Message) -> bool:
        spoil(told.body)
        return told.type == "cancel"

    seen: list[Any] = []

    @trigger("orders", name="book", history=MemoryHistory(), filter=lambda told: not spoiling_filter(told))
    def book(body: dict[str, Any]) -> None:
        seen.append(body)

    @book.route("cancel", filter=spoiling_filter)
    def cancel(body: dict[str, Any]) -> None:
        seen.append(body)

    book.handle(message("u-1", body=order()))
    book.handle(message("u-2", body=order(), type="cancel"))

    assert seen == [order()] * 2


def test_the_messages_of_a_join_are_what_came() -> None:
    seen: list[Any] = []

    def service(joined: Joined) -> None:
        seen.extend(copy.deepcopy(one.body) for one in joined.values())
        for one in joined.values():
            spoil(one.body)
        if len(seen) < 6:
            raise TransientError

    book = trigger(["orders", "payments"], name="book", history=MemoryHistory(), join="all", retry=TWICE)(
        service
    )

    for place in ("orders", "payments"):
        told = {"properties": {"activation": "a"}, "destination": place}
        outcome = book.handle(message(place, body=order(), **told))

    assert outcome.error is None
    assert seen == [order()] * 6


def test_handlers_of_delivery_failures_can_change_nothing_but_their_own() -> None:
    sent = message(body=order())
    event = DeliveryFailureEvent.model_validate(
        {
            "alias": "shop",
            "destination": "orders",
            "number": 1,
            "time": "2024-05-01T00:00:00Z",
            "attempts": 1,
            "exception_class": "ValueError",
            "exception_message": "no",
            "message": sent,
        }
    )
    subscription = on_delivery_failure()(lambda told: spoil(told.message.body))

    drive(publish_delivery_failure(event, ThreadShell()))

    subscription.cancel()
    assert sent.body == order()


class TestWhatCannotBeChangedIsNotCopied:
    @pytest.mark.parametrize("body", [b"{}", "{}", None, 1, 1.5, True])
    def test_a_body_of_bytes_text_or_a_number(self, body: Any) -> None:
        sent = message(body=body)

        assert sent.copied() is sent

    def test_the_body_of_a_model_that_is_made_anew(self) -> None:
        class Order(BaseModel):
            amount: int
            lines: list[dict[str, str]]

        class Watched(dict[str, Any]):
            def __reduce__(self) -> Any:
                raise AssertionError("copied")

        def service(body: Order) -> None:
            spoil(vars(body))

        sent = message().model_copy(update={"body": Watched(order())})

        assert made(service).handle(sent).error is None
        assert sent.body == order()


def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed() -> None:
    sent = Message(body=order(), uuid=Uuid("u-1"), properties={"shop": "rome"})

    spoil(sent.copied().body)

    assert sent.copied() == sent
    assert sent.copied().properties is sent.properties
    assert sent.body == order()
