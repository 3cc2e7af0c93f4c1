"""The order of steps, the reports of a failure, and the answers to deliveries."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from history import ParkedKind, State
from history.bridge import drive
from tests.fixtures.waiting import PATIENCE
from tests.unit.helpers.in_memory import (
    AT_ONCE,
    NAME,
    Effects,
    made,
    message,
    parked_of,
    started_by_another,
    state_of,
)
from triggers import TransientError
from triggers.events import Cause, RetrievalFailureEvent, on_retrieval_failure
from triggers.pipeline.pipeline import Step
from triggers.providers import Arrival, Received, Receiver, Unreadable
from triggers.providers.memory import MemoryProvider
from triggers.providers.provider import LAST_CALLS

#: Long enough to receive the waiting messages, and no longer.
NOT_LONG = timedelta(0)


class TestSteps:
    def test_each_has_a_number_of_its_own_and_none_is_left_out(self) -> None:
        assert [step.value for step in Step] == list(range(1, 9))

    @pytest.mark.parametrize(
        ("failures", "settings", "steps"),
        [
            ([], {}, [Step.CLAIMED, Step.DECIDED, Step.RUN, Step.COMPLETED]),
            (
                [ValueError()],
                {},
                [Step.CLAIMED, Step.DECIDED, Step.RUN, Step.PUBLISHED, Step.PARKED, Step.COMPLETED],
            ),
            ([ValueError()], {"transacted": True}, [Step.CLAIMED, Step.DECIDED, Step.RUN, Step.COMPLETED]),
        ],
    )
    def test_what_a_process_may_die_between_comes_in_the_order_of_its_numbers(
        self, failures: list[Exception], settings: dict[str, Any], steps: list[Step]
    ) -> None:
        reached: list[Step] = []
        book = made(Effects(*failures), **settings)

        drive(book.pipeline(reached.append).handle(message()))

        assert reached == steps == sorted(steps)

    def test_a_batch_completes_its_successes_before_anything_of_its_failures(self) -> None:
        reached: list[Step] = []
        book = made(Effects(ValueError()))

        drive(book.pipeline(reached.append).handle_batch([message("bad"), message("good")]))

        after = reached[reached.index(Step.COMPLETED) :]
        assert after == [Step.COMPLETED, Step.PUBLISHED, Step.PARKED, Step.COMPLETED]


class TestEvents:
    def test_an_asynchronous_handler_hears_of_a_blocking_failure_before_the_entry_is_completed(self) -> None:
        heard: list[tuple[str | None, object]] = []

        async def handler(event: RetrievalFailureEvent) -> None:
            await asyncio.sleep(0)
            heard.append((event.exception_message, state_of(book)))

        subscription = on_retrieval_failure(NAME)(handler)
        book = made(Effects(ValueError("bad")))

        book.handle(message())
        subscription.cancel()

        assert heard == [("bad", State.STARTED)]


class TestDelivering:
    """Each test closes the receiver to see the answers: unanswered messages go to the next receiver."""

    async def test_every_delivery_is_answered_as_its_outcome_says(self) -> None:
        reached: list[Step] = []
        provider = MemoryProvider()
        await provider.send("orders", [message(uuid, uuid) for uuid in ("good", "bad", "later")])
        receiver = await opened(provider)

        def service(body: str) -> None:
            if body == "later":
                raise TransientError
            if body == "bad":
                raise ValueError(body)

        book = made(service, on_retry_failure="suspend")

        outcomes = await book.pipeline(reached.append).deliver(receiver, await receiver.receive(10))
        await receiver.close()
        back = await (await opened(provider)).receive(10, timedelta(seconds=PATIENCE))

        assert [outcome.acknowledge for outcome in outcomes] == [True, True, False]
        assert [body_of(one) for one in back] == ["later"]
        assert [parked.uuid for parked in parked_of(book)] == ["bad"]
        assert (reached[0], reached[-1]) == (Step.RECEIVED, Step.ANSWERED)

    async def test_a_message_that_suspends_its_trigger_comes_back_after_the_last_calls_of_other_workers(
        self,
    ) -> None:
        provider = MemoryProvider()
        await provider.send("orders", [message()])
        receiver = await opened(provider)
        book = made(Effects(TransientError()), on_retry_failure="suspend")

        (outcome,) = await book.pipeline().deliver(receiver, await receiver.receive(10))

        assert outcome.suspend
        assert outcome.recover_after == LAST_CALLS.total_seconds()
        assert list(await receiver.receive(10, NOT_LONG)) == []

    async def test_a_recovered_one_keeps_the_delay_of_its_outcome(self) -> None:
        provider = MemoryProvider()
        await provider.send("orders", [message()])
        receiver = await opened(provider)
        book = made(Effects(), lease=timedelta(minutes=1))
        started_by_another(book, lease=timedelta(minutes=1))

        await book.pipeline().deliver(receiver, await receiver.receive(10))

        assert list(await receiver.receive(10, NOT_LONG)) == []

    async def test_what_is_no_message_is_parked_with_its_bytes_told_and_acknowledged(self) -> None:
        heard: list[RetrievalFailureEvent] = []
        subscription = on_retrieval_failure(NAME)(heard.append)
        provider = MemoryProvider()
        await provider.send("orders", [message()])
        receiver = await opened(provider)
        book = made(Effects())

        outcomes = await book.pipeline().deliver(receiver, unreadable(await receiver.receive(10)))
        await receiver.close()
        subscription.cancel()

        assert list(outcomes) == []
        (parked,) = parked_of(book)
        assert (parked.kind, parked.message) == (ParkedKind.UNREADABLE, None)
        assert parked.raw == {"delivery-count": "0", "body": "base64:/w=="}
        assert parked.reason == "0 is no delivery count"
        assert [(event.cause, event.delivery_count) for event in heard] == [(Cause.UNREADABLE, -1)]
        assert list(await (await opened(provider)).receive(10, NOT_LONG)) == []

    async def test_what_is_no_message_and_cannot_be_parked_is_given_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("triggers.pipeline.pipeline.UNPARKED_DELAY", AT_ONCE)
        provider = MemoryProvider()
        await provider.send("orders", [message()])
        receiver = await opened(provider)
        book = made(Effects(), parking="redis://127.0.0.1:1/0")

        await book.pipeline().deliver(receiver, unreadable(await receiver.receive(10)))

        assert len(await receiver.receive(10, NOT_LONG)) == 1


async def opened(provider: MemoryProvider) -> Receiver:
    return await provider.open_receiver("orders", subscription=NAME, name="one")


def unreadable(received: Sequence[Received]) -> list[Received]:
    """Turn received messages into unreadable deliveries; these must be answered too."""
    fields = {b"delivery-count": b"0", b"body": b"\xff"}
    return [Unreadable(fields, "0 is no delivery count", one.handle) for one in received]


def body_of(received: Received) -> object:
    assert isinstance(received, Arrival)
    return received.message.body
