"""Background work logs each kind of failure once, and waits longer after each failure."""

import logging

import pytest

from history.errors import ConfigurationError, HistoryUnavailableError
from history.support.outage import FIRST_PAUSE, LONGEST_PAUSE, Outage

WRONG = ConfigurationError("provider", "refuses the login", "correct the password")
AWAY = HistoryUnavailableError("claiming")


@pytest.fixture
def outage(caplog: pytest.LogCaptureFixture) -> Outage:
    caplog.set_level(logging.INFO)
    return Outage(logging.getLogger("tests"), "it is not done", "it is done again", {"alias": "shop"})


def test_each_cause_is_said_once_and_its_end_once(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    for error in (WRONG, AWAY, WRONG, AWAY):
        outage.note(error)
    outage.end()
    outage.end()

    assert caplog.messages[:2] == [
        f"it is not done, which is tried until it works: {WRONG}",
        f"it is not done, which is tried until it works: {AWAY} (no answer)",
    ]
    assert caplog.messages[2].startswith("it is done again, after 0.")
    assert len(caplog.messages) == 3
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "WARNING"]


def test_what_nobody_foresaw_has_its_traceback(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        divmod(1, 0)
    outage.note(raised.value)

    assert caplog.records[0].exc_info is not None


def test_the_pauses_grow_and_begin_anew_once_it_works(outage: Outage) -> None:
    pauses = [outage.note(WRONG) for _ in range(10)]
    outage.end()

    assert (pauses[:3], pauses[-1]) == ([FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE], LONGEST_PAUSE)
    assert outage.note(WRONG) == FIRST_PAUSE


def test_a_server_that_is_away_is_asked_again_soon(outage: Outage) -> None:
    assert [outage.note(AWAY) for _ in range(10)] == [FIRST_PAUSE] * 10
