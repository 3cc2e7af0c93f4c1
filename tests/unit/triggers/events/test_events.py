"""Handlers receive retrieval failure events before the message is acknowledged, and can do no harm."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from history.shell import TaskShell, ThreadShell
from tests.unit.helpers.given_up import event
from triggers.events import Handler, RetrievalFailureEvent, Subscription, on_retrieval_failure, publish

#: Subscribes a handler until the test ends.
Subscribe = Callable[[str, Handler], Subscription]


@pytest.fixture
def subscribe() -> Iterator[Subscribe]:
    subscriptions: list[Subscription] = []

    def subscribing(pattern: str, handler: Handler) -> Subscription:
        subscriptions.append(on_retrieval_failure(pattern)(handler))
        return subscriptions[-1]

    yield subscribing
    for subscription in subscriptions:
        subscription.cancel()


def fail(event: RetrievalFailureEvent) -> None:
    raise LookupError("no mailbox")


def takes_nothing() -> None: ...


def takes_two(_event: object, _more: object) -> None: ...


def tell(trigger: str = "book") -> None:
    drive(publish(event(trigger), ThreadShell()))


class TestSubscriptions:
    @pytest.mark.parametrize(
        ("pattern", "trigger", "heard"),
        [
            ("*", "book", True),
            ("*", "anything at all\n", True),
            ("book", "book", True),
            ("book", "book-order", False),
            ("book", "Book", False),
            ("book*", "book-order", True),
            ("*.book", "shop.orders.book", True),
            ("shop.*.book", "shop.orders.book", True),
            ("shop.book", "shop-book", False),
            ("book[eu]", "book[eu]", True),
            ("book[eu]", "booke", False),
            ("book?", "book?", True),
            ("book?", "books", False),
            ("", "book", False),
        ],
    )
    def test_a_star_stands_for_anything_and_everything_else_for_itself(
        self, subscribe: Subscribe, pattern: str, trigger: str, *, heard: bool
    ) -> None:
        told: list[RetrievalFailureEvent] = []
        subscribe(pattern, told.append)

        tell(trigger)

        assert bool(told) is heard

    def test_it_is_synchronous_unless_told_otherwise(self, subscribe: Subscribe) -> None:
        threads: list[threading.Thread] = []
        subscription = subscribe("*", lambda _: threads.append(threading.current_thread()))

        tell()

        assert subscription.synchronous
        assert threads == [threading.current_thread()]
        assert subscription.flush()
        assert subscription.close()

    def test_all_that_match_hear_of_it_in_the_order_of_their_subscription(self, subscribe: Subscribe) -> None:
        told: list[str] = []
        subscribe("*", lambda _: told.append("first"))
        subscribe("book", lambda _: told.append("second"))

        tell()

        assert told == ["first", "second"]

    def test_a_handler_may_cancel_itself(self, subscribe: Subscribe) -> None:
        told: list[str] = []

        def handler(event: RetrievalFailureEvent) -> None:
            told.append("once")
            once.cancel()

        once = subscribe("*", handler)
        subscribe("*", lambda _: told.append("always"))

        tell()
        tell()

        assert told == ["once", "always", "always"]

    def test_the_handler_itself_can_still_be_called(self, subscribe: Subscribe) -> None:
        told: list[RetrievalFailureEvent] = []
        subscription = subscribe("nobody", told.append)

        subscription(event())

        assert len(told) == 1

    @pytest.mark.parametrize("handler", [5, takes_nothing, takes_two])
    def test_a_handler_that_cannot_take_an_event_is_refused(self, handler: Any) -> None:
        with pytest.raises(ConfigurationError) as refused:
            on_retrieval_failure()(handler)

        assert refused.value.setting == "on_retrieval_failure"

    def test_forgotten_parentheses_are_an_error(self) -> None:
        def handler(event: RetrievalFailureEvent) -> None:
            """Receive the event."""

        with pytest.raises(ConfigurationError, match=r"write @on_retrieval_failure\(\)"):
            on_retrieval_failure(handler)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class TestHandlers:
    def test_one_that_fails_is_logged_and_the_others_are_told(
        self, subscribe: Subscribe, caplog: pytest.LogCaptureFixture
    ) -> None:
        told: list[RetrievalFailureEvent] = []
        subscribe("*", fail)
        subscribe("*", told.append)

        with caplog.at_level(logging.ERROR, "triggers.events"):
            tell()

        assert len(told) == 1
        (record,) = caplog.records
        assert record.exc_info is not None
        assert record.getMessage() == "the retrieval failure handler fail failed: no mailbox"
        assert vars(record)["uuid"] == "u-1"
        assert "\\xff" not in caplog.text

    async def test_it_is_awaited_on_the_running_loop_under_asyncio(
        self, subscribe: Subscribe, caplog: pytest.LogCaptureFixture
    ) -> None:
        loops: list[asyncio.AbstractEventLoop] = []

        async def handler(event: RetrievalFailureEvent) -> None:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())
            raise LookupError("no mailbox")

        subscribe("*", handler)

        await publish(event(), TaskShell())

        assert loops == [asyncio.get_running_loop()]
        assert "no mailbox" in caplog.text

    async def test_blocking_code_on_a_loop_waits_for_the_end_of_an_asynchronous_one(
        self, subscribe: Subscribe, caplog: pytest.LogCaptureFixture
    ) -> None:
        threads: list[threading.Thread] = []

        async def handler(event: RetrievalFailureEvent) -> None:
            await asyncio.sleep(0.001)
            threads.append(threading.current_thread())
            raise LookupError("no mailbox")

        subscribe("*", handler)

        tell()

        assert len(threads) == 1
        assert threads != [threading.current_thread()]
        assert "no mailbox" in caplog.text

    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_a_handler_that_ends_the_process_may(self, subscribe: Subscribe, *, asynchronous: bool) -> None:
        def handler(event: RetrievalFailureEvent) -> None:
            raise SystemExit(3)

        async def async_handler(event: RetrievalFailureEvent) -> None:
            await asyncio.sleep(0)
            raise SystemExit(3)

        subscribe("*", async_handler if asynchronous else handler)

        with pytest.raises(SystemExit):
            tell()
