"""The rows 13 to 15, of a history that cannot be reached, on real servers that are taken away."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from history import HistoryUnavailableError
from tests.fixtures.histories import FragileHistory
from tests.integration.helpers.rows import DUPLICATE, IN_DOUBT, NEW, Bench, Effects, answering, order
from triggers import Status, TransientError
from triggers.events import Cause


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
