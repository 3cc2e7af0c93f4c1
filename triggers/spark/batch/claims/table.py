"""The verdict on a row by the finding under its uuid, as the decision table decides it."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from history.message import UNDEFINED_COUNT
from triggers.detection.table import Count, Decision, Facts, Found, HistoryUse, Policy, Status, Word, decide
from triggers.spark.rows.arrow import Numbers


class RowVerdict(IntEnum):
    """The verdict on a row; rows from ASIDE on need a second look, with all their columns.

    ADOPTED is also NEW: an earlier run of the batch had claimed it, or an abandoned run. DONE is a duplicate
    that an earlier run of the same batch has completed, if the sink is rewritten. RESOLVED is a row that was
    looked at again, and that this run now owns. LEFT_OUT comes with a batch that the sink has committed, and
    may not have been handed to the sink. OTHER_BODY does not have the first body of its uuid.
    """

    NEW = 0
    ADOPTED = 1
    DUPLICATE = 2
    DONE = 3
    ASIDE = 4
    ASKED = 5
    REPLAYED = 6
    RESOLVED = 7
    LEFT_OUT = 8
    OTHER_BODY = 9


#: Added to the verdict on the first row of a uuid, for each further row.
AGAIN = 16

#: The possible findings for a row, and whether its entry belongs to an earlier run of the same batch.
KINDS: tuple[tuple[Found, bool], ...] = (
    (Found.NOTHING, False),
    (Found.COMPLETED_OK, False),
    (Found.COMPLETED_FAILED, False),
    (Found.STARTED, False),
    (Found.IN_PROGRESS, False),
    (Found.COMPLETED_OK, True),
    (Found.STARTED, True),
)

#: The next index: a row of a batch that the sink has committed, perhaps without this row.
LEFT_OUT = len(KINDS)

#: The next index: an entry that this run takes over, of a row for the function.
ADOPTED = LEFT_OUT + 1

#: The classes of delivery counts that are not over the limit.
_CLASSES = (Count.UNDEFINED, Count.FIRST, Count.AGAIN)


def classes_of(counts: Numbers) -> Numbers:
    """Return the class of each delivery count, as an index of the table."""
    return np.where(counts == UNDEFINED_COUNT, 0, np.where(counts == 1, 1, 2))


@dataclass(frozen=True, kw_only=True)
class ClaimTerms:
    """The other inputs of the verdicts: the policy, whether there is a resolver, what comes again."""

    policy: Policy
    asks: bool
    asks_replayed: bool
    executes_replayed: bool

    def table(self) -> Numbers:
        """Return the verdict on each kind of row, by the finding and the class of its delivery count."""
        table = [[self._verdict(finding, count) for count in _CLASSES] for finding in KINDS]
        ends = [RowVerdict.LEFT_OUT] * len(_CLASSES), [RowVerdict.ADOPTED] * len(_CLASSES)
        return np.array([*table, *ends], np.int8)

    def _verdict(self, finding: tuple[Found, bool], count: Count) -> int:
        history, replayed = finding
        if replayed and history is Found.COMPLETED_OK:
            return RowVerdict.DONE
        if replayed and self.executes_replayed:
            word = Word.NEW
        else:
            word = Word.NOT_ASKED if (self.asks_replayed if replayed else self.asks) else Word.NONE
        facts = Facts(count=count, history=HistoryUse.ON, found=history, word=word)
        decision = decide(facts, self.policy)
        if decision.ask:
            return RowVerdict.REPLAYED if replayed else RowVerdict.ASKED
        verdict = _verdict_of(decision)
        return RowVerdict.ADOPTED if replayed and verdict is RowVerdict.NEW else verdict


def _verdict_of(decision: Decision) -> RowVerdict:
    """Return the verdict for a decision, if the row needs no second look."""
    if decision.status is Status.NEW and decision.runs:
        return RowVerdict.NEW
    return RowVerdict.DUPLICATE if decision.status is Status.DUPLICATE else RowVerdict.ASIDE
