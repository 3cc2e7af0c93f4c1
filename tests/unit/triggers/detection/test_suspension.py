"""The table of suspensions: every case, written by hand, and the table of the documentation."""

from itertools import product
from pathlib import Path

import pytest

from history.entry import EntryOutcome
from tests.unit.triggers.detection.markdown import table_of_suspensions
from triggers.detection.aftermath import Ending, afterwards, suspension_after
from triggers.detection.suspension import TERMS, MessageFate, Reach, Suspension, Waker, terms_of
from triggers.detection.table import FailurePolicy, Policy

DOCUMENT = Path(__file__).parents[4] / "docs" / "how-to" / "suspend-and-resume.md"

HISTORY, MONITOR, PERSON = Waker
HERE, RUNNING, ALL = Reach

#: By kind, monitor and transacted: who resumes, the message's fate, how many deliveries it costs, and where.
EXPECTED = {
    (Suspension.HISTORY, False, False): ([HISTORY], MessageFate.AGAIN, 1, HERE),
    (Suspension.HISTORY, False, True): ([HISTORY], MessageFate.AGAIN, 1, HERE),
    (Suspension.HISTORY, True, False): ([HISTORY, MONITOR], MessageFate.AGAIN, 1, HERE),
    (Suspension.HISTORY, True, True): ([HISTORY, MONITOR], MessageFate.AGAIN, 1, HERE),
    (Suspension.RESOURCE, False, False): ([PERSON], MessageFate.AGAIN, 1, HERE),
    (Suspension.RESOURCE, False, True): ([PERSON], MessageFate.AGAIN, 1, HERE),
    (Suspension.RESOURCE, True, False): ([HISTORY, MONITOR], MessageFate.AGAIN, 1, HERE),
    (Suspension.RESOURCE, True, True): ([HISTORY, MONITOR], MessageFate.AGAIN, 1, HERE),
    (Suspension.COMMAND, False, False): ([PERSON], MessageFate.NONE, 0, RUNNING),
    (Suspension.COMMAND, False, True): ([PERSON], MessageFate.NONE, 0, RUNNING),
    (Suspension.COMMAND, True, False): ([PERSON], MessageFate.NONE, 0, RUNNING),
    (Suspension.COMMAND, True, True): ([PERSON], MessageFate.NONE, 0, RUNNING),
    (Suspension.FATAL, False, False): ([PERSON], MessageFate.PARKED, 0, ALL),
    (Suspension.FATAL, True, False): ([PERSON], MessageFate.PARKED, 0, ALL),
    (Suspension.FATAL, False, True): ([PERSON], MessageFate.REJECTED, 1, ALL),
    (Suspension.FATAL, True, True): ([PERSON], MessageFate.REJECTED, 1, ALL),
}

CASES = list(product(Suspension, [False, True], [False, True]))


@pytest.mark.parametrize(("kind", "monitor", "transacted"), CASES)
def test_every_suspension_has_one_row_that_says_who_resumes_and_what_it_costs(
    kind: Suspension, *, monitor: bool, transacted: bool
) -> None:
    fitting = [
        terms
        for terms in TERMS
        if terms.kind is kind and terms.monitor in {None, monitor} and terms.transacted in {None, transacted}
    ]

    assert fitting == [terms_of(kind, monitor=monitor, transacted=transacted)]
    [terms] = fitting
    found = (list(terms.wakers), terms.fate, terms.deliveries, terms.reach)
    assert found == EXPECTED[kind, monitor, transacted]
    assert terms.needs_person is (terms.wakers == (PERSON,))


@pytest.mark.parametrize(("kind", "monitor", "transacted"), CASES)
def test_nothing_overtakes_the_failed_message_of_an_ordered_trigger_or_after_a_fatal_failure(
    kind: Suspension, *, monitor: bool, transacted: bool
) -> None:
    terms = terms_of(kind, monitor=monitor, transacted=transacted)

    assert not terms.overtakes(ordered=True)
    assert terms.overtakes(ordered=False) is (kind in {Suspension.HISTORY, Suspension.RESOURCE})


@pytest.mark.parametrize(
    ("ending", "transacted", "history", "on_retry_failure", "suspend_on_error"),
    list(product(Ending, [False, True], [False, True], ["throw", "suspend"], [False, True])),
)
def test_how_every_end_of_a_service_suspends_its_trigger(
    ending: Ending,
    on_retry_failure: FailurePolicy,
    *,
    transacted: bool,
    history: bool,
    suspend_on_error: bool,
) -> None:
    policy = Policy(
        transacted=transacted, on_retry_failure=on_retry_failure, suspend_on_error=suspend_on_error
    )

    kind = suspension_after(ending, afterwards(ending, policy, history=history), policy)

    expected = None
    if ending is Ending.TRANSIENT and on_retry_failure == "suspend":
        expected = Suspension.RESOURCE
    elif suspend_on_error and (ending is Ending.FATAL or (ending is Ending.TRANSIENT and not transacted)):
        expected = Suspension.FATAL
    assert kind is expected


def test_a_failed_entry_and_nothing_else_is_parked_or_rejected() -> None:
    given_up = {fate for fate in MessageFate if fate in {MessageFate.PARKED, MessageFate.REJECTED}}

    for terms in TERMS:
        policy = Policy(transacted=bool(terms.transacted), suspend_on_error=True)
        failed = afterwards(Ending.FATAL, policy, history=True).entry is EntryOutcome.FAILED
        assert (terms.fate in given_up) is (failed and terms.kind is Suspension.FATAL)


def test_the_documentation_shows_the_table_of_the_code() -> None:
    _, shown, _ = DOCUMENT.read_text(encoding="utf-8").split("<!-- suspensions -->\n")

    assert shown == table_of_suspensions(), (
        "put table_of_suspensions() between the markers of docs/how-to/suspend-and-resume.md"
    )
