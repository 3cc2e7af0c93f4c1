"""Every row of the decision table on real servers: what is answered, left behind, parked and told.

The design's table is in ``tests/unit/decision_table.md``; the numbers here are its rows.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from history.entry import EntryOutcome, State
from history.errors import HistoryUnavailableError
from history.parking import ParkedKind
from tests.fixtures.histories import FragileHistory
from tests.integration.rows import DEAD, DUPLICATE, IN_DOUBT, NEW, Bench, Effects, answering, order
from triggers.detection import Status
from triggers.events import Cause
from triggers.failures import TransientError
from triggers.outcome import Outcome

OK, FAILED, STARTED = EntryOutcome.OK, EntryOutcome.FAILED, State.STARTED
ALIVE = timedelta(minutes=5)


@pytest.fixture(params=["blocking", "asyncio"])
def form(request: pytest.FixtureRequest) -> str:
    return cast("str", request.param)


@pytest.fixture
def bench(form: str, history_url: str, tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as closing:
        yield Bench(history_url, tmp_path, form == "asyncio", closing)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: what it meets, and everything that must become of it. ``then`` is the next delivery's row."""

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


def off(**settings: Any) -> dict[str, Any]:
    return {"history": None, **settings}


def worded(
    case: dict[str, Any], *, left_after_new: tuple[Any, int], left_after: tuple[Any, int]
) -> list[Case]:
    """Make the three cases of a row that takes its status from the resolver."""
    cases: list[Case] = []
    for resolver, status in ((NEW, Status.NEW), (DUPLICATE, Status.DUPLICATE), (IN_DOUBT, Status.IN_DOUBT)):
        entry, then = left_after_new if status is Status.NEW else left_after
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
        row=8,
        told="failed, but the trigger is plain",
        left=FAILED,
        settings={"resolver": NEW},
        status=Status.DUPLICATE,
        entry=FAILED,
        then=8,
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
    assert {case.row for case in CASES} == set(range(1, 20)) - {13, 14, 15}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_becomes_of_a_delivery(case: Case, bench: Bench) -> None:
    bench.leave(case.left)
    before = bench.entry()
    effects = Effects()
    book = bench.trigger(effects, **case.settings)
    message = order(delivery_count=case.count) if case.identified else order(None, delivery_count=case.count)

    outcome = bench.deliver(book, message)

    assert (outcome.row, outcome.status, outcome.rejected) == (case.row, case.status, case.rejected)
    assert (outcome.executed, outcome.acknowledge, outcome.suspend) == (
        case.runs,
        case.acknowledges,
        case.suspends,
    )
    assert outcome.reason.startswith(f"row {case.row}: ")
    assert len(effects.runs) == case.runs
    assert bench.state() == case.entry
    if not case.runs:
        assert unread(bench.entry()) == unread(before)
    assert_parked(bench, outcome, case.parked, message)
    assert_told(bench, outcome, case.event, message)
    assert bench.parked_locally() == []

    count = case.count if case.count == -1 else case.count + 1
    again = bench.deliver(book, message.model_copy(update={"delivery_count": count}))

    assert again.row == case.then


def unread(entry: Any) -> object:
    """Make entries comparable that were read at different times."""
    return None if entry is None else (entry.state, entry.outcome, entry.owner, entry.fence)


def assert_parked(bench: Bench, outcome: Outcome, kind: ParkedKind | None, message: object) -> None:
    parked = bench.parked()
    assert outcome.parked is (kind is not None)
    assert [(one.kind, one.message, one.reason) for one in parked] == (
        [] if kind is None else [(kind, message, outcome.reason)]
    )


def assert_told(bench: Bench, outcome: Outcome, cause: Cause | None, message: object) -> None:
    assert [event.cause for event in bench.heard] == ([] if cause is None else [cause])
    assert outcome.event is (bench.heard[0] if bench.heard else None)
    assert all(event.message == message for event in bench.heard)


def test_in_doubt_is_parked_with_what_is_known_of_the_earlier_run(bench: Bench) -> None:
    bench.leave(STARTED)

    bench.deliver(bench.trigger(Effects()), order(delivery_count=2))

    entry = bench.entry()
    (parked,) = bench.parked()
    assert entry is not None
    assert parked.evidence.owner == DEAD
    assert parked.evidence.fence == entry.fence
    assert parked.evidence.started_at == entry.started_at
    assert parked.evidence.delivery_count == 2


def test_a_resolvers_new_takes_the_entry_over_under_a_greater_fence(bench: Bench) -> None:
    bench.leave(STARTED)
    earlier = bench.entry()
    effects = Effects()

    bench.deliver(bench.trigger(effects, resolver=NEW), order(delivery_count=2))

    entry = bench.entry()
    assert earlier is not None
    assert entry is not None
    assert entry.fence == effects.runs[0].fence
    assert entry.fence > earlier.fence


