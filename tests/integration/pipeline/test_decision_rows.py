"""The rows of the decision table on real servers: the answer, the entry, the parked message and the event.

The design's table is in ``tests/unit/triggers/detection/decision_table.md``; the numbers here are its rows.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history import EntryOutcome, HistoryUnavailableError, ParkedKind, State
from tests.fixtures.histories import FragileHistory
from tests.integration.helpers.rows import (
    DUPLICATE,
    FAILED,
    IN_DOUBT,
    NEW,
    OK,
    STARTED,
    Bench,
    Effects,
    answering,
    assert_parked,
    assert_told,
    off,
    order,
)
from triggers import Status, TransientError
from triggers.events import Cause

ALIVE = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: its conditions, and all its results. ``then`` is the row of the next delivery."""

    row: int
    told: str
    left: State | EntryOutcome | timedelta | None = None
    count: int = 1
    identified: bool = True
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    failure: Exception | None = None

    status: Status | None = None
    runs: bool = False
    acknowledges: bool = True
    suspends: bool = False
    rejected: bool = False
    parked: ParkedKind | None = None
    event: Cause | None = None
    entry: State | EntryOutcome | None = None
    then: int

    def __str__(self) -> str:
        return f"row {self.row} {self.told}"


def worded(
    case: dict[str, Any],
    *,
    left_after_new: tuple[Any, int],
    left_after: tuple[Any, int],
    left_after_duplicate: tuple[Any, int] | None = None,
) -> list[Case]:
    """Make the three cases of a row that takes its status from the resolver."""
    cases: list[Case] = []
    for resolver, status in ((NEW, Status.NEW), (DUPLICATE, Status.DUPLICATE), (IN_DOUBT, Status.IN_DOUBT)):
        entry, then = left_after_new if status is Status.NEW else left_after
        if status is Status.DUPLICATE and left_after_duplicate is not None:
            entry, then = left_after_duplicate
        settings = {**case.get("settings", {}), "resolver": resolver}
        told = f"{case['told']}, resolver says {status}"
        parked = ParkedKind.IN_DOUBT if status is Status.IN_DOUBT else None
        made: dict[str, Any] = {
            **case,
            "settings": settings,
            "told": told,
            "parked": parked,
            "entry": entry,
            "then": then,
        }
        cases.append(Case(status=status, runs=status is Status.NEW, **made))
    return cases


IN_DOUBT_PARKED: dict[str, Any] = {"status": Status.IN_DOUBT, "parked": ParkedKind.IN_DOUBT}


REJECTED: dict[str, Any] = {"rejected": True, "parked": ParkedKind.REJECTED}


RUNS: dict[str, Any] = {"status": Status.NEW, "runs": True}


GIVEN_BACK: dict[str, Any] = {"acknowledges": False, "suspends": True}


