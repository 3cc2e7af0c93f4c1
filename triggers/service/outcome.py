"""What became of one delivery."""

from typing import Any, NamedTuple

from triggers.detection.table import Status
from triggers.events import RetrievalFailureEvent


# Made for every message, and a named tuple four times faster than a frozen dataclass.
class Outcome(NamedTuple):
    """What became of one delivery.

    ``status`` is None when the message is undecided or rejected. ``acknowledge`` False means recover: the
    provider is to deliver it again, ``recover_after`` seconds later at the earliest. ``reason`` names the row
    of the decision table. ``result`` is whatever the service returned and ``error`` whatever it raised,
    untouched. ``join`` is "waiting" for a message that a join keeps, "discarded" for one that it has no use
    for. ``attempts`` counts the runs of the service, and ``seconds`` is how long they took, pauses included.
    """

    status: Status | None
    executed: bool
    acknowledge: bool
    reason: str
    row: int
    rejected: bool = False
    suspend: bool = False
    parked: bool = False
    recover_after: float = 0.0
    result: Any = None
    error: BaseException | None = None
    event: RetrievalFailureEvent | None = None
    uuid: str | None = None
    attempts: int = 0
    seconds: float = 0.0
    join: str | None = None


# Not in its body: a type checker would take it for a field.
Outcome.__module__ = "triggers"
