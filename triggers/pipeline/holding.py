"""Hold a trigger after a fatal failure (``suspend_on_error``), before the failure is recorded.

After the record, the message does not run again. If the process died between the record and the command that
holds the trigger, no consumer would know that it is held, and the messages behind the failed one would run.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from history.beside.kept import beside_of
from history.store.control import Verb
from triggers.detection.suspension import Suspension
from triggers.pipeline.run import Run

if TYPE_CHECKING:
    from history.sql.transaction import SqlTransaction

#: Holds the trigger for this reason in all its consumers, until a person resumes it.
HoldTrigger = Callable[[str], Awaitable[None]]


def reason_to_hold(runs: Sequence[Run]) -> str | None:
    """Return why these runs suspend the trigger until a person resumes it; None if they do not."""
    for run in runs:
        if run.end is not None and run.end.suspension is Suspension.FATAL:
            return run.reason
    return None


async def hold_inside(transaction: "SqlTransaction", trigger: str, reason: str) -> None:
    """Give the command that holds a trigger as a part of the transaction that records the failure."""
    kept = beside_of(transaction.history)
    if kept is not None:
        transaction.resume()
        await kept.control.order(Verb.HOLD, [trigger], reason=reason)
