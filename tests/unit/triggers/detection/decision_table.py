"""Reads the decision tables of the design and the documentation, line by line, as conditions and verdicts.

``decision_table.md`` is the design's table, word for word.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import get_args

from tests import ROOT
from triggers.detection.aftermath import Ending
from triggers.detection.table import (
    Answer,
    Count,
    Decision,
    Facts,
    FailurePolicy,
    Found,
    HistoryErrorPolicy,
    HistoryUse,
    InDoubtPolicy,
    Policy,
    Status,
    Word,
    decide,
)

DESIGN = (Path(__file__).parent / "decision_table.md").read_text(encoding="utf-8")

#: The sentences below the design's table, as lines of the table. Line 0: "detect_duplicates=False runs the
#: service on every delivery". Lines 20 and 21: ``forgotten="in_doubt"``. Line 22, from the second table:
#: "transacted, no history: runs again, until max_delivery_count is passed". Line 23: ``fingerprint=``.
#: Line 24: "a plain trigger's failed entry is a duplicate".
SENTENCES = """
| 0 | any | any, `detect_duplicates=False` | not consulted | not called | NEW | yes | acknowledge | - |
| 24 | any | on | COMPLETED failed, `transacted=False` | not called | DUPLICATE | no | acknowledge | no |
| 20 | any | on | forgotten: absent, redelivered, and so old that its entry may be deleted | none | IN_DOUBT \
| no | acknowledge, park | no |
| 21 | any | on | forgotten: absent, redelivered, and so old that its entry may be deleted | \
NEW / DUPLICATE / IN_DOUBT | as resolver | only NEW | acknowledge (park if In Doubt) | no |
| 22 | > 1 | off | -, `transacted=True` | none | NEW | yes | acknowledge | - |
| 23 | any | on | any, and `fingerprint` shows that an earlier copy had another body | not called | rejected \
| no | acknowledge, park | yes |
"""

#: The table of ``docs/detection.md``.
SHOWN = (ROOT / "docs" / "detection.md").read_text(encoding="utf-8").split("<!-- table -->\n")[1]

TABLES = {"design": SENTENCES + DESIGN, "documentation": SHOWN}

#: Lines to try first, in this order; exactly one of the other lines fits.
FIRST_TRIED = (1, 0, 19, 22)

COUNTS = {count.value: {count} for count in Count} | {"any": set(Count)}
CALLED = "NEW / DUPLICATE / IN_DOUBT"
NEEDED = "resolver needed"
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
class Situation:
    """The facts before a resolver is called."""

    count: Count
    identified: bool
    history: HistoryUse
    found: Found
    policy: Policy

    def facts(self, word: Word) -> Facts:
        return Facts(
            count=self.count, identified=self.identified, history=self.history, found=self.found, word=word
        )


#: The possible answers of a resolver; NONE: the trigger has no resolver.
SAYINGS = [word for word in Word if word is not Word.NOT_ASKED]


def situations() -> Iterator[Situation]:
    for count, identified, use, policy in product(Count, (True, False), HistoryUse, POLICIES):
        for found in Found if use is HistoryUse.ON else [Found.NOTHING]:
            yield Situation(count, identified, use, found, policy)


def judged(situation: Situation, says: Word) -> tuple[Decision, bool]:
    """Decide as the pipeline does; also return whether the resolver was called."""
    unasked = Word.NONE if says is Word.NONE else Word.NOT_ASKED
    decision = decide(situation.facts(unasked), situation.policy)
    if decision.ask:
        return decide(situation.facts(says), situation.policy), True
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

    def fits(self, situation: Situation) -> bool:
        return (
            situation.count in self.counts
            and situation.history in self.uses
            and self.found_fits(situation)
            and ("detect_duplicates=False" not in self.history or not situation.policy.detect_duplicates)
        )

    @cached_property
    def uses(self) -> set[HistoryUse]:
        word = self.history.partition(",")[0]
        return {use for use in HistoryUse if word == "any" or (word == "off") is (use is HistoryUse.OFF)}

    @cached_property
    def counts(self) -> set[Count]:
        return COUNTS[self.count]

    def found_fits(self, situation: Situation) -> bool:
        cell, policy = self.found, situation.policy
        if cell in {"-", "not consulted"}:
            return True
        if situation.history is HistoryUse.ON and cell.startswith(situation.found.value):
            return "transacted" not in cell or ("transacted=False" not in cell) is policy.transacted
        if cell.startswith("-, "):
            return policy.transacted
        if cell.startswith("message has neither"):
            return not situation.identified
        unreachable = situation.history is HistoryUse.UNREACHABLE and cell.startswith("unreachable")
        return unreachable and f'"{policy.on_history_error}"' in cell

    def resolver_fits(self, policy: Policy, says: Word) -> bool:
        match self.resolver.partition(",")[0]:
            case "not called":
                return True
            case "none":
                return says is Word.NONE
            case "raises transient":
                return says is Word.TRANSIENT and f'"{policy.on_retry_failure}"' in self.resolver
            case "raises anything else":
                return says is Word.BROKEN
            case _:
                return says.value in self.resolver.split(" / ")

    def expected(self, policy: Policy, says: Word) -> dict[str, object]:
        assert self.status in STATUSES or self.status in UNDECIDED or self.status == "as resolver"
        told = says.value if self.status == "as resolver" else self.status
        status = STATUSES.get(told)
        in_doubt = status is Status.IN_DOUBT
        return {
            "row": self.number,
            "status": status,
            "rejected": self.status == "rejected",
            "runs": self.runs == "yes"
            or (self.runs == "only NEW" and status is Status.NEW)
            or (in_doubt and policy.in_doubt == "execute"),
            "answer": answer_of(self.answer),
            # Row 15 does not mention in_doubt="park"; but it applies there as everywhere.
            "park": policy.in_doubt == "park" if in_doubt else ", park" in self.answer,
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


def lines_for(situation: Situation, lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines for this situation, for all answers of a resolver."""
    fitting = [line for line in lines if line.count != NEEDED and line.fits(situation)]
    if any(line.resolver == CALLED for line in fitting):
        fitting += [line for line in lines if line.count == NEEDED]
    return fitting


def line_for(policy: Policy, says: Word, lines: Sequence[Line]) -> Line:
    """Return the one line for this situation and this answer of the resolver."""
    fitting = [line for line in lines if line.resolver_fits(policy, says)]
    for number in FIRST_TRIED:
        for line in fitting:
            if line.number == number:
                return line
    assert len(fitting) == 1, [line.number for line in fitting]
    return fitting[0]


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
        # A plain trigger without a history does the same, except that it has no entry.
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


def after_line_for(lines: Sequence[AfterLine], ending: Ending, policy: Policy, *, history: bool) -> AfterLine:
    fitting = [line for line in lines if line.fits(ending, policy, history=history)]
    # The rendered table has special lines for transacted triggers that suspend, before the general lines.
    special = [line for line in fitting if '"suspend"' in line.outcome]
    assert len(special or fitting) == 1, (ending, policy, history, fitting)
    return (special or fitting)[0]
