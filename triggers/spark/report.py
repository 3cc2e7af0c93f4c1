"""What became of the rows of one micro-batch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """How many rows of a micro-batch were what: ``rows`` is the sum of the other counts.

    ``new`` rows were handed to the user's function, which succeeded. ``rejected`` rows were given up, with
    a retrieval failure event each, and parked; so are all new rows where the function failed fatally under
    ``on_fatal="reject"``. ``in_doubt`` rows were parked, or run as ``in_doubt="execute"`` says.

    ``unmatched`` rows are those that a trigger's selector, filter or routes did not want.

    ``seconds`` is the whole time from the call to the completion; ``attempt`` is 1 unless the batch was tried
    before; ``notes`` is what somebody should know, such as that the checkpoint was reset.
    """

    batch_id: int
    query: str
    rows: int
    new: int = 0
    duplicate: int = 0
    in_doubt: int = 0
    rejected: int = 0
    unmatched: int = 0
    seconds: float = 0.0
    attempt: int = 1
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The counts by name, for the batch ledger."""
        return {
            "rows": self.rows,
            "new": self.new,
            "duplicate": self.duplicate,
            "in_doubt": self.in_doubt,
            "rejected": self.rejected,
            "unmatched": self.unmatched,
        }

    def __str__(self) -> str:
        counts = f"{self.rows} rows, {self.new} new, {self.duplicate} duplicate"
        more = f", {self.in_doubt} in doubt, {self.rejected} rejected in {self.seconds:.2f} s"
        return f"batch {self.batch_id} of {self.query}: {counts}{more}"


def tell(report: BatchReport, listener: Callable[[BatchReport], Any] | None, trigger: str) -> None:
    """Log the report of a completed batch, and hand it to its listener, whose failure touches no batch."""
    _log.info("%s", report, extra={"trigger": trigger, **report.counts})
    if listener is None:
        return
    try:
        listener(report)
    except Exception:  # noqa: BLE001  (user code; the batch is completed)
        _log.exception("on_batch failed for %s; the batch is completed", report, extra={"trigger": trigger})
