"""The handling of a message ends with an outcome for every exception that user code can raise."""

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from history import EntryOutcome, MemoryHistory, Message, State
from history.bridge import drive
from history.shell import TaskShell, ThreadShell
from history.support.rendering import LONGEST_TEXT, LONGEST_TRACE
from tests.unit.helpers.given_up import event
from tests.unit.helpers.in_memory import (
    AT_ONCE,
    Effects,
    made,
    message,
    parked_of,
    started_by_another,
    state_of,
)
from tests.unit.triggers.service.hostile_exceptions import MaskedError, hostile_errors, is_storable
from triggers import Retry, Status, TransientError, on_retrieval_failure
from triggers.events import publish

HOSTILE = [pytest.param(place, id=type.__repr__(type(one))) for place, one in enumerate(hostile_errors())]

#: Room for the rest of a reason: the row of the table, the name of the class.
ROOM = 500


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """Turn garbage collection off: deep in a recursion, finalizers of other tests' objects would fail."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def raising(error: BaseException) -> Callable[..., Any]:
    def service(told: Message) -> None:
        raise error

    return service


@pytest.mark.parametrize("place", HOSTILE)
class TestServices:
    def test_a_fatal_failure_is_parked_and_told(self, place: int, caplog: pytest.LogCaptureFixture) -> None:
        error = hostile_errors()[place]
        book = made(raising(error))

        outcome = book.handle(message())

        assert outcome.error is error
        assert (outcome.status, outcome.acknowledge, outcome.parked) == (Status.NEW, True, True)
        assert outcome.event is not None
        assert is_storable(outcome.event.exception_class, ROOM)
        assert is_storable(outcome.event.exception_message, LONGEST_TEXT * 2)
        [parked] = parked_of(book)
        assert is_storable(parked.error_class, ROOM)
        assert is_storable(parked.error_message, LONGEST_TEXT * 2)
        assert is_storable(parked.error_trace, LONGEST_TRACE * 2)
        assert state_of(book) is EntryOutcome.FAILED
        assert len(caplog.text) < 3 * (LONGEST_TEXT + LONGEST_TRACE)

    def test_one_of_a_batch_is_told(self, place: int) -> None:
        error = hostile_errors()[place]

        def service(many: list[Message]) -> None:
            raise error

        outcomes = made(service, batch=3).handle_batch([message(f"u-{n}") for n in range(3)])

        assert [outcome.error is error for outcome in outcomes] == [True] * 3

    async def test_a_function_of_each_kind_may_raise_it_with_a_history_and_without(self, place: int) -> None:
        error = hostile_errors()[place]

        async def service(told: Message) -> None:
            await asyncio.sleep(0)
            raise error

        for each in (service, raising(error)):
            for history in (MemoryHistory(), None):
                assert (await made(each, history=history).ahandle(message())).error is error
        transacted = made(raising(error), transacted=True)
        assert not transacted.handle(message()).acknowledge
        assert state_of(transacted) is EntryOutcome.FAILED

    def test_a_validator_may_raise_it(self, place: int) -> None:
        error = hostile_errors()[place]

        class Order(BaseModel):
            id: str

            @field_validator("id")
            @classmethod
            def checked(cls, _: str) -> str:
                raise error

        def one(body: Order) -> None:
            raise AssertionError("it must not run")

        def many(bodies: list[Order]) -> None:
            raise AssertionError("it must not run")

        assert made(one).handle(message(body={"id": "o"})).error is not None
        assert made(many, batch=2).handle(message(body={"id": "o"})).error is not None

    def test_a_filter_may_raise_it(self, place: int) -> None:
        error = hostile_errors()[place]
        book = made(Effects(), filter=raising(error))

        outcome = book.handle(message())

        assert (outcome.error, outcome.rejected, outcome.parked) == (error, True, True)

    def test_a_resolver_may_raise_it(self, place: int) -> None:
        error = hostile_errors()[place]

        def resolver(uuid: str, trigger_name: str, message: Message) -> str:
            raise error

        book = made(Effects(), resolver=resolver)
        started_by_another(book)

        outcome = book.handle(message())

        assert (outcome.row, outcome.status, outcome.parked) == (18, Status.IN_DOUBT, True)
        assert outcome.error is error

    async def test_a_resolver_under_asyncio_may_raise_it(self, place: int) -> None:
        error = hostile_errors()[place]

        async def resolver(uuid: str, trigger_name: str, message: Message) -> str:
            raise error

        async def service(told: Message) -> None:
            raise AssertionError("it must not run")

        book = made(service, resolver=resolver)
        started_by_another(book)

        assert (await book.ahandle(message())).error is error

    def test_a_handler_may_raise_it(self, place: int) -> None:
        error = hostile_errors()[place]

        def plain(_: object) -> None:
            raise error

        async def waiting(_: object) -> None:
            raise error

        subscriptions = [on_retrieval_failure()(plain), on_retrieval_failure()(waiting)]
        try:
            drive(publish(event("book"), ThreadShell()))
            asyncio.run(publish(event("book"), TaskShell()))
        finally:
            for one in subscriptions:
                one.cancel()


class TestCancellation:
    async def test_a_service_that_raises_it_by_itself_has_failed(self) -> None:
        async def service(told: Message) -> None:
            raise asyncio.CancelledError

        async def waiting(told: Message) -> None:
            task = asyncio.create_task(asyncio.sleep(60))
            task.cancel()
            await task

        for each in (service, waiting, raising(asyncio.CancelledError())):
            book = made(each)
            outcome = await book.ahandle(message())
            assert isinstance(outcome.error, asyncio.CancelledError)
            assert (outcome.acknowledge, outcome.parked) == (True, True)
            assert state_of(book) is EntryOutcome.FAILED

    async def test_a_resolver_that_is_cancelled_with_its_task_ends(self) -> None:
        begun = asyncio.Event()

        async def resolver(uuid: str, trigger_name: str, message: Message) -> str:
            begun.set()
            await asyncio.sleep(60)
            return "NEW"

        async def service(told: Message) -> None:
            raise AssertionError("it must not run")

        book = made(service, resolver=resolver)
        started_by_another(book)
        task = asyncio.create_task(book.ahandle(message()))
        await begun.wait()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

    @pytest.mark.parametrize(
        "error",
        [
            KeyboardInterrupt(),
            SystemExit(3),
            GeneratorExit(),
            BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()]),
            BaseExceptionGroup("", [BaseExceptionGroup("", [SystemExit()]), asyncio.CancelledError()]),
        ],
    )
    def test_what_ends_a_process_is_let_through(self, error: BaseException) -> None:
        book = made(raising(error))

        with pytest.raises(type(error)) as caught:
            book.handle(message())
        assert caught.value is error
        assert state_of(book) is State.STARTED


class TestGroups:
    @pytest.mark.parametrize(
        ("group", "transient"),
        [
            (ExceptionGroup("", [TransientError(), TimeoutError()]), True),
            (ExceptionGroup("", [ExceptionGroup("", [ConnectionError()]), TimeoutError()]), True),
            (ExceptionGroup("", [TransientError(), ValueError()]), False),
            (ExceptionGroup("", [ExceptionGroup("", [ValueError()]), TimeoutError()]), False),
            (BaseExceptionGroup("", [TransientError(), asyncio.CancelledError()]), False),
        ],
    )
    def test_a_group_is_transient_where_all_of_it_is(self, group: BaseException, *, transient: bool) -> None:
        effects = Effects(group)
        book = made(effects, retry=Retry(max_attempts=1, interval=AT_ONCE))

        outcome = book.handle(message())

        assert effects.attempts == ([1, 2] if transient else [1])
        assert (outcome.error is None) is transient

    def test_a_group_that_is_listed_is_transient_whatever_it_holds(self) -> None:
        effects = Effects(ExceptionGroup("", [ValueError()]))
        book = made(effects, retry=Retry(max_attempts=1, interval=AT_ONCE), transient=(ExceptionGroup,))

        assert book.handle(message()).error is None


class TestTracebacks:
    def test_the_traceback_of_a_failed_service_is_logged_and_kept(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        prices: dict[str, int] = {}

        def service(told: Message) -> int:
            return prices["no such key"]

        book = made(service)

        book.handle(message())

        [parked] = parked_of(book)
        assert parked.error_trace is not None
        assert parked.error_trace.startswith("Traceback (most recent call last):\n")
        assert parked.error_trace.endswith("KeyError: 'no such key'\n")
        assert 'return prices["no such key"]' in parked.error_trace
        assert parked.error_trace.count("  File ") == 1, "our own frames do not help the user"
        assert 'return prices["no such key"]' in caplog.text
        assert len([one for one in caplog.records if one.exc_info]) == 1, "told once"

    def test_the_traceback_of_a_repeated_run_begins_in_the_service(self) -> None:
        def service(told: Message) -> None:
            raise TransientError("away")

        book = made(service, retry=Retry(max_attempts=1, interval=AT_ONCE))

        book.handle(message())

        [parked] = parked_of(book)
        assert parked.error_trace is not None
        assert parked.error_trace.count("  File ") == 1

    def test_what_failed_before_the_service_has_none(self, caplog: pytest.LogCaptureFixture) -> None:
        class Order(BaseModel):
            id: str

        def service(body: Order) -> None:
            raise AssertionError("it must not run")

        book = made(service)
        book.handle(message(body={"secret": "of a customer"}))

        assert parked_of(book)[0].error_trace is None
        assert "of a customer" not in caplog.text

    def test_a_message_that_is_given_back_again_and_again_has_it_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        book = made(Effects(*[TransientError("not now")] * 3), transacted=True)

        for count in (1, 2, 3):
            book.handle(message(delivery_count=count))

        assert [one.exc_info is not None for one in caplog.records] == [True, False, False]
        assert caplog.text.count("TransientError: not now") == 4

    def test_each_retry_is_a_line(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        book = made(
            Effects(TransientError("one"), TransientError("two"), TransientError("three")),
            retry=Retry(max_attempts=2, interval=AT_ONCE),
        )

        book.handle(message())

        told = [one.getMessage() for one in caplog.records if one.levelno == logging.INFO]
        assert told == [
            "attempt 1 failed (TransientError: one): again in 0.0 s",
            "attempt 2 failed (TransientError: two): again in 0.0 s",
        ]

    def test_a_long_one_keeps_its_beginning_and_its_end(self) -> None:
        def service(told: Message) -> None:
            raise ValueError("begin" + "x" * 100_000 + "end")

        book = made(service)
        book.handle(message())

        trace = parked_of(book)[0].error_trace
        assert trace is not None
        assert len(trace) <= LONGEST_TRACE
        assert trace.startswith("Traceback")
        assert trace.endswith("end\n")
        assert "cut short" in trace

    def test_one_that_cannot_be_told_shows_where_it_was_raised(self) -> None:
        def service(told: Message) -> None:
            raise MaskedError("masked")

        book = made(service)
        book.handle(message())

        assert 'raise MaskedError("masked")' in (parked_of(book)[0].error_trace or "")
