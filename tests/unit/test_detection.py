"""The decision table against its design, over every combination of facts and settings.

``decision_table.md`` is the design's table, word for word. Each of its lines is read as a condition and a
verdict; exactly one line must fit each combination, and the code must say what that line says. The table that
the code renders for the documentation is held to the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from history.entry import EntryOutcome
from triggers.detection import (
    AFTERMATHS,
    ROWS,
    Aftermath,
    Answer,
    Count,
    Decision,
    Ending,
    Facts,
    FailurePolicy,
    Found,
    HistoryErrorPolicy,
    HistoryUse,
    InDoubtPolicy,
    Policy,
    Status,
    Word,
    afterwards,
    classify_count,
    decide,
)
from triggers.table_text import explain, explain_aftermath, render

DESIGN = (Path(__file__).parent / "decision_table.md").read_text(encoding="utf-8")
DOCUMENT = Path(__file__).parents[2] / "docs" / "detection.md"

#: What the design says below its table, as lines of it: "detect_duplicates=False runs the service on every
#: delivery", and "a plain trigger's failed entry is a duplicate".
SENTENCES = """
| 0 | any | any, `detect_duplicates=False` | not consulted | not called | NEW | yes | acknowledge | - |
| 8 | any | on | COMPLETED failed, `transacted=False` | not called | DUPLICATE | no | acknowledge | no |
"""

TABLES = {"design": SENTENCES + DESIGN, "documentation": render()}

#: Lines that are tried before the others, in this order; of the others exactly one fits.
FIRST_TRIED = (1, 0, 19)

COUNTS = {count.value: {count} for count in Count} | {"any": set(Count)}
CALLED = "NEW / DUPLICATE / IN_DOUBT"
STATUSES = {"NEW": Status.NEW, "DUPLICATE": Status.DUPLICATE, "IN_DOUBT": Status.IN_DOUBT}
UNDECIDED = {"rejected", "undecided", "in progress"}

POLICIES = [
    Policy(
        detect_duplicates=detects,
        transacted=transacted,
        in_doubt=in_doubt,
        on_retry_failure=on_retry_failure,
        on_history_error=on_history_error,
    )
    for detects, transacted, in_doubt, on_retry_failure, on_history_error in product(
        (True, False),
        (True, False),
        get_args(InDoubtPolicy),
        get_args(FailurePolicy),
        get_args(HistoryErrorPolicy),
    )
]


@dataclass(frozen=True)
class World:
    """One combination. ``says`` is what the resolver would say if it were asked; NONE: there is none."""

    count: Count
    identified: bool
    history: HistoryUse
    found: Found
    says: Word
    policy: Policy

    def facts(self, word: Word) -> Facts:
        return Facts(
            count=self.count,
            identified=self.identified,
            history=self.history,
            found=self.found,
            word=word,
        )


def worlds() -> Iterator[World]:
    sayings = [word for word in Word if word is not Word.NOT_ASKED]
    for count, identified, use, says, policy in product(Count, (True, False), HistoryUse, sayings, POLICIES):
        for found in Found if use is HistoryUse.ON else [Found.NOTHING]:
            yield World(count, identified, use, found, says, policy)


def judged(world: World) -> tuple[Decision, bool]:
    """Decide as the pipeline does; tell as well whether the resolver was asked."""
    unasked = Word.NONE if world.says is Word.NONE else Word.NOT_ASKED
    decision = decide(world.facts(unasked), world.policy)
    if decision.ask:
        return decide(world.facts(world.says), world.policy), True
    return decision, False


@dataclass(frozen=True)
class Line:
    """One line of the first table, as it is written."""

    number: int
    count: str
    history: str
    found: str
    resolver: str
    status: str
    runs: str
    answer: str
    event: str

    def fits(self, world: World) -> bool:
        return self.situation_fits(world) and self.resolver_fits(world)

    def situation_fits(self, world: World) -> bool:
        return (
            world.count in COUNTS[self.count]
            and self.history_fits(world)
            and self.found_fits(world)
            and ("detect_duplicates=False" not in self.history or not world.policy.detect_duplicates)
        )

    def history_fits(self, world: World) -> bool:
        word = self.history.partition(",")[0]
        return word == "any" or (word == "off") is (world.history is HistoryUse.OFF)

    def found_fits(self, world: World) -> bool:
        cell, policy = self.found, world.policy
        if cell in {"-", "not consulted"}:
            return True
        if cell.startswith("message has neither"):
            return not world.identified
        if cell.startswith("unreachable"):
            return world.history is HistoryUse.UNREACHABLE and f'"{policy.on_history_error}"' in cell
        if world.history is not HistoryUse.ON or not cell.startswith(world.found.value):
            return False
        return "transacted" not in cell or ("transacted=False" not in cell) is policy.transacted

    def resolver_fits(self, world: World) -> bool:
        match self.resolver.partition(",")[0]:
            case "not called":
                return True
            case "none":
                return world.says is Word.NONE
            case "raises transient":
                return world.says is Word.TRANSIENT and f'"{world.policy.on_retry_failure}"' in self.resolver
            case "raises anything else":
                return world.says is Word.BROKEN
            case _:
                return world.says.value in self.resolver.split(" / ")

    def expected(self, world: World) -> dict[str, object]:
        assert self.status in STATUSES or self.status in UNDECIDED or self.status == "as resolver"
        told = world.says.value if self.status == "as resolver" else self.status
        status = STATUSES.get(told)
        in_doubt = status is Status.IN_DOUBT
        return {
            "row": self.number,
            "status": status,
            "rejected": self.status == "rejected",
            "runs": self.runs == "yes"
            or (self.runs == "only NEW" and status is Status.NEW)
            or (in_doubt and world.policy.in_doubt == "execute"),
            "answer": answer_of(self.answer),
            # In row 15 the answer is silent about it; in_doubt="park" holds there as everywhere.
            "park": world.policy.in_doubt == "park" if in_doubt else ", park" in self.answer,
            "suspend": "suspend" in self.answer,
            "event": self.event == "yes",
        }


def answer_of(cell: str) -> Answer:
    if "after a delay" in cell:
        return Answer.RECOVER_LATER
    return Answer.RECOVER if cell.startswith("recover") else Answer.ACKNOWLEDGE


def cells_of(text: str, columns: int) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line]
    return [row for row in rows if len(row) == columns and not row[0].startswith(("#", "trigger", "--"))]


@cache
def lines_of(table: str) -> Sequence[Line]:
    return [Line(int(number), *cells) for number, *cells in cells_of(TABLES[table], 9)]


def line_for(world: World, lines: Sequence[Line]) -> Line:
    """Return the one line that is for this combination."""
    needed = [line for line in lines if line.count == "resolver needed"]
    others = [line for line in lines if line not in needed]
    asks = any(line.resolver == CALLED and line.situation_fits(world) for line in others)
    fitting = [line for line in others if line.fits(world)]
    fitting += [line for line in needed if asks and line.resolver_fits(world)]
    for number in FIRST_TRIED:
        for line in fitting:
            if line.number == number:
                return line
    assert len(fitting) == 1, f"{world} is in lines {[line.number for line in fitting]}"
    return fitting[0]


def told(decision: Decision) -> dict[str, object]:
    names = ("row", "status", "rejected", "runs", "answer", "park", "suspend", "event")
    return {name: getattr(decision, name) for name in names}


@pytest.mark.parametrize("table", TABLES)
def test_the_code_says_of_every_combination_what_the_one_fitting_line_says(table: str) -> None:
    lines = lines_of(table)
    reached: set[Line] = set()

    for world in worlds():
        line = line_for(world, lines)
        reached.add(line)
        decision, asked = judged(world)

        assert told(decision) == line.expected(world), f"{world}\n{line}"
        assert asked is (line.resolver not in {"none", "not called"}), f"{world}\n{line}"

    assert reached == set(lines)


def test_the_table_is_read_whole() -> None:
    assert [line.number for line in lines_of("design")] == [0, 8, *range(1, 20)]
    assert sorted(line.number for line in lines_of("documentation")) == sorted([0, 8, *range(1, 20)])


def test_every_row_of_the_code_is_reached() -> None:
    places = {judged(world)[0].place for world in worlds()}

    assert places == set(range(len(ROWS)))


@cache
def all_decisions() -> Sequence[tuple[Facts, Policy, Decision]]:
    """Every value of every argument, also those that no pipeline brings together."""
    facts = [
        Facts(count=count, identified=identified, history=use, found=found, word=word)
        for count, identified, use, found, word in product(Count, (True, False), HistoryUse, Found, Word)
    ]
    return [(one, policy, decide(one, policy)) for one, policy in product(facts, POLICIES)]


#: What holds for each decision, whatever the table says in detail.
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


@dataclass(frozen=True)
class AfterLine:
    """One line of the second table, as it is written."""

    trigger: str
    outcome: str
    entry: str
    answer: str
    next: str

    def fits(self, ending: Ending, policy: Policy, *, history: bool) -> bool:
        kind = self.trigger.partition(",")[0]
        if kind != "any" and (kind == "transacted") is not policy.transacted:
            return False
        # A plain trigger without a history does the same, but for the entry.
        if policy.transacted and ending is not Ending.SUCCESS and ("no history" in self.trigger) is history:
            return False
        return any(self.part_fits(part, ending, policy) for part in self.parts())

    def parts(self) -> Sequence[str]:
        return self.outcome.replace(", or ", " or ").split(" or ")

    def part_fits(self, part: str, ending: Ending, policy: Policy) -> bool:
        if '"' in part and f'"{policy.on_retry_failure}"' not in part:
            return False
        names = {Ending.SUCCESS: "success", Ending.FATAL: "fatal", Ending.TRANSIENT: "transient"}
        return part.startswith(names[ending]) or (
            ending is Ending.TRANSIENT and part.startswith("retries used up")
        )


ENDINGS = list(product(Ending, POLICIES, (True, False)))
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


def after_line_for(lines: Sequence[AfterLine], ending: Ending, policy: Policy, *, history: bool) -> AfterLine:
    fitting = [line for line in lines if line.fits(ending, policy, history=history)]
    # The rendered table has lines of its own for transacted triggers that suspend, before the general ones.
    special = [line for line in fitting if '"suspend"' in line.outcome]
    assert len(special or fitting) == 1, (ending, policy, history, fitting)
    return (special or fitting)[0]


def test_a_trigger_is_suspended_by_a_transient_failure_alone_and_where_it_says_so() -> None:
    for ending, policy, history in ENDINGS:
        suspended = afterwards(ending, policy, history=history).suspend

        assert suspended is (ending is Ending.TRANSIENT and policy.on_retry_failure == "suspend")


#: What the next delivery meets, for each entry that a service's end leaves behind.
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


@pytest.mark.parametrize("ending", Ending)
def test_the_next_delivery_is_judged_as_the_second_table_promises(ending: Ending) -> None:
    for policy in POLICIES:
        if policy.detect_duplicates:
            after = afterwards(ending, policy, history=True)

            assert next_delivery(LEFT_BEHIND[after.entry], policy) == after.next, f"{policy}\n{after}"


def test_the_next_delivery_after_a_death_is_in_doubt_once_the_lease_is_over() -> None:
    assert next_delivery(Found.STARTED, Policy()) == "IN_DOUBT"
    assert next_delivery(Found.IN_PROGRESS, Policy()) == "undecided"


def test_every_aftermath_is_reached() -> None:
    reached = {
        AFTERMATHS.index(afterwards(ending, policy, history=history)) for ending, policy, history in ENDINGS
    }

    assert reached == set(range(len(AFTERMATHS)))


def test_a_reason_names_the_row_and_what_became_of_the_message() -> None:
    completed = Facts(count=Count.FIRST, history=HistoryUse.ON, found=Found.COMPLETED_OK)
    failed = Facts(count=Count.FIRST, history=HistoryUse.ON, found=Found.COMPLETED_FAILED)
    doubted = Facts(count=Count.AGAIN, history=HistoryUse.ON, found=Found.STARTED)

    assert explain(decide(completed, Policy())) == "row 8: history on, COMPLETED ok: DUPLICATE, acknowledge"
    assert explain(decide(failed, Policy())) == (
        "row 8: history on, COMPLETED failed, transacted=False: DUPLICATE, acknowledge"
    )
    assert explain(decide(doubted, Policy())) == (
        "row 10: history on, STARTED, lease over or no lease, no resolver: IN_DOUBT, acknowledge, park"
    )
    assert explain(decide(doubted, Policy(in_doubt="acknowledge"))).endswith(": IN_DOUBT, acknowledge")
    assert explain(decide(replace(doubted, word=Word.NEW), Policy())).endswith(
        "resolver NEW / DUPLICATE / IN_DOUBT: NEW, acknowledge"
    )
    assert explain(decide(replace(doubted, found=Found.IN_PROGRESS), Policy())) == (
        "row 12: history on, STARTED, lease alive: in progress, recover after a delay"
    )
    assert explain(decide(replace(doubted, history=HistoryUse.UNREACHABLE), Policy())) == (
        'row 13: history unreachable, on_history_error="suspend": undecided, recover, suspend'
    )
    assert explain(decide(replace(doubted, identified=False), Policy())) == (
        "row 19: neither uuid nor JMSMessageID, history on / unreachable: rejected, acknowledge, park, event"
    )


def test_every_decision_and_aftermath_can_be_told() -> None:
    reasons = {explain(decision) for _, _, decision in all_decisions()}
    ends = [explain_aftermath(one, recorded=True) for one in AFTERMATHS]

    assert all(reason.startswith("row ") for reason in reasons)
    assert any(reason.endswith("as the resolver says") for reason in reasons)
    assert len(set(ends)) == len({(one.transacted, one.endings, one.on_retry_failure) for one in AFTERMATHS})
    assert "released" not in explain_aftermath(unrecorded(), recorded=False)


def unrecorded() -> Aftermath:
    return afterwards(Ending.TRANSIENT, Policy(transacted=True), history=False)


def test_the_documentation_shows_the_table_of_the_code() -> None:
    _, shown, _ = DOCUMENT.read_text(encoding="utf-8").split("<!-- table -->\n")

    assert shown == render(), "put triggers.table_text.render() between the markers of docs/detection.md"
