"""Messages of a service that fails, or that ends its process."""

from typing import Any

import pytest
from pydantic import BaseModel

from history import EntryOutcome, MemoryHistory, ParkedKind, State
from tests.unit.helpers.in_memory import (
    AT_ONCE,
    Effects,
    made,
    message,
    parked_of,
    resolving,
    started_by_another,
    state_of,
)
from triggers import BodyInvalidError, BodyTooLargeError, ConfigurationError, Delivery, Retry, Status
from triggers.events import Cause


class TestFailures:
    def test_a_fatal_one_is_completed_as_failed_parked_and_told(self) -> None:
        failure = ValueError("no such customer")
        book = made(Effects(failure))

        outcome = book.handle(message(body=b'{"a": 1}', delivery_count=2))
        copy = book.handle(message())

        assert outcome.error is failure
        assert (outcome.status, outcome.executed, outcome.acknowledge) == (Status.NEW, True, True)
        assert outcome.parked
        assert not outcome.rejected
        assert outcome.event is not None
        assert outcome.event.cause is Cause.SERVICE_FAILED
        assert outcome.event.exception_class == "builtins.ValueError"
        assert outcome.event.exception_message == "no such customer"
        assert (outcome.event.destination, outcome.event.delivery_count) == ("orders", 2)
        (parked,) = parked_of(book)
        assert parked.kind is ParkedKind.REJECTED
        assert parked.message == message(body=b'{"a": 1}', delivery_count=2)
        assert (parked.error_class, parked.error_message) == ("builtins.ValueError", "no such customer")
        assert state_of(book) is EntryOutcome.FAILED
        assert copy.status is Status.DUPLICATE
        assert copy.row == 24

    def test_a_body_that_is_too_large_is_refused_unseen_and_parked_whole(self) -> None:
        effects = Effects()
        book = made(effects, max_body_size=10)

        fits = book.handle(message("small", b"x" * 10))
        outcome = book.handle(message("large", b"x" * 11))

        assert fits.error is None
        assert isinstance(outcome.error, BodyTooLargeError)
        assert "11 bytes are more than max_body_size=10" in str(outcome.error)
        assert effects.runs == ["small"]
        assert [parked.message for parked in parked_of(book)] == [message("large", b"x" * 11)]

    @pytest.mark.parametrize("body", [b"\xff\xfe", b"caf\xe9", "\ud800", {"a": "\ud800"}, b"", b"{", b"[]"])
    def test_a_body_that_is_not_what_the_service_takes_is_fatal_and_parked_whole(self, body: Any) -> None:
        class Order(BaseModel):
            id: str

        def service(order: Order) -> None:
            raise AssertionError("it must not run")

        service.__annotations__["order"] = Order
        book = made(service, retry=Retry(max_attempts=3))

        outcome = book.handle(message(body=body))

        assert isinstance(outcome.error, BodyInvalidError)
        assert outcome.acknowledge
        assert [parked.message for parked in parked_of(book)] == [message(body=body)]

    def test_what_cannot_be_parked_is_not_acknowledged_and_stays_started(self) -> None:
        book = made(Effects(ValueError()), history=MemoryHistory(), parking="redis://127.0.0.1:1/0")

        outcome = book.handle(message())

        assert (outcome.acknowledge, outcome.parked) == (False, False)
        assert outcome.recover_after == 5.0
        assert state_of(book) is State.STARTED


def test_an_error_about_the_url_for_parked_messages_names_the_option() -> None:
    book = made(Effects(), history=MemoryHistory(), parking="memory://h?nope=1")

    with pytest.raises(ConfigurationError) as refused:
        book.handle(message())

    assert refused.value.setting == "parking"