CASES = [
    Case(row=1, told="delivered too often", count=101, event=Cause.MAX_DELIVERY_COUNT, then=1, **REJECTED),
    Case(
        row=1,
        told="delivered too often, the entry is not looked at",
        left=OK,
        count=3,
        settings={"max_delivery_count": 2},
        event=Cause.MAX_DELIVERY_COUNT,
        entry=OK,
        then=1,
        **REJECTED,
    ),
    Case(row=2, told="first delivery, history off", settings=off(), then=3, **RUNS),
    Case(
        row=2,
        told="first delivery, history off, resolver set",
        settings=off(resolver=DUPLICATE),
        then=4,
        **RUNS,
    ),
    Case(row=3, told="redelivery, history off", count=2, settings=off(), then=3, **IN_DOUBT_PARKED),
    *worded(
        {"row": 4, "told": "redelivery, history off", "count": 2, "settings": off()},
        left_after_new=(None, 4),
        left_after=(None, 4),
    ),
    Case(row=5, told="no count, history off", count=-1, settings=off(), then=5, **RUNS),
    *worded(
        {"row": 6, "told": "no count, history off", "count": -1, "settings": off()},
        left_after_new=(None, 6),
        left_after=(None, 6),
    ),
    Case(row=7, told="first delivery", entry=OK, then=8, **RUNS),
    Case(row=7, told="redelivery", count=50, entry=OK, then=8, **RUNS),
    Case(row=7, told="no count", count=-1, entry=OK, then=8, **RUNS),
    Case(row=7, told="resolver not called", settings={"resolver": IN_DOUBT}, entry=OK, then=8, **RUNS),
    Case(row=8, told="first delivery of a copy", left=OK, status=Status.DUPLICATE, entry=OK, then=8),
    Case(row=8, told="redelivery", left=OK, count=2, status=Status.DUPLICATE, entry=OK, then=8),
    Case(
        row=24,
        told="failed, but the trigger is plain",
        left=FAILED,
        settings={"resolver": NEW},
        status=Status.DUPLICATE,
        entry=FAILED,
        then=24,
    ),
    Case(
        row=9,
        told="failed before the rollback",
        left=FAILED,
        count=2,
        settings={"transacted": True},
        event=Cause.FAILED_BEFORE,
        entry=FAILED,
        then=9,
        **REJECTED,
    ),
    Case(row=10, told="redelivery", left=STARTED, count=2, entry=STARTED, then=10, **IN_DOUBT_PARKED),
    Case(row=10, told="first delivery", left=STARTED, entry=STARTED, then=10, **IN_DOUBT_PARKED),
    Case(
        row=10,
        told="the trigger has a lease, the entry has none",
        left=STARTED,
        settings={"lease": ALIVE},
        entry=STARTED,
        then=10,
        **IN_DOUBT_PARKED,
    ),
    *worded(
        {"row": 11, "told": "started", "left": STARTED, "count": 2},
        left_after_new=(OK, 8),
        left_after=(STARTED, 11),
        left_after_duplicate=(OK, 8),
    ),
    Case(
        row=12,
        told="lease alive",
        left=ALIVE,
        count=2,
        settings={"resolver": NEW},
        acknowledges=False,
        entry=STARTED,
        then=12,
    ),
    Case(
        row=16,
        told="history on",
        left=STARTED,
        settings={"resolver": answering(TransientError("no ledger")), "on_retry_failure": "suspend"},
        entry=STARTED,
        then=16,
        **GIVEN_BACK,
    ),
    Case(
        row=16,
        told="history off",
        count=2,
        settings=off(resolver=answering(ConnectionResetError()), on_retry_failure="suspend"),
        then=16,
        **GIVEN_BACK,
    ),
    Case(
        row=17,
        told="history on",
        left=STARTED,
        settings={"resolver": answering(TransientError("no ledger"))},
        event=Cause.RESOLVER_UNAVAILABLE,
        entry=STARTED,
        then=17,
        **IN_DOUBT_PARKED,
    ),
    Case(
        row=18,
        told="raises anything else",
        left=STARTED,
        settings={"resolver": answering(KeyError("id")), "on_retry_failure": "suspend"},
        event=Cause.RESOLVER_FAILED,
        entry=STARTED,
        then=18,
        **IN_DOUBT_PARKED,
    ),
    Case(
        row=18,
        told="answers nonsense, history off",
        count=2,
        settings=off(resolver=answering(None)),
        event=Cause.RESOLVER_FAILED,
        then=18,
        **IN_DOUBT_PARKED,
    ),
    Case(row=19, told="no identity", identified=False, event=Cause.NO_IDENTITY, then=19, **REJECTED),
]


def test_every_row_but_those_of_an_unreachable_history_is_a_case() -> None:
    assert {case.row for case in CASES} == {*range(1, 20), 24} - {13, 14, 15}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_becomes_of_a_delivery(case: Case, bench: Bench) -> None:
    bench.leave(case.left)
    before = bench.entry()
    effects = Effects()
    book = bench.trigger(effects, **case.settings)
    message = order(delivery_count=case.count) if case.identified else order(None, delivery_count=case.count)

    outcome = bench.deliver(book, message)

    assert (outcome.row, outcome.status, outcome.rejected) == (case.row, case.status, case.rejected)
    answer = case.runs, case.acknowledges, case.suspends
    assert (outcome.executed, outcome.acknowledge, outcome.suspend) == answer
    assert outcome.reason.endswith(f" (row {case.row})")
    assert len(effects.runs) == case.runs
    assert bench.state() == case.entry
    if not case.runs and (case.left, case.entry) != (STARTED, OK):  # which the resolver has completed
        assert unread(bench.entry()) == unread(before)
    assert_parked(bench, outcome, case.parked, message)
    assert_told(bench, outcome, case.event, message)
    assert bench.parked_locally() == []

    count = case.count if case.count == -1 else case.count + 1
    again = bench.deliver(book, message.model_copy(update={"delivery_count": count}))

    assert again.row == case.then


