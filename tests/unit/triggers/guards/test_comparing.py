"""Guards compare bodies or arguments: if a known uuid has another body, it is parked, not lost as a copy."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, cast
from uuid import UUID

import pytest
from pydantic import BaseModel

from history import ConfigurationError, MemoryHistory, Message
from history.bridge import drive
from tests import ROOT
from triggers import FailedBeforeError, Outcome
from triggers.guards import Guard, protect
from triggers.guards.arguments import compared, with_arguments
from triggers.guards.host import TaskGuards


def is_another(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.row == 23 and outcome.parked and not outcome.executed


class TestProtect:
    @pytest.fixture
    def guard(self) -> Iterator[Guard]:
        with closing(protect("charge", history=MemoryHistory(), fingerprint="body")) as guard:
            yield guard

    def test_a_call_with_another_body_is_parked(self, guard: Guard) -> None:
        runs: list[str] = []

        first = guard.handle("order-1", lambda: runs.append("a"), body={"amount": 1})
        copy = guard.handle("order-1", lambda: runs.append("b"), body='{"amount": 1}')
        other = guard.handle("order-1", lambda: runs.append("c"), body={"amount": 2})

        assert (first.executed, copy.kind, runs) == (True, "duplicate", ["a"])
        assert is_another(other)

    async def test_so_it_is_under_asyncio(self, guard: Guard) -> None:
        assert (await guard.ahandle("order-1", lambda: None, body="one")).executed
        assert is_another(await guard.ahandle("order-1", lambda: None, body="two"))
        async with guard.aonce("order-1", body="two") as turn:
            assert not turn
        assert is_another(turn.outcome)
        await guard.aclose()

    def test_so_it_is_in_a_with_statement(self, guard: Guard) -> None:
        with guard.once("order-1", body="one") as first:
            assert first
        with guard.once("order-1", body="two") as other:
            assert not other

        assert is_another(other.outcome)

    def test_a_function_says_what_counts(self) -> None:
        def amount(message: Message) -> Any:
            return cast("Any", message.body)["amount"]

        guard = protect("charge", history=MemoryHistory(), fingerprint=amount)

        assert guard.handle("order-1", lambda: None, body={"amount": 1, "sent": 1}).executed
        assert guard.handle("order-1", lambda: None, body={"amount": 1, "sent": 2}).kind == "duplicate"
        assert is_another(guard.handle("order-1", lambda: None, body={"amount": 2, "sent": 1}))

    def test_it_needs_a_history(self) -> None:
        with pytest.raises(ConfigurationError, match="fingerprint"):
            protect("charge", history=None, fingerprint="body").handle("order-1", lambda: None)


class Colour(StrEnum):
    RED = "red"


class Line(BaseModel):
    price: Decimal


@dataclass
class Place:
    street: str
    numbers: set[int]


def charge(order: str, amount: Any = None, **more: Any) -> None: ...


def compares(history: MemoryHistory) -> Guard:
    options = with_arguments({"fingerprint": "arguments"})
    return TaskGuards("celery", history, options).of("charge")


#: How a test calls its guarded task, as a host would.
Charging = Callable[..., Outcome]


@pytest.fixture
def charging() -> Charging:
    guard = compares(MemoryHistory())

    def called(*args: Any, **kwargs: Any) -> Outcome:
        properties = cast("dict[str, Any]", compared(guard, charge, args, kwargs))
        return guard.handle_message(Message(uuid="order-1", body="", properties=properties), lambda: None)

    return called


class TestArguments:
    def test_other_arguments_are_parked_and_the_same_are_a_copy_however_they_are_given(
        self, charging: Charging
    ) -> None:
        assert charging("order-1", 1).executed
        assert charging("order-1", amount=1).kind == "duplicate"
        assert is_another(charging("order-1", 2))
        assert is_another(charging("order-1", amount=1, currency="EUR"))

    @pytest.mark.parametrize(
        ("first", "other"),
        [
            (Decimal("1.10"), Decimal("1.2")),
            (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
            (UUID(int=1), UUID(int=2)),
            (b"\xff\x00", b"\xff\x01"),
            (Colour.RED, "green"),
            ({1: [Line(price=Decimal("1.10"))]}, {1: [Line(price=Decimal("1.2"))]}),
            (Place("a", {1, 2}), Place("a", {1, 3})),
            ((1, None, True), (1, None, False)),
        ],
        ids=str,
    )
    def test_what_brokers_carry_besides_json_is_compared(
        self, charging: Charging, first: Any, other: Any
    ) -> None:
        assert charging("order-1", first).executed
        assert charging("order-1", first).kind == "duplicate"
        assert is_another(charging("order-1", other))

    def test_what_cannot_be_compared_is_rejected_and_says_what_can(self, charging: Charging) -> None:
        outcome = charging("order-1", object())

        assert (outcome.row, outcome.parked, outcome.executed) == (19, True, False)
        assert "use JSON values, dates, decimals, UUIDs or models" in outcome.reason

    def test_a_message_from_before_is_not_compared(self) -> None:
        guard = compares(MemoryHistory())

        assert guard.handle_message(Message(uuid="order-1", body=""), lambda: None).executed

    def test_a_parked_task_has_what_was_compared_with_it(self) -> None:
        store = MemoryHistory()
        guard = compares(store)
        first, other = (compared(guard, charge, ("order-1", n), {}) for n in (1, 2))
        for properties in (first, other):
            given = cast("dict[str, Any]", properties)
            guard.handle_message(Message(uuid="order-1", body="", properties=given), lambda: None)
        (parked,) = drive(store.parking.list(trigger="charge"))

        assert parked.message is not None
        assert other.items() <= parked.message.properties.items()

    def test_a_set_counts_the_same_in_every_process(self) -> None:
        words = (
            "from tests.unit.triggers.guards.test_comparing import *;"
            "print(compared(compares(MemoryHistory()), charge, ('o', {'a', 'b', 'c', 'd', 'e'}), {}))"
        )

        def told(seed: str) -> str:
            done = subprocess.run(
                [sys.executable, "-c", words],
                cwd=ROOT,
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
                check=True,
                capture_output=True,
                text=True,
            )
            return done.stdout

        assert told("1") == told("2") != ""

    def test_without_the_option_nothing_is_computed(self) -> None:
        guard = TaskGuards("celery", MemoryHistory(), {}).of("charge")

        assert compared(guard, charge, (object(),), {}) == {}

    def test_another_word_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="fingerprint: 'body' is not 'arguments'"):
            with_arguments({"fingerprint": cast("Any", "body")})


class TestCelery:
    """A task as its worker calls it, without one."""

    @pytest.fixture
    def task(self) -> Iterator[Any]:
        celery: Any = pytest.importorskip("celery")
        from triggers.guards.celery import guarded  # noqa: PLC0415  (an extra)

        app = celery.Celery("shop", broker="memory://", backend="cache+memory://", set_as_current=False)
        base = guarded(history=MemoryHistory(), keep_result=True, fingerprint="arguments")

        def pay(order: str, amount: int) -> str:
            if not amount:
                raise ValueError("nothing to pay")
            return f"{order}: {amount}"

        yield app.task(base=base, name="pay", shared=False, uuid="order")(pay)
        app.close()

    def called(self, task: Any, task_id: str, *args: Any, **kwargs: Any) -> Any:
        task.push_request(id=task_id, called_directly=False, delivery_info={})
        try:
            return task(*args, **kwargs)
        finally:
            task.pop_request()

    def test_a_copy_under_another_id_gets_the_first_result(self, task: Any) -> None:
        assert self.called(task, "one", "order-1", 1) == "order-1: 1"
        assert self.called(task, "two", order="order-1", amount=1) == "order-1: 1"

    def test_a_copy_with_other_arguments_fails_and_is_parked(self, task: Any) -> None:
        from triggers.guards.celery import GivenUpError  # noqa: PLC0415  (an extra)

        self.called(task, "one", "order-1", 1)

        with pytest.raises(GivenUpError, match=r"\(row 23\)"):
            self.called(task, "two", "order-1", 2)

    def test_a_copy_of_one_that_failed_for_good_fails_so_and_once_under_one_id(self, task: Any) -> None:
        ignored: Any = pytest.importorskip("celery.exceptions").Ignore
        with pytest.raises(ValueError, match="nothing to pay"):
            self.called(task, "one", "order-1", 0)

        for task_id in ("one", "two"):
            with pytest.raises(FailedBeforeError, match="ValueError: nothing to pay"):
                self.called(task, task_id, "order-1", 0)
        task.backend.mark_as_failure("one", ValueError("nothing to pay"))
        with pytest.raises(ignored):
            self.called(task, "one", "order-1", 0)
