"""Wait for a run of the same message that is alive elsewhere (row 12), for callers who can wait."""

from datetime import timedelta
from time import monotonic

from history.message import Message
from triggers.detection.table import IN_PROGRESS
from triggers.pipeline.protocol import Pipeline
from triggers.service.checking import check_duration, pointing
from triggers.service.outcome import Outcome

#: The pauses between looks, in seconds: a share of the time already waited, between these limits.
_SHORTEST = 0.01
_LONGEST = 0.5
_SHARE = 0.1


async def handle_and_wait(pipeline: Pipeline, message: Message, wait: timedelta) -> Outcome:
    """Handle a message; while it runs elsewhere, look at it again, at most for the time ``wait``.

    Each look is like a redelivery: one claim, which finds the run still alive, ended or dead.

    Raises:
        ConfigurationError: ``wait`` is not a duration.
    """
    with pointing():
        check_duration("wait", wait, none=True)
    begun = monotonic()
    while True:
        outcome = await pipeline.handle(message)
        waited = monotonic() - begun
        left = wait.total_seconds() - waited
        if outcome.row != IN_PROGRESS or left <= 0:
            return outcome
        await pipeline.shell.sleep(min(max(waited * _SHARE, _SHORTEST), _LONGEST, left))
