"""The result of one delivery."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from history.message import Message
from triggers.detection.suspension import Suspension
from triggers.detection.table import Status
from triggers.events import RetrievalFailureEvent

#: The logger of unusual verdicts that need no action, such as duplicates; its level is INFO.
VERDICT_LOGGER = "triggers.verdicts"


# Made for every message; a named tuple is four times faster than a frozen dataclass.
class Outcome(NamedTuple):
    """The result of one delivery.

        outcome = book.handle(Message(body={"amount": 12}, uuid="order-17"))
        print(outcome.status, outcome.reason)

    ``status`` is None if the message is undecided or rejected. ``reason`` says why in a sentence, which ends
    with the row of the decision table. If ``acknowledge`` is False, the provider must deliver the message
    again, at least ``recover_after`` seconds later. ``suspension`` says how the trigger is suspended, such as
    "fatal"; it is None, and ``suspend`` is False, if it is not.

    ``result`` is what the service returned, and ``error`` is what it raised, both unchanged. ``attempts``
    counts the runs of the service. ``seconds`` is the time of these runs, with the pauses between them.

    ``join`` is "waiting" if a join keeps the message, and "discarded" if a join does not need it. ``expired``
    is True if the JMSExpiration of the message was over, so that nobody wanted it.

    ``would_have`` is for a message that ran in shadow. It is "duplicate", "in doubt", "in progress",
    "rejected" or "undecided" if detection would have stopped the message, and None if not.

    ``result_kept`` is True if this message is a duplicate and ``result`` is the result of the first run. If
    results are kept and the first run failed for good, ``error`` is a :class:`~triggers.FailedBeforeError`.
    So it is for a message that is given up because its transacted service failed for good before.
    """

    status: Status | None
    executed: bool
    acknowledge: bool
    reason: str
    row: int
    rejected: bool = False
    suspension: Suspension | None = None
    parked: bool = False
    recover_after: float = 0.0
    result: Any = None
    error: BaseException | None = None
    event: RetrievalFailureEvent | None = None
    uuid: str | None = None
    attempts: int = 0
    seconds: float = 0.0
    join: str | None = None
    expired: bool = False
    would_have: str | None = None
    result_kept: bool = False

    @property
    def kind(self) -> str:
        """Its kind in counts: "ok", "failed", "duplicate", "in doubt", "recovered", ..."""
        if self.rejected:
            return "rejected"
        if not self.acknowledge:
            return "recovered"
        if self.join is not None:
            return self.join
        if self.executed or self.status is Status.NEW:  # also if the arguments do not fit
            return "ok" if self.error is None else "failed"
        if self.status is None:
            return "expired" if self.expired else "unmatched"
        return self.status.value.lower().replace("_", " ")

    @property
    def suspend(self) -> bool:
        """Whether the trigger is to be suspended."""
        return self.suspension is not None


# Not in its body: there a type checker would see a field.
Outcome.__module__ = "triggers"

#: Receives a duplicate; awaited under asyncio.
DuplicateHook = Callable[[Message, Outcome], Awaitable[None] | None]
