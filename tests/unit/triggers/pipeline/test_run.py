"""What a run knows: what was found, and how it ended, each replaced as a whole."""

import pytest

from history.entry import Fence
from history.errors import HistoryUnavailableError
from history.message import Message, Uuid
from triggers.detection.aftermath import Ending
from triggers.detection.table import HistoryUse, Policy
from triggers.pipeline.end import End, failed, succeeded
from triggers.pipeline.finding import NO_HISTORY, NOT_ASKED, UNREACHABLE, Finding
from triggers.pipeline.run import Run

CLAIMED = Finding(HistoryUse.ON, None, Fence(7), "worker")


def run(finding: Finding = CLAIMED) -> Run:
    return Run(Message(body="x", uuid=Uuid("u")), finding)


def test_a_success_has_no_error_and_a_failure_no_result() -> None:
    fine = succeeded(5, Policy(), recorded=True)
    bad = failed(Ending.FATAL, ValueError("no"), Policy(), recorded=True)

    assert (fine.result, fine.error, fine.ending) == (5, None, Ending.SUCCESS)
    assert (bad.result, str(bad.error), bad.ending) == (None, "no", Ending.FATAL)


def test_an_end_that_returned_nothing_is_not_made_anew() -> None:
    assert succeeded(None, Policy(), recorded=True) is succeeded(None, Policy(), recorded=True)
    assert succeeded(None, Policy(), recorded=True) is not succeeded(None, Policy(), recorded=False)


def test_a_history_that_does_not_answer_leaves_neither_claim_nor_end() -> None:
    ended = Run(Message(body="x"), CLAIMED, end=succeeded(None, Policy(), recorded=True))
    error = HistoryUnavailableError("settling")

    ended.became_unreachable(error)

    assert ended.finding is UNREACHABLE
    assert ended.end is None
    assert ended.error is error
    assert (ended.claimed, ended.holds, ended.fence) == (False, False, None)


@pytest.mark.parametrize("finding", [NO_HISTORY, NOT_ASKED, UNREACHABLE], ids=lambda one: one.history.value)
def test_without_a_claim_nothing_is_recorded_and_nothing_released(finding: Finding) -> None:
    assert not finding.recorded
    assert not run(finding).holds


def test_a_claim_is_released_until_the_service_has_ended_and_completed_after_it() -> None:
    claimed = run()

    before = (claimed.holds, claimed.claimed)
    claimed.end = succeeded(None, Policy(), recorded=True)

    assert before == (True, False)
    assert (claimed.holds, claimed.claimed) == (False, True)


def test_how_the_service_ended_counts_more_than_what_went_wrong_before() -> None:
    resolved = run()
    resolved.problem = ValueError("the resolver failed")

    before = str(resolved.error)
    resolved.end = End(Ending.SUCCESS, succeeded(None, Policy(), recorded=True).aftermath)

    assert before == "the resolver failed"
    assert resolved.error is None
