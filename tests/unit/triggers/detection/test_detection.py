"""The decision table against its design, over every combination of facts and settings.

``decision_table.md`` is the design's table, word for word. Each of its lines is read as a condition and a
verdict; exactly one line must fit each combination, and the code must say what that line says. The table of
``docs/detection.md`` is held to the same.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import pytest

from history.entry import EntryOutcome
from tests import ROOT
from tests.fixtures.proof import Proved
from tests.unit.triggers.detection.decision_table import (
    POLICIES,
    SAYINGS,
    TABLES,
    AfterLine,
    Line,
    after_line_for,
    answer_of,
    cells_of,
    judged,
    line_for,
    lines_for,
    lines_of,
    situations,
)
from tests.unit.triggers.detection.markdown import table_of_sentences
from triggers.detection.aftermath import AFTERMATHS, Ending, afterwards
from triggers.detection.causes import Cause
from triggers.detection.sentences import explain, explain_aftermath
from triggers.detection.suspension import Suspension
from triggers.detection.table import (
    ROWS,
    Answer,
    Count,
    Decision,
    Facts,
    Found,
    HistoryUse,
    Policy,
    Status,
    Word,
    classify_count,
    decide,
)

pytestmark = pytest.mark.proof

DOCUMENT = ROOT / "docs" / "detection.md"


def told(decision: Decision) -> dict[str, object]:
    names = ("row", "status", "rejected", "runs", "answer", "park", "suspend", "event")
    return {name: getattr(decision, name) for name in names}


@pytest.mark.parametrize("table", TABLES)
def test_the_code_says_of_every_combination_what_the_one_fitting_line_says(
    table: str, proved: Proved
) -> None:
    lines = lines_of(table)
    reached: set[Line] = set()

    combinations = 0
    for situation in situations():
        fitting = lines_for(situation, lines)
        for says in SAYINGS:
            line = line_for(situation.policy, says, fitting)
            reached.add(line)
            decision, asked = judged(situation, says)

            assert told(decision) == line.expected(situation.policy, says), f"{situation}\n{says}\n{line}"
            assert asked is (line.resolver not in {"none", "not called"}), f"{situation}\n{says}\n{line}"
            combinations += 1

    assert reached == set(lines)
    proved(combinations=combinations)


def test_the_table_is_read_whole() -> None:
    assert [line.number for line in lines_of("design")] == [0, 24, 20, 21, 22, 23, *range(1, 20)]
    assert sorted(line.number for line in lines_of("documentation")) == list(range(25))


def test_no_two_rows_share_a_number() -> None:
    assert len({row.number for row in ROWS}) == len(ROWS)


def test_every_row_of_the_code_is_reached() -> None:
    places = {judged(situation, says)[0].index for situation, says in product(situations(), SAYINGS)}

    assert places == set(range(len(ROWS)))


@cache
def all_decisions() -> Sequence[tuple[Facts, Policy, Decision]]:
    """Return decisions for every combination of arguments, even if no pipeline uses it."""
    facts = [
        Facts(count=count, identified=identified, history=use, found=found, word=word)
        for count, identified, use, found, word in product(Count, (True, False), HistoryUse, Found, Word)
    ]
    return [(one, policy, decide(one, policy)) for one, policy in product(facts, POLICIES)]


#: Rules for every decision, whatever the table says in detail.
INVARIANTS: dict[str, Callable[[Facts, Policy, Decision], bool]] = {
    "only what is NEW runs, or what is In Doubt where the trigger says so": lambda _, policy, decision: (
        not decision.runs
        or decision.status is Status.NEW
        or (decision.status is Status.IN_DOUBT and policy.in_doubt == "execute")
    ),
    "what is NEW runs": lambda _, __, decision: decision.status is not Status.NEW or decision.runs,
    "a completed message never runs while the history answers": lambda facts, policy, decision: (
        not decision.runs
        or not policy.detect_duplicates
        or facts.history is not HistoryUse.ON
        or facts.found not in {Found.COMPLETED_OK, Found.COMPLETED_FAILED}
    ),
    "a message of another body never runs, and is no duplicate": lambda facts, policy, decision: (
        facts.found is not Found.OTHER_BODY
        or facts.history is not HistoryUse.ON
        or not policy.detect_duplicates
        or (not decision.runs and decision.status is None)
    ),
    "a message without an identity never runs over a history": lambda facts, policy, decision: (
        not decision.runs
        or facts.identified
        or not policy.detect_duplicates
        or facts.history is HistoryUse.OFF
    ),
    "what is delivered too often never runs": lambda facts, _, decision: (
        not decision.runs or facts.count is not Count.OVER
    ),
    "rows 12, 13 and 16, and only they, are not acknowledged": lambda _, __, decision: (
        decision.ask or (decision.row in {12, 13, 16}) is (decision.answer is not Answer.ACKNOWLEDGE)
    ),
    "what is recovered is undecided, and neither runs nor is parked": lambda _, __, decision: (
        decision.answer is Answer.ACKNOWLEDGE
        or (decision.status is None and not decision.runs and not decision.park and not decision.event)
    ),
    "what is rejected is acknowledged, parked and told of, and does not run": lambda _, __, decision: (
        not decision.rejected
        or (
            decision.answer is Answer.ACKNOWLEDGE
            and decision.park
            and decision.event
            and not decision.runs
            and decision.status is None
        )
    ),
    "what is acknowledged has run, is a duplicate, is parked, or is dropped on purpose": lambda _, p, d: (
        d.ask
        or d.answer is not Answer.ACKNOWLEDGE
        or d.runs
        or d.park
        or d.status is Status.DUPLICATE
        or (d.status is Status.IN_DOUBT and p.in_doubt == "acknowledge")
    ),
    "only what is recovered suspends the trigger": lambda _, __, decision: (
        not decision.suspend or decision.answer is Answer.RECOVER
    ),
    "the resolver is asked only before it has spoken": lambda facts, _, decision: (
        not decision.ask or facts.word is Word.NOT_ASKED
    ),
    "asking decides nothing yet": lambda _, __, decision: (
        not decision.ask or (decision.status is None and not decision.runs and not decision.park)
    ),
}


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_it_always_holds_that(invariant: str) -> None:
    holds = INVARIANTS[invariant]

    for facts, policy, decision in all_decisions():
        assert holds(facts, policy, decision), f"{facts}\n{policy}\n{decision}"


@pytest.mark.parametrize(
    ("count", "limit", "expected"),
    [
        (-1, 1, Count.UNDEFINED),
        (1, 1, Count.FIRST),
        (2, 1, Count.OVER),
        (2, 2, Count.AGAIN),
        (100, 100, Count.AGAIN),
        (101, 100, Count.OVER),
    ],
)
def test_deliveries_up_to_the_limit_count_and_the_next_is_over_it(
    count: int, limit: int, expected: Count
) -> None:
    assert classify_count(count, limit) is expected


#: No table contains a run that was stopped because another owner has its entry: it decides nothing.
ENDS = [ending for ending in Ending if ending not in {Ending.LEFT, Ending.LOST, Ending.STOPPED}]
ENDINGS = list(product(ENDS, POLICIES, (True, False)))
ENTRIES = {"COMPLETED ok": EntryOutcome.OK, "COMPLETED failed": EntryOutcome.FAILED, "released": None}


@pytest.mark.parametrize("table", TABLES)
def test_every_end_of_a_service_means_what_the_second_table_says(table: str) -> None:
    lines = [AfterLine(*cells) for cells in cells_of(TABLES[table], 5)]
    reached: set[AfterLine] = set()

    for ending, policy, history in ENDINGS:
        after = afterwards(ending, policy, history=history)
        line = after_line_for(lines, ending, policy, history=history)
        reached.add(line)

        if line.entry != "-" and history:
            assert after.entry == ENTRIES[line.entry], f"{line}\n{after}"
        assert after.answer is answer_of(line.answer), f"{line}\n{after}"
        assert after.park is ("park" in line.answer), f"{line}\n{after}"
        assert after.event is ("event" in line.answer), f"{line}\n{after}"
        assert after.next == line.next

    assert {line.outcome for line in lines} - {line.outcome for line in reached} == {"process dies"}


def test_a_trigger_is_suspended_by_a_transient_failure_alone_and_where_it_says_so() -> None:
    for ending, policy, history in ENDINGS:
        suspended = afterwards(ending, policy, history=history).suspend

        assert suspended is (ending is Ending.TRANSIENT and policy.on_retry_failure == "suspend")


#: For each entry that the end of a service leaves: what the next delivery finds.
LEFT_BEHIND = {
    EntryOutcome.OK: Found.COMPLETED_OK,
    EntryOutcome.FAILED: Found.COMPLETED_FAILED,
    None: Found.NOTHING,
}


def next_delivery(found: Found, policy: Policy) -> str:
    decision = decide(Facts(count=Count.AGAIN, history=HistoryUse.ON, found=found), policy)
    if decision.rejected:
        return "rejected" + ", with the event" * decision.event
    return str(decision.status or "undecided")


@pytest.mark.parametrize("ending", ENDS)
def test_the_next_delivery_is_judged_as_the_second_table_promises(ending: Ending) -> None:
    for policy in POLICIES:
        if policy.detect_duplicates:
            after = afterwards(ending, policy, history=True)

            assert next_delivery(LEFT_BEHIND[after.entry], policy) == after.next, f"{policy}\n{after}"


def test_the_next_delivery_after_a_death_is_in_doubt_once_the_lease_is_over() -> None:
    assert next_delivery(Found.STARTED, Policy()) == "IN_DOUBT"
    assert next_delivery(Found.IN_PROGRESS, Policy()) == "undecided"


def test_every_cause_that_a_row_or_an_end_has_is_another() -> None:
    causes = [row.cause for row in ROWS if row.cause] + [end.cause for end in AFTERMATHS if end.cause]
    elsewhere = {Cause.FILTER_FAILED, Cause.UNREADABLE, Cause.JOIN_TIMED_OUT}

    assert sorted(causes) == sorted(set(Cause) - elsewhere)


def test_the_history_suspends_where_it_is_unreachable_and_nowhere_else() -> None:
    rows = [row for row in ROWS if row.suspension is Suspension.HISTORY]

    assert [row.history for row in rows] == [frozenset({HistoryUse.UNREACHABLE})]
    assert all(row.suspend for row in rows)


def test_every_aftermath_is_reached() -> None:
    reached = {
        AFTERMATHS.index(afterwards(ending, policy, history=history)) for ending, policy, history in ENDINGS
    }

    assert reached == set(range(len(AFTERMATHS)))


def test_every_decision_and_aftermath_has_a_sentence_that_says_what_it_does() -> None:
    for decision in {decision for _, _, decision in all_decisions()}:
        sentence = explain(decision)

        assert sentence.endswith(f" (row {decision.row})")
        assert sentence.partition(":")[0].isupper()
        assert ("; parked" in sentence) is decision.park
        assert ("suspended" in sentence) is decision.suspend
        assert ("delivered again" in sentence.partition("; ")[2]) is (
            decision.answer is not Answer.ACKNOWLEDGE
        )
        assert ("the resolver decides" in sentence) is decision.ask
    ends = [explain_aftermath(one) for one in AFTERMATHS]
    assert len(set(ends)) == len(ends)
    for aftermath, sentence in zip(AFTERMATHS, ends, strict=True):
        assert ("; parked" in sentence) is aftermath.park
        assert ("suspended" in sentence) is aftermath.suspend


def test_the_documentation_shows_the_sentences_of_the_code() -> None:
    _, shown, _ = DOCUMENT.read_text(encoding="utf-8").split("<!-- sentences -->\n")

    assert shown == table_of_sentences(), "put table_of_sentences() between the markers of docs/detection.md"