class TestProcessDeath:
    @pytest.mark.parametrize("batch", [1, 2])
    def test_the_log_names_the_message_whose_service_ended_the_process(
        self, batch: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        def leave(bodies: list[bytes]) -> None:
            raise SystemExit(0)

        service = leave if batch > 1 else Effects(SystemExit(0))

        with pytest.raises(SystemExit):
            made(service, batch=batch).handle(message())

        (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "u-1: SystemExit: 0 ended its service and ends this process" in line.getMessage()

    @pytest.mark.parametrize("interruption", [SystemExit(1), KeyboardInterrupt()])
    def test_what_had_ended_in_a_batch_is_settled_before_it_dies(self, interruption: BaseException) -> None:
        effects = Effects()

        def service(body: bytes, delivery: Delivery) -> None:
            effects.runs.append(delivery.uuid)
            if body == b"exit":
                raise interruption
            if body == b"bad":
                raise ValueError

        book = made(service)

        with pytest.raises(type(interruption)) as caught:
            book.handle_batch(
                [message("good"), message("bad", b"bad"), message("dies", b"exit"), message("waits")]
            )

        assert caught.value is interruption
        assert [state_of(book, uuid) for uuid in ("good", "bad", "dies")] == [
            EntryOutcome.OK,
            EntryOutcome.FAILED,
            State.STARTED,
        ]
        assert [parked.uuid for parked in parked_of(book)] == ["bad"]
        again = [book.handle(message(uuid)).status for uuid in ("good", "bad", "waits")]
        assert again == [Status.DUPLICATE, Status.DUPLICATE, Status.NEW]
        assert effects.runs == ["good", "bad", "dies", "waits"]

    def test_so_are_the_earlier_calls_of_a_batch_service(self) -> None:
        def service(bodies: list[bytes]) -> None:
            if b"exit" in bodies:
                raise SystemExit(1)

        book = made(service, batch=2)
        uuids = ("u-1", "u-2", "u-3")

        with pytest.raises(SystemExit):
            book.handle_batch([message("u-1"), message("u-2"), message("u-3", b"exit")])

        assert [state_of(book, uuid) for uuid in uuids] == [EntryOutcome.OK, EntryOutcome.OK, State.STARTED]


class TestStopIteration:
    """In a coroutine, Python turns it into a RuntimeError (PEP 479); our own coroutines must not do that."""

    async def test_it_arrives_as_the_services_own_under_asyncio_too(self) -> None:
        stopped = StopIteration("no more rows")

        async def service(body: bytes) -> None:
            raise stopped

        book = made(Effects(stopped))
        outcomes = [book.handle(message())]
        outcomes += [await made(other).ahandle(message()) for other in (service, Effects(stopped))]

        assert [outcome.error for outcome in outcomes] == [stopped] * 3
        assert outcomes[0].event is not None
        assert outcomes[0].event.exception_class == "builtins.StopIteration"
        assert [one.error_class for one in parked_of(book)] == ["builtins.StopIteration"]

    def test_it_is_tried_again_where_it_is_transient(self) -> None:
        effects = Effects(StopIteration(), StopIteration())
        book = made(effects, retry=Retry(max_attempts=2, interval=AT_ONCE), transient=(StopIteration,))

        assert book.handle(message()).error is None
        assert effects.attempts == [1, 2, 3]

    def test_one_for_all_messages_of_a_batch_is_theirs(self) -> None:
        stopped = StopIteration()

        def service(bodies: list[bytes]) -> None:
            raise stopped

        book = made(service, batch=2)

        assert [one.error for one in book.handle_batch([message("a"), message("b")])] == [stopped, stopped]

    def test_of_a_resolver_it_is_the_resolvers_own(self) -> None:
        stopped = StopIteration()
        book = made(Effects(), resolver=resolving(stopped))
        started_by_another(book)

        outcome = book.handle(message())

        assert (outcome.row, outcome.error) == (18, stopped)

    def test_a_runtime_error_of_the_services_own_stays_one(self) -> None:
        error = RuntimeError("coroutine raised StopIteration, it says")
        error.__cause__ = StopIteration()

        assert made(Effects(error)).handle(message()).error is error
