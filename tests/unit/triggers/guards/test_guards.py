"""A guard runs a function once for each uuid, and treats its result as a trigger treats its service's."""

import asyncio
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest

from history import MemoryHistory, ParkedKind
from history.bridge import drive
from triggers import ConfigurationError, Delivery, Message, Retry, Status, TransientError
from triggers.guards import Guard, Turn, protect, running
from triggers.guards.host import CUT, GivenUpError, called_with
from triggers.service.outcome import Outcome


class HangingHistory(MemoryHistory):
    async def claim(self, *_asked: Any, **_options: Any) -> Any:
        await asyncio.Event().wait()


@pytest.fixture
def store() -> MemoryHistory:
    return MemoryHistory()


@pytest.fixture
def guard(store: MemoryHistory) -> Guard:
    return protect("charge", history=store)


def fail(error: BaseException) -> Any:
    raise error


class TestHandle:
    """Blocking and under asyncio, the outcome is the same as a trigger's."""

    def test_a_uuid_runs_once(self, guard: Guard) -> None:
        calls: list[str] = []

        def charge() -> int:
            calls.append("a")
            return 12

        first = guard.handle("order-1", charge)
        again = guard.handle("order-1", lambda: calls.append("b"))
        other = guard.handle("order-2", partial(calls.append, "c"))

        assert (first.status, first.result, first.executed) == (Status.NEW, 12, True)
        assert (again.status, again.executed, again.acknowledge) == (Status.DUPLICATE, False, True)
        assert other.status is Status.NEW
        assert calls == ["a", "c"]

    async def test_a_uuid_runs_once_under_asyncio_whatever_is_called(self, guard: Guard) -> None:
        async def charge() -> str:
            await asyncio.sleep(0)
            return "charged"

        assert (await guard.ahandle("order-1", charge)).result == "charged"
        assert (await guard.ahandle("order-2", lambda: "at once")).result == "at once"
        assert (await guard.ahandle("order-1", charge)).status is Status.DUPLICATE
        assert guard.handle("order-1", lambda: None).status is Status.DUPLICATE

    def test_what_it_raises_is_an_outcome_and_a_parked_message(
        self, guard: Guard, store: MemoryHistory
    ) -> None:
        outcome = guard.handle("order-1", lambda: fail(ValueError("no such card")), body={"card": "1"})

        (parked,) = drive(store.parking.list())
        assert (outcome.kind, str(outcome.error)) == ("failed", "no such card")
        assert parked.message is not None
        assert (parked.kind, parked.uuid, parked.message.body) == (
            ParkedKind.REJECTED,
            "order-1",
            {"card": "1"},
        )

    def test_it_runs_again_in_process_as_retry_says(self, store: MemoryHistory) -> None:
        guard = protect("charge", history=store, retry=Retry(max_attempts=1, interval=timedelta(0)))
        errors: list[Exception] = [TransientError("busy")]

        outcome = guard.handle("order-1", lambda: fail(errors.pop()) if errors else "done")

        assert (outcome.result, outcome.attempts) == ("done", 2)

    def test_guards_in_guards_know_each_their_own_run(self, store: MemoryHistory) -> None:
        outer, inner = protect("outer", history=store), protect("inner", history=store)
        seen: list[tuple[str, str | None]] = []

        def note() -> None:
            seen.append((running().trigger_name, running().uuid))

        def nested() -> None:
            note()
            inner.handle("i", note)
            note()

        outer.handle("o", nested)

        assert seen == [("outer", "o"), ("inner", "i"), ("outer", "o")]


