"""Add to the audit trail what the decisions about parked messages led to, beside the record of the decision.

A run takes time, and its decision is recorded before it. If the process dies between the two, the trail has
the decision without an outcome. The entry of the history then says more.
"""

import logging
import time
from collections.abc import Callable

from history.store import CLAIM_BATCH
from history.store.decisions import Decided, Ended, OperatorDecision
from history.store.parking import ParkedLabel, Parking
from history.support.rendering import text_of

_log = logging.getLogger(__name__)

#: How long outcomes are gathered for one record, in seconds: a record for each makes the trail too long.
GATHERED = 1.0

#: How much of the outcome of a message is stored, in characters.
OUTCOME_TEXT = 300


class Outcomes:
    """Gathers outcomes and writes them: the first immediately, others after at most a second."""

    def __init__(
        self, lot: Parking, decision: OperatorDecision, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lot, self._decision, self._clock = lot, decision, clock
        self._gathered: list[tuple[ParkedLabel, str, bool]] = []
        self._written_at: float | None = None
        self._number = 0

    async def add(self, label: ParkedLabel, text: str, *, closed: bool) -> None:
        """Note the outcome of a message, and whether it is no longer parked."""
        self._gathered.append((label, text[:OUTCOME_TEXT], closed))
        now = self._clock()
        is_due = self._written_at is None or now - self._written_at >= GATHERED
        if is_due or len(self._gathered) >= CLAIM_BATCH:
            self._written_at = now
            await self.write()

    async def write(self) -> None:
        """Write the gathered outcomes; a failure is logged, and repeated with the next ones."""
        for name in dict.fromkeys(label.trigger_name for label, _, _ in self._gathered):
            mine = [one for one in self._gathered if one[0].trigger_name == name][:CLAIM_BATCH]
            try:
                await record(self._lot, name, self._step(), mine)
            except Exception as error:  # noqa: BLE001  (any error of a lot: what has run stays run)
                _log.warning("trigger %s: outcomes of decisions were not written: %s", name, text_of(error))
            else:
                self._gathered = [one for one in self._gathered if one not in mine]

    def _step(self) -> OperatorDecision:
        self._number += 1
        token = self._decision.token
        changes = {"token": f"{token}/outcome/{self._number}", "outcome_of": token.partition("/")[0]}
        return self._decision.model_copy(update=changes)


async def record(
    lot: Parking, trigger: str, step: OperatorDecision, outcomes: list[tuple[ParkedLabel, str, bool]]
) -> None:
    """Add a record of the outcomes of a trigger's messages; change nothing else."""
    texts = dict.fromkeys((text, closed) for _, text, closed in outcomes)
    ended = tuple(
        Ended(text, closed, tuple(label.id for label, *how in outcomes if how == [text, closed]))
        for text, closed in texts
    )
    chosen = [Decided(label.id, label.uuid) for label, _, _ in outcomes]
    await lot.decide(trigger, OperatorDecision.model_validate({**step.model_dump(), "ended": ended}), chosen)
