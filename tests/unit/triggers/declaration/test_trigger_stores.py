"""A trigger fails closed if a history or a parking lot raises an unexpected error."""

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from history import Claim, ConfigurationError, Parked, Settlement, State
from history.beside.parking import Parking
from history.bridge import drive, settled
from history.contract.forks import DONE, ended, fork
from history.memory import MemoryHistory
from history.memory.records import MemoryRecords
from tests.unit.helpers.in_memory import Effects, FailingHistory, made, message, started_by_another, state_of
from triggers import Status


class Miscounting(MemoryHistory):
    def __init__(self, verb: str, answers: Any) -> None:
        super().__init__()
        self.verb, self.answers = verb, answers

    async def claim(self, *arguments: Any, **terms: Any) -> Sequence[Claim]:
        claims = await super().claim(*arguments, **terms)
        return self.answers if self.verb == "claim" else claims

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        settled = await super().settle(trigger, settlements)
        return self.answers if self.verb == "settle" else settled


class Closing(MemoryHistory):
    def __init__(self) -> None:
        super().__init__()
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class FullLot(Parking):
    def __init__(self) -> None:
        records = MemoryRecords(lambda: datetime.now(UTC))
        super().__init__(records, triggers=records.triggers)

    async def park(self, parked: Sequence[Parked]) -> None:
        raise OverflowError(f"the lot has no room for {len(parked)} more")


@pytest.mark.parametrize("verb", ["claim", "take_over"])
def test_a_history_that_cannot_be_asked_is_one_that_is_away(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    effects, error = Effects(), KeyError("a mistake in a store")
    book = made(effects, history=FailingHistory(error, verb), in_doubt="execute")
    if verb == "take_over":
        started_by_another(book)

    with caplog.at_level(logging.ERROR, "triggers.pipeline.judge"):
        outcome = book.handle(message())

    assert (outcome.row, outcome.acknowledge, outcome.suspend) == (13, False, True)
    assert outcome.error is error
    assert effects.runs == []
    assert "a mistake in a store" in caplog.text


@pytest.mark.parametrize("answers", [None, [], [None, None]])
def test_one_that_answers_with_too_few_or_too_many_is_one_that_cannot_be_asked(answers: Any) -> None:
    claiming, settling = (made(Effects(), history=Miscounting(verb, answers)) for verb in ("claim", "settle"))

    unknown, unwritten = claiming.handle(message()), settling.handle(message())

    assert (unknown.row, unknown.executed, unknown.acknowledge) == (13, False, False)
    assert (unwritten.executed, unwritten.acknowledge, unwritten.parked) == (True, True, True)


def test_an_end_that_cannot_be_recorded_is_parked_and_acknowledged() -> None:
    history = FailingHistory(KeyError("a mistake in a store"), "settle")
    book = made(Effects(), history=history)

    outcome = book.handle(message())

    assert (outcome.status, outcome.executed) == (Status.NEW, True)
    assert (outcome.acknowledge, outcome.parked) == (True, True)
    assert "a mistake in a store" in outcome.reason
    assert state_of(book) is State.STARTED


def test_a_lost_fence_that_nobody_can_explain_is_parked_and_not_given_back() -> None:
    history = FailingHistory(KeyError(), "lookup")
    book = made(lambda: drive(history.forget("book", "u-1")), history=history)

    outcome = book.handle(message())

    assert (outcome.acknowledge, outcome.parked) == (True, True)
    assert "the fence was lost, and then" in outcome.reason


async def test_a_history_that_was_given_is_closed_by_its_giver() -> None:
    history = Closing()
    book = made(Effects(), history=history)
    await book.ahandle(message())
    book.handle(message("u-2"))

    book.close()
    await book.aclose()

    assert history.closed == 0
    assert book.handle(message("u-2")).status is Status.DUPLICATE


async def test_closing_what_was_never_used_is_nothing() -> None:
    book = made(Effects(), history="redis://127.0.0.1:1/0")

    book.close()
    await book.aclose()


def test_misuse_is_not_taken_for_absence() -> None:
    error = ConfigurationError("maxmemory-policy", "it evicts", "change it")

    with pytest.raises(ConfigurationError) as caught:
        made(Effects(), history=FailingHistory(error, "claim")).handle(message())

    assert caught.value is error


def test_a_lot_that_cannot_take_a_message_leaves_it_unacknowledged() -> None:
    book = made(Effects(ValueError()), parking=FullLot())

    outcome = book.handle(message())

    assert (outcome.acknowledge, outcome.parked) == (False, False)


class Opening:
    """Opens a history, but only after the test allows it; a forked child opens its own immediately."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, _url: str) -> MemoryHistory:
        if os.getpid() == self.process:
            self.begun.set()
            self.may_end.wait()
        return MemoryHistory()


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_child_forked_while_another_thread_opens_the_history_opens_its_own(
    monkeypatch: pytest.MonkeyPatch, *, asynchronously: bool
) -> None:
    opening = Opening()
    monkeypatch.setattr("triggers.declaration.trigger.open_history", opening)
    monkeypatch.setattr("history.support.forks.PATIENCE", 0.01)  # the opening does not end before the fork
    book = made(Effects(), history="redis://h")

    async def deliver(uuid: str) -> None:
        answer = book.ahandle(message(uuid)) if asynchronously else book.handle(message(uuid))
        assert (await settled(answer)).status is Status.NEW

    thread = threading.Thread(target=lambda: asyncio.run(deliver("u-1")))
    thread.start()
    opening.begun.wait()
    child = fork(partial(deliver, "u-2"), blocking=False)

    try:
        assert asyncio.run(ended([child])) == [DONE]
    finally:
        opening.may_end.set()
        thread.join()
