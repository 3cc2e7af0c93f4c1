"""The verdict on a row by the finding under its uuid, as the decision table decides it, on the driver."""

from dataclasses import dataclass

import numpy as np

from triggers.detection.facts import Count, Found, HistoryUse, Word
from triggers.detection.table import Decision, Facts, Policy, Status, decide
from triggers.spark.batch.claims.findings import KINDS, RowVerdict
from triggers.spark.rows.arrow import Numbers

#: The classes of delivery counts that are not over the limit.
_CLASSES = (Count.UNDEFINED, Count.FIRST, Count.AGAIN)


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