def test_a_lease_is_waited_for_and_then_the_message_is_in_doubt(bench: Bench) -> None:
    bench.leave(timedelta(seconds=20))
    book = bench.trigger(Effects(), lease=timedelta(seconds=20))

    while_alive = bench.deliver(book, order(delivery_count=2))
    bench.end_lease()
    afterwards = bench.deliver(book, order(delivery_count=3))

    assert (while_alive.row, while_alive.acknowledge) == (12, False)
    assert 0 < while_alive.recover_after <= 20
    assert (afterwards.row, afterwards.status, afterwards.parked) == (10, Status.IN_DOUBT, True)


@dataclass(frozen=True, kw_only=True)
class Away:
    """One row of a history that cannot be reached; ``then`` is the next delivery's row once it can."""

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
        assert (outcome.executed, outcome.acknowledge, outcome.suspend) == (
            case.runs,
            case.acknowledges,
            case.suspends,
        )
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


@dataclass(frozen=True, kw_only=True)
class After:
    """One line of the second table: how the service ends, and what that leaves."""

    told: str
    failure: Exception | None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    acknowledges: bool = True
    suspends: bool = False
    parked: bool = False
    event: Cause | None = None
    entry: State | EntryOutcome | None = None
    then: Status | None
    then_rejected: bool = False

    def __str__(self) -> str:
        return self.told


SUSPEND = {"on_retry_failure": "suspend"}
ROLLED_BACK: dict[str, Any] = {"acknowledges": False}

AFTER = [
    After(told="success", failure=None, entry=OK, then=Status.DUPLICATE),
    After(
        told="transacted success",
        failure=None,
        settings={"transacted": True},
        entry=OK,
        then=Status.DUPLICATE,
    ),
    After(
        told="plain, fatal",
        failure=ValueError("no such customer"),
        settings=SUSPEND,
        parked=True,
        event=Cause.SERVICE_FAILED,
        entry=FAILED,
        then=Status.DUPLICATE,
    ),
    After(
        told="plain, retries used up, throw",
        failure=TransientError(),
        parked=True,
        event=Cause.RETRIES_USED_UP,
        entry=FAILED,
        then=Status.DUPLICATE,
    ),
    After(
        told="plain, retries used up, suspend",
        failure=TransientError(),
        settings=SUSPEND,
        acknowledges=False,
        suspends=True,
        then=Status.NEW,
    ),
    After(
        told="transacted, transient",
        failure=TransientError(),
        settings={"transacted": True},
        then=Status.NEW,
        **ROLLED_BACK,
    ),
    After(
        told="transacted, transient, suspend",
        failure=TransientError(),
        settings={"transacted": True, **SUSPEND},
        suspends=True,
        then=Status.NEW,
        **ROLLED_BACK,
    ),
    After(
        told="transacted, fatal",
        failure=ValueError("no such customer"),
        settings={"transacted": True},
        entry=FAILED,
        then=None,
        then_rejected=True,
        **ROLLED_BACK,
    ),
    *(
        After(
            told=f"transacted, no history, {type(failure).__name__}",
            failure=failure,
            settings=off(transacted=True, resolver=NEW),
            then=Status.NEW,
            **ROLLED_BACK,
        )
        for failure in (ValueError("no such customer"), TransientError())
    ),
]


@pytest.mark.parametrize("case", AFTER, ids=str)
def test_what_the_end_of_a_service_leaves(case: After, bench: Bench) -> None:
    effects = Effects(*filter(None, [case.failure]))
    book = bench.trigger(effects, **case.settings)

    outcome = bench.deliver(book, order(delivery_count=1))

    assert (outcome.status, outcome.executed, outcome.rejected) == (Status.NEW, True, False)
    assert (outcome.acknowledge, outcome.suspend) == (case.acknowledges, case.suspends)
    assert outcome.error is case.failure
    assert outcome.result == (None if case.failure else "booked")
    assert bench.state() == case.entry
    assert_parked(bench, outcome, ParkedKind.REJECTED if case.parked else None, order(delivery_count=1))
    assert_told(bench, outcome, case.event, order(delivery_count=1))

    again = bench.deliver(book, order(delivery_count=2))

    assert (again.status, again.rejected) == (case.then, case.then_rejected)
    assert len(effects.runs) == (2 if case.then is Status.NEW else 1)
    assert (again.event is not None) is case.then_rejected


def test_a_transacted_trigger_without_history_runs_until_the_count_is_passed(bench: Bench) -> None:
    effects = Effects(*[ValueError(str(n)) for n in range(9)])
    settings = off(transacted=True, resolver=NEW, max_delivery_count=3)
    book = bench.trigger(effects, **settings)

    outcomes = [bench.deliver(book, order(delivery_count=count)) for count in range(1, 5)]

    assert [outcome.acknowledge for outcome in outcomes] == [False, False, False, True]
    assert len(effects.runs) == 3
    assert [event.cause for event in bench.heard] == [Cause.MAX_DELIVERY_COUNT]
    assert [parked.kind for parked in bench.parked()] == [ParkedKind.REJECTED]