def unread(entry: Any) -> object:
    return None if entry is None else (entry.state, entry.outcome, entry.owner, entry.fence)


@dataclass(frozen=True, kw_only=True)
class Away:
    """One row with an unreachable history. ``then`` is the next delivery's row after the outage."""

    row: int
    told: str
    settings: dict[str, Any]
    status: Status | None = None
    runs: bool = False
    acknowledges: bool = True
    suspends: bool = False
    parked: bool = False
    event: Cause | None = None
    then: int = 7

    def __str__(self) -> str:
        return f"row {self.row} {self.told}"


RESOLVE = {"on_history_error": "resolve"}


UNAVAILABLE = Cause.HISTORY_UNAVAILABLE


AWAY = [
    Away(row=13, told="suspends by default", settings={}, acknowledges=False, suspends=True),
    Away(
        row=13,
        told="does not ask the resolver",
        settings={"resolver": DUPLICATE},
        acknowledges=False,
        suspends=True,
    ),
    Away(
        row=14, told="no resolver", settings=RESOLVE, status=Status.IN_DOUBT, parked=True, event=UNAVAILABLE
    ),
    Away(row=15, told="NEW", settings={**RESOLVE, "resolver": NEW}, status=Status.NEW, runs=True),
    Away(row=15, told="DUPLICATE", settings={**RESOLVE, "resolver": DUPLICATE}, status=Status.DUPLICATE),
    Away(
        row=15,
        told="IN_DOUBT",
        settings={**RESOLVE, "resolver": IN_DOUBT},
        status=Status.IN_DOUBT,
        parked=True,
    ),
    Away(
        row=16,
        told="resolver away as well, suspend",
        settings={**RESOLVE, "resolver": answering(TransientError()), "on_retry_failure": "suspend"},
        acknowledges=False,
        suspends=True,
    ),
    Away(
        row=17,
        told="resolver away as well, throw",
        settings={**RESOLVE, "resolver": answering(TransientError())},
        status=Status.IN_DOUBT,
        parked=True,
        event=Cause.RESOLVER_UNAVAILABLE,
    ),
    Away(
        row=18,
        told="resolver fails as well",
        settings={**RESOLVE, "resolver": answering(KeyError("id"))},
        status=Status.IN_DOUBT,
        parked=True,
        event=Cause.RESOLVER_FAILED,
    ),
]


@pytest.mark.parametrize("case", AWAY, ids=str)
def test_what_becomes_of_a_delivery_while_the_history_is_away(
    case: Away, form: str, fragile_history: FragileHistory, tmp_path: Path
) -> None:
    with ExitStack() as closing:
        bench = Bench(fragile_history.url, tmp_path, form == "asyncio", closing)
        effects = Effects()
        book = bench.trigger(effects, **case.settings)
        bench.deliver(book, order("an earlier one"))
        effects.runs.clear()
        fragile_history.take_away()

        outcome = bench.deliver(book, order())

        fragile_history.give_back()
        assert (outcome.row, outcome.status) == (case.row, case.status)
        answer = case.runs, case.acknowledges, case.suspends
        assert (outcome.executed, outcome.acknowledge, outcome.suspend) == answer
        assert len(effects.runs) == case.runs
        if case.row in {13, 14}:
            assert isinstance(outcome.error, HistoryUnavailableError)
        assert outcome.parked is case.parked
        assert [one.message for one in bench.parked_locally()] == [order()] * case.parked
        assert [event.cause for event in bench.heard] == ([] if case.event is None else [case.event])
        assert bench.state() is None
        assert bench.parked() == []

        again = bench.deliver(book, order(delivery_count=2))

        assert (again.row, again.status, again.executed) == (case.then, Status.NEW, True)
