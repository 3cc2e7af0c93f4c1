"""The log does not repeat the same line a hundred times a second."""

import logging

import pytest

from triggers.consumer.gate import COMPLAINT_INTERVAL, MOST_CAUSES, Complaints

_log = logging.getLogger(__name__)


def test_the_same_cause_is_said_once_in_an_interval_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    complaints = Complaints(clock=lambda: now[0])

    for number in range(100):
        complaints.warn(_log, "away", f"away: worker {number}", {"trigger": "orders"})
    complaints.warn(_log, "full", "full", {"trigger": "orders"})
    now[0] = COMPLAINT_INTERVAL
    complaints.warn(_log, "away", "away: worker 7", {"trigger": "orders"})

    assert caplog.messages == ["away: worker 0", "full", "away: worker 7 (and 99 times more in between)"]
    assert {vars(record)["trigger"] for record in caplog.records} == {"orders"}


def test_causes_without_end_do_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(clock=lambda: 0.0)

    for number in [*range(MOST_CAUSES + 1), 0]:
        complaints.warn(_log, str(number), f"cause {number}", {})

    assert len(caplog.messages) == MOST_CAUSES + 2
