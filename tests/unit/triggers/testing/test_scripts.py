"""The Hypothesis strategy for scripts finds planted bugs, and shrinks the script to the fewest faults."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from tests.unit.triggers.testing.planted import LEDGER, ORDER, book, looks, made
from triggers import ConfigurationError, Message
from triggers.testing import exactly_once, scripts

pytestmark = pytest.mark.slow

#: The same examples each time, however slow the machine is.
STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
SHRINKING = settings(STEADY, max_examples=300)


def test_the_smallest_script_that_doubles_has_one_fault() -> None:
    careless = made(book, in_doubt="execute")

    script = find(
        scripts(),
        lambda drawn: not exactly_once(careless, [ORDER], effects=LEDGER, script=drawn).never_twice,
        settings=SHRINKING,
    )

    assert script.count("@") == 1
    assert exactly_once(careless, [ORDER], effects=LEDGER, script=script).doubled


@settings(STEADY)
@given(script=scripts(), amounts=st.lists(st.integers(), min_size=1, max_size=3))
def test_a_correct_service_passes_whatever_its_messages_hold(script: str, amounts: list[int]) -> None:
    orders = [
        Message(body={"id": f"N-{place}", "amount": amount}, uuid=f"order-{place}")
        for place, amount in enumerate(amounts)
    ]

    report = exactly_once(made(book, resolver=looks), orders, effects=LEDGER, script=script)

    report.check()


def test_a_fault_that_cannot_happen_at_its_point_happens_at_the_next_one_where_it_can() -> None:
    def forgiving(order: dict[str, Any]) -> None:
        with suppress(ConnectionError):
            LEDGER.record(order["id"])

    report = exactly_once(made(forgiving), [ORDER], effects=LEDGER, script="exact; dies; fail@0")

    assert not report.none_lost
    assert "effect N-1 fails, and does not happen" in str(report)


@settings(STEADY, phases=[Phase.generate])
@given(script=scripts(crashes=0, counts="exact"))
def test_no_fault_is_drawn_where_none_is_wanted(script: str) -> None:
    assert script in {"exact; dies", "exact; stays"}


@pytest.mark.parametrize(
    ("options", "named"),
    [({"crashes": -1}, "crashes"), ({"points": 0}, "points"), ({"counts": "all"}, "counts")],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        scripts(**options)
