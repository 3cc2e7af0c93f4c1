"""Somebody sets the clock of a link back while its agent runs."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from history.bridge import drive
from tests.integration.providers.sqlremote.link_ends import both, linked

DAYS = timedelta(days=30)


@pytest.mark.parametrize("link_databases", ["sqlite"], indirect=True)
@pytest.mark.parametrize("schedule", [None, "every 00:05:00", "at 13:00"])
def test_a_link_goes_on_after_the_clock_was_set_back(
    link_databases: Sequence[str], schedule: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with linked(link_databases, send=schedule) as (x, y):
        both(x, y)
        x.clock.pass_by(DAYS)
        x.commit("while the clock was ahead")
        both(x, y, rounds=3)

        x.clock.pass_by(-DAYS)
        x.commit("since then")
        both(x, y, rounds=7)

        assert y.got == ["while the clock was ahead", "since then"]
        assert caplog.text.count("link orders: the clock was set back by") == 2, "once for each end"


@pytest.mark.parametrize("link_databases", ["sqlite"], indirect=True)
def test_a_transaction_that_was_given_back_comes_again_after_the_clock_was_set_back(
    link_databases: Sequence[str],
) -> None:
    with linked(link_databases) as (x, y):
        x.commit("a")
        x.run()
        receiver = y.receiver()
        (delivery,) = drive(receiver.receive(1, timedelta(0)))
        drive(receiver.recover([delivery], timedelta(minutes=1)))

        x.clock.pass_by(-DAYS)
        y.run()

        assert y.got == ["a"]