class TestOnce:
    def test_the_body_has_its_turn_once(self, guard: Guard) -> None:
        turns: list[Turn] = []
        for _ in range(2):
            with guard.once("order-1") as turn:
                turns.append(turn)
                assert not turn or turn.delivery == running()

        assert [bool(turn) for turn in turns] == [True, False]
        assert [turn.outcome and turn.outcome.status for turn in turns] == [Status.NEW, Status.DUPLICATE]

    def test_its_outcome_is_there_when_it_has_ended(self, guard: Guard) -> None:
        with guard.once("order-1") as turn:
            assert turn.outcome is None
            turn.result = 7

        assert turn.outcome is not None
        assert (turn.outcome.status, turn.outcome.result, turn.outcome.attempts) == (Status.NEW, 7, 1)

    def test_what_the_body_raises_is_judged_and_raised_again(self, guard: Guard) -> None:
        with pytest.raises(ValueError, match="no such card"), guard.once("order-1") as turn:
            raise ValueError("no such card")

        assert turn.outcome is not None
        assert (turn.outcome.kind, turn.outcome.parked) == ("failed", True)

    def test_a_body_that_ends_the_process_leaves_the_message_to_its_lease(self, guard: Guard) -> None:
        with pytest.raises(KeyboardInterrupt), guard.once("order-1") as turn:
            raise KeyboardInterrupt

        assert turn.outcome is None
        with guard.once("order-1") as again:
            assert not again
        assert again.outcome is not None
        assert not again.outcome.acknowledge

    def test_a_body_that_is_left_early_has_ended_well(self, guard: Guard) -> None:
        def one() -> str:
            with guard.once("order-1"):
                return "left"

        assert one() == "left"
        assert guard.handle("order-1", lambda: None).status is Status.DUPLICATE

    async def test_the_same_under_asyncio(self, guard: Guard) -> None:
        turns: list[Turn] = []
        for uuid in ("order-1", "order-1", "order-2"):
            async with guard.aonce(uuid) as turn:
                turns.append(turn)
                await asyncio.sleep(0)
                turn.result = uuid
        with pytest.raises(ValueError, match="no such card for order-3"):
            async with guard.aonce("order-3") as turn:
                raise ValueError(f"no such card for {running().uuid}")

        outcomes = [turn.outcome for turn in turns]
        assert [outcome and outcome.status for outcome in outcomes] == ["NEW", "DUPLICATE", "NEW"]
        assert turn.outcome is not None
        assert turn.outcome.kind == "failed"

    async def test_a_body_that_ends_with_stop_iteration_has_failed(self, guard: Guard) -> None:
        turns: list[Turn] = []

        async def work() -> None:
            async with guard.aonce("order-1") as turn:
                turns.append(turn)
                next(iter(()))

        with pytest.raises(RuntimeError, match="coroutine raised StopIteration"):
            await work()

        outcome = turns[0].outcome
        assert outcome is not None
        assert (outcome.kind, outcome.parked) == ("failed", True)
        assert isinstance(outcome.error, StopIteration)

    async def test_a_task_that_is_cancelled_in_its_body_leaves_the_message_to_its_lease(
        self, guard: Guard
    ) -> None:
        begun = asyncio.Event()

        async def work() -> None:
            async with guard.aonce("order-1"):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        async with guard.aonce("order-1") as turn:
            assert not turn
        assert turn.outcome is not None
        assert not turn.outcome.acknowledge

    async def test_a_task_that_is_cancelled_while_it_claims_holds_nothing(self) -> None:
        guard = protect("slow", history=HangingHistory())

        async def work() -> None:
            async with guard.aonce("order-1"):
                raise AssertionError("it ran")

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert asyncio.all_tasks() == {asyncio.current_task()}

    @pytest.mark.parametrize("transacted", [False, True])
    def test_a_body_that_ends_in_another_context_has_ended_well(
        self, store: MemoryHistory, *, transacted: bool
    ) -> None:
        guard = protect("dependency", history=store, transacted=transacted)
        block = guard.once("order-1")

        turn = copy_context().run(block.__enter__)
        copy_context().run(block.__exit__, None, None, None)

        assert turn.outcome is not None
        assert (turn.outcome.kind, turn.outcome.parked) == ("ok", False)
        assert guard.handle("order-1", lambda: None).status is Status.DUPLICATE

    async def test_a_body_that_ends_in_another_task_has_ended_well(self, guard: Guard) -> None:
        stack = AsyncExitStack()

        turn = await asyncio.create_task(stack.enter_async_context(guard.aonce("order-1")))
        await asyncio.create_task(stack.aclose())

        assert turn.outcome is not None
        assert (turn.outcome.kind, turn.outcome.parked) == ("ok", False)
        assert (await guard.ahandle("order-1", lambda: None)).status is Status.DUPLICATE

    def test_retries_are_refused_for_a_body(self, store: MemoryHistory) -> None:
        guard = protect("charge", history=store, retry=Retry(max_attempts=2))

        with pytest.raises(ConfigurationError, match="the body of a with statement cannot"), guard.once("o"):
            pass


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: protect("", history=None), "name: must be text"),
        (lambda: protect("x", history=None, concurrency=3), "protect has no such option"),  # type: ignore[call-arg]
        (lambda: protect("x", history=3), "history"),  # type: ignore[arg-type]
        (lambda: protect("x", history=None, lease=30), "lease"),  # type: ignore[arg-type]
        (lambda: protect("x", history=None).handle("u", "no call"), "call: 'no call' cannot be called"),  # type: ignore[arg-type]
        (
            lambda: protect("x", history=None).handle("u", partial(asyncio.sleep, 0)),
            "call: it is a coroutine function; use ahandle",
        ),
        (lambda: protect("x", history=None).handle("u", list, body=object()), "body: must be bytes or JSON"),
        (lambda: protect("x", history=None).handle("u", list, delivery_count=0), "delivery_count: "),
        (running, "no guard runs anything here"),
    ],
)
def test_what_is_wrong_is_named(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as refused:
        wrong()

    assert "test_guards.py" in str(refused.value) or wrong is running


def test_a_guard_is_not_a_decorator(guard: Guard) -> None:
    decorate: Any = guard

    with pytest.raises(ConfigurationError, match=r"guard\.handle\(uuid, ") as caught:
        decorate(print)

    assert caught.value.setting == f"guard {guard.name}"


def test_a_call_that_returns_a_coroutine_fails_with_the_name_of_its_guard(guard: Guard) -> None:
    outcome = guard.handle("order-1", lambda: asyncio.sleep(0))

    assert str(outcome.error).startswith("service charge returned a coroutine to await")


def test_a_run_knows_its_delivery(guard: Guard) -> None:
    seen: list[Delivery] = []

    guard.handle("order-1", lambda: seen.append(running()), delivery_count=3)

    assert (seen[0].uuid, seen[0].trigger_name, seen[0].delivery_count) == ("order-1", "charge", 3)
    assert seen[0].fence is not None


def test_a_task_that_is_given_up_names_the_error_behind_it() -> None:
    failure = LookupError("no such order")
    outcome = Outcome(None, executed=False, acknowledge=True, reason="it failed", row=18, error=failure)

    assert GivenUpError.of("charge", outcome).__cause__ is failure


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("the session of this object is closed")


class Closed(UserDict[str, int]):
    """A mapping that cannot be read any more, such as a closed ``shelve``."""

    def __iter__(self) -> Iterator[str]:
        raise ValueError("invalid operation on closed shelf")


class Markup(str):
    __slots__ = ()


class Amount(int):
    pass


def nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "argument",
    [
        nested(250),
        nested(5000),
        {"a": Unshown()},
        10**5000,
        {10**5000: 1},
        {Unshown(): 1},
        {"a": Closed(a=1)},
        {"a": Markup("\ud800")},
        {"a": Amount(10**5000)},
    ],
    ids=["deep", "too deep to show", "not shown", "long", "key", "bad key", "closed", "text", "number"],
)
def test_a_call_with_an_argument_that_cannot_be_kept_is_still_a_message(argument: Any) -> None:
    body: Any = called_with("task", "book", ["o-1", argument], {"argument": argument})

    assert Message.from_json(Message(uuid="o-1", body=body).to_json()).body == body
    assert "o-1" in body["args"][0]
    assert type(body["kwargs"]["argument"]) in {str, dict}
    assert CUT in body


def test_a_value_of_a_subclass_is_kept_as_a_value_of_the_class_itself() -> None:
    body = called_with("task", "book", [Markup("<b>"), Amount(3), HTTPStatus.OK], {})

    assert [(type(value), value) for value in body["args"]] == [(str, "<b>"), (int, 3), (int, 200)]
