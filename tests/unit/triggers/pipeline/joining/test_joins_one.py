"""Joins of only one: the first message of an activation runs, the others are discarded."""

from datetime import timedelta

import pytest

from history import EntryOutcome, HistoryUnavailableError, State
from tests.unit.helpers.in_memory import Effects
from tests.unit.triggers.pipeline.joining.joining import Bench, no_pause, sent
from triggers import NoActivationError, Status, TransientError


def test_the_first_of_each_activation_runs_and_the_others_are_discarded() -> None:
    bench, effects = Bench(), Effects()
    book = bench.trigger(effects, join="one")

    first, second, third, other = book.handle_batch(
        [sent("p", "payments"), sent("o"), sent("o2"), sent("b", activation="b")]
    )
    copies = book.handle_batch([sent("p", "payments"), sent("o")])

    assert (first.executed, first.join, other.executed) == (True, None, True)
    for outcome in (second, third):
        assert (outcome.executed, outcome.acknowledge, outcome.join) == (False, True, "discarded")
        assert (outcome.parked, outcome.event, outcome.error) == (False, None, None)
        assert "another message of its activation was first" in outcome.reason
    assert [copy.status for copy in copies] == [Status.DUPLICATE] * 2
    assert bench.state_of("o") is EntryOutcome.OK
    assert (effects.runs, bench.parked) == (["p", "b"], [])


def test_after_the_time_out_the_next_message_is_the_first() -> None:
    bench, effects = Bench(), Effects()
    book = bench.trigger(effects, join="one", join_timeout=timedelta(hours=1))
    book.handle(sent("o"))
    bench.later(minutes=59)

    assert book.handle(sent("o2")).join == "discarded"
    bench.later(minutes=2)
    book.handle(sent("o3"))

    assert effects.runs == ["o", "o3"]


@pytest.mark.parametrize("error", [TransientError("busy"), ValueError("no")], ids=["given back", "parked"])
def test_a_first_message_that_fails_keeps_the_others_out(error: Exception) -> None:
    bench, effects = Bench(), Effects(error)
    book = bench.trigger(effects, join="one", on_retry_failure="suspend")

    failed = book.handle(sent("o"))

    assert failed.suspend is not failed.parked
    assert book.handle(sent("p", "payments")).join == "discarded"
    assert book.handle(sent("o")).executed is failed.suspend
    assert effects.runs == ["o", "o"][: 1 + failed.suspend]


def test_a_first_message_whose_worker_died_is_in_doubt() -> None:
    bench, effects = Bench(), Effects(KeyboardInterrupt())
    book = bench.trigger(effects, join="one", lease=None)

    with pytest.raises(KeyboardInterrupt):
        book.handle(sent("o"))

    assert bench.state_of("o") is State.STARTED
    assert book.handle(sent("o")).status is Status.IN_DOUBT


def test_a_message_without_activation_is_parked() -> None:
    bench, effects = Bench(), Effects()
    book = bench.trigger(effects, join="one")

    outcome = book.handle(sent("o", activation=None))

    assert isinstance(outcome.error, NoActivationError)
    assert (outcome.executed, outcome.parked) == (False, True)
    assert effects.runs == []


def test_a_store_that_goes_away_gives_the_message_back(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, effects = Bench(), Effects()
    book = bench.trigger(effects, join="one")

    async def away(*_: object, **__: object) -> bool:
        raise HistoryUnavailableError("asking")

    with monkeypatch.context() as patch:
        patch.setattr(bench.history.joining, "first", away)
        patch.setattr("time.sleep", no_pause)
        outcome = book.handle(sent("o"))

    assert (outcome.acknowledge, outcome.suspend, outcome.row) == (False, True, 13)
    assert bench.state_of("o") is None
    assert book.handle(sent("o")).executed
