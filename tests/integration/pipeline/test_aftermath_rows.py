"""The second table on real histories: what the end of a service leaves, and what the next delivery meets."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from history.entry import EntryOutcome, State
from history.store.parking import ParkedKind
from tests.integration.helpers.rows import FAILED, OK, Bench, Effects, assert_parked, assert_told, off, order
from triggers.detection.table import Status
from triggers.events import Cause
from triggers.service.failures import TransientError


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
            settings=off(transacted=True),
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
    settings = off(transacted=True, max_delivery_count=3)
    book = bench.trigger(effects, **settings)

    outcomes = [bench.deliver(book, order(delivery_count=count)) for count in range(1, 5)]

    assert [outcome.acknowledge for outcome in outcomes] == [False, False, False, True]
    assert len(effects.runs) == 3
    assert [event.cause for event in bench.heard] == [Cause.MAX_DELIVERY_COUNT]
    assert [parked.kind for parked in bench.parked()] == [ParkedKind.REJECTED]
