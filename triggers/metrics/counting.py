"""Counts of outcomes, under the names of :class:`~history.store.control.Counts`."""

from collections import Counter

from triggers.detection.table import Status
from triggers.service.outcome import Outcome

#: The names of the statuses in the statistics.
_NAMES = {status: status.value.lower() for status in Status}


def has_failed(outcome: Outcome) -> bool:
    """Whether the last run of the service failed."""
    return (outcome.executed or outcome.status is Status.NEW) and outcome.error is not None


def count(totals: Counter[str], outcome: Outcome, *, failed: bool) -> None:
    """Add the result of a message; in place, because every message calls this."""
    if outcome.rejected:
        totals["rejected"] += 1
    elif outcome.status is not None:
        totals[_NAMES[outcome.status]] += 1
    if not outcome.acknowledge:
        totals["recovered"] += 1
    if failed:
        totals["failed"] += 1
    if outcome.attempts:
        totals["runs"] += outcome.attempts
        totals["retried"] += outcome.attempts - 1
        totals["microseconds"] += round(outcome.seconds * 1_000_000)
