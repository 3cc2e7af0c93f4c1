"""The two event switches of a trigger suppress events for some causes, and change nothing else."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from history import HistoryUnavailableError, MemoryHistory, Message
from history.bridge import drive
from resolvers import Resolution
from tests.unit.helpers.in_memory import Effects, FailingHistory, made, message, resolving, started_by_another
from triggers import Outcome, TransientError, Trigger
from triggers.events import Cause, RetrievalFailureEvent, on_retrieval_failure
from triggers.providers import Unreadable
from triggers.providers.memory import MemoryProvider

EXCEPTION = "raise_event_on_exception"
RETRY_FAILURE = "raise_event_on_retry_failure"

#: How a trigger's last message is given up, and the settings for that.
GiveUp = Callable[..., Outcome]


def away() -> MemoryHistory:
    return FailingHistory(HistoryUnavailableError("claiming"), "claim")


def fail(**settings: Any) -> Outcome:
    return made(Effects(ValueError("no such customer")), **settings).handle(message())


def use_up_retries(**settings: Any) -> Outcome:
    return made(Effects(TransientError()), **settings).handle(message())


def come_too_often(**settings: Any) -> Outcome:
    return made(Effects(), max_delivery_count=1, **settings).handle(message(delivery_count=2))


def come_back_after_a_roll_back(**settings: Any) -> Outcome:
    book = made(Effects(ValueError()), transacted=True, **settings)
    assert not book.handle(message()).acknowledge
    return book.handle(message(delivery_count=2))


def miss_the_history(**settings: Any) -> Outcome:
    book = made(Effects(), history=away(), on_history_error="resolve", **settings)
    return book.handle(message())


def ask(answer: object, **settings: Any) -> Outcome:
    book = made(Effects(), resolver=resolving(answer), **settings)
    started_by_another(book)
    return book.handle(message(delivery_count=2))


def miss_the_resolver(**settings: Any) -> Outcome:
    return ask(TransientError(), **settings)


def break_the_resolver(**settings: Any) -> Outcome:
    return ask(LookupError(), **settings)


def have_no_identity(**settings: Any) -> Outcome:
    return made(Effects(), **settings).handle(message(None))


def bring_another_body(**settings: Any) -> Outcome:
    book = made(Effects(), fingerprint="body", **settings)
    book.handle(message())
    return book.handle(message().model_copy(update={"body": "another"}))


def break_the_filter(**settings: Any) -> Outcome:
    def wanted(_: Message) -> bool:
        raise LookupError("no region")

    return made(Effects(), filter=wanted, **settings).handle(message())


#: Each cause, its gate by section 4.1 of the facts about the reference system, and how it comes about.
CAUSES: Sequence[tuple[Cause, str | None, GiveUp]] = [
    (Cause.SERVICE_FAILED, EXCEPTION, fail),
    (Cause.FILTER_FAILED, EXCEPTION, break_the_filter),
    (Cause.FAILED_BEFORE, EXCEPTION, come_back_after_a_roll_back),
    (Cause.RETRIES_USED_UP, RETRY_FAILURE, use_up_retries),
    (Cause.MAX_DELIVERY_COUNT, RETRY_FAILURE, come_too_often),
    (Cause.HISTORY_UNAVAILABLE, RETRY_FAILURE, miss_the_history),
    (Cause.RESOLVER_UNAVAILABLE, RETRY_FAILURE, miss_the_resolver),
    (Cause.RESOLVER_FAILED, RETRY_FAILURE, break_the_resolver),
    (Cause.NO_IDENTITY, None, have_no_identity),
    (Cause.OTHER_BODY, None, bring_another_body),
]

EACH = pytest.mark.parametrize(
    ("cause", "gate", "give_up"), CAUSES, ids=[cause.name.lower() for cause, _, _ in CAUSES]
)


def told_by(give_up: GiveUp, **settings: Any) -> tuple[Outcome, list[RetrievalFailureEvent]]:
    heard: list[RetrievalFailureEvent] = []
    subscription = on_retrieval_failure("book")(heard.append)
    try:
        return give_up(**settings), heard
    finally:
        subscription.cancel()


def test_every_cause_is_tried_but_those_that_need_a_consumer_or_a_join() -> None:
    elsewhere = {Cause.UNREADABLE, Cause.JOIN_TIMED_OUT}

    assert {cause for cause, _, _ in CAUSES} == set(Cause) - elsewhere


@EACH
def test_its_gate_silences_a_cause_and_changes_nothing_else(
    cause: Cause, gate: str | None, give_up: GiveUp
) -> None:
    off = {} if gate is None else {gate: False}
    loud, _ = told_by(give_up)
    quiet, heard = told_by(give_up, **off)

    assert loud.event is not None
    assert loud.event.cause is cause
    assert (quiet.event is None) is (gate is not None)
    assert bool(heard) is (gate is None)
    assert quiet.parked
    assert quiet.acknowledge
    assert (quiet.status, quiet.rejected, quiet.row) == (loud.status, loud.rejected, loud.row)


@EACH
def test_the_other_gate_leaves_a_cause_alone(cause: Cause, gate: str | None, give_up: GiveUp) -> None:
    others = {EXCEPTION: False, RETRY_FAILURE: False}
    others.pop(gate or "", None)

    outcome, heard = told_by(give_up, **others)

    assert outcome.event is not None
    assert outcome.event.cause is cause
    assert len(heard) == 1


@pytest.mark.parametrize(
    ("off", "cause"),
    [
        ((), Cause.SERVICE_FAILED),
        ((EXCEPTION,), Cause.HISTORY_UNAVAILABLE),
        ((RETRY_FAILURE,), Cause.SERVICE_FAILED),
        ((EXCEPTION, RETRY_FAILURE), None),
    ],
    ids=["both on", "exception off", "retry failure off", "both off"],
)
def test_of_two_causes_the_one_that_is_not_silenced_is_told(
    off: tuple[str, ...], cause: Cause | None
) -> None:
    def give_up(**settings: Any) -> Outcome:
        settings |= {"history": away(), "on_history_error": "resolve", "in_doubt": "execute"}
        return made(Effects(ValueError()), **settings).handle(message())

    outcome, heard = told_by(give_up, **dict.fromkeys(off, False))

    assert outcome.executed
    assert (None if outcome.event is None else outcome.event.cause) is cause
    assert [event.cause for event in heard] == ([] if cause is None else [cause])


def test_no_switch_silences_an_unreadable_delivery() -> None:
    heard: list[RetrievalFailureEvent] = []
    subscription = on_retrieval_failure("book")(heard.append)
    book: Trigger[..., object] = made(Effects(), **dict.fromkeys((EXCEPTION, RETRY_FAILURE), False))
    receiver = drive(MemoryProvider().open_receiver("orders", subscription="book", name="w"))

    drive(book.pipeline().deliver(receiver, [Unreadable({b"x": b"\xff"}, "no body", handle=1)]))
    subscription.cancel()

    assert [event.cause for event in heard] == [Cause.UNREADABLE]


@pytest.mark.parametrize("answer", [Resolution.IN_DOUBT, Resolution.DUPLICATE], ids=["in doubt", "duplicate"])
def test_a_plain_verdict_raises_no_event_whatever_the_switches(answer: Resolution) -> None:
    outcome, heard = told_by(ask, answer=answer)

    assert outcome.event is None
    assert heard == []
