"""When a message that failed transiently comes again: the pause grows with each delivery."""

from collections import OrderedDict
from datetime import timedelta

from triggers.detection.aftermath import Ending
from triggers.detection.table import Answer
from triggers.pipeline.run import Run
from triggers.service.failures import Redelivery

#: How many messages are remembered at most if their provider counts no deliveries.
MOST_REMEMBERED = 10_000

#: The ends after which a message is tried again, but not by the worker that has it now.
_AGAIN = frozenset({Ending.TRANSIENT, Ending.FATAL})


class Tries:
    """Counts the tries of messages if their provider counts no deliveries; else it knows the number."""

    def __init__(self) -> None:
        self.counts: OrderedDict[str | None, int] = OrderedDict()

    def note(self, run: Run, redelivery: Redelivery | None) -> None:
        """Set how long the provider keeps a message that is recovered."""
        if run.acknowledge:
            self.counts.pop(run.message.uuid, None)
        elif redelivery is not None and _is_tried_again(run):
            run.patience = timedelta(seconds=redelivery.pause(self._number(run)))

    def _number(self, run: Run) -> int:
        if run.message.delivery_count >= 1:
            return run.message.delivery_count
        number = self.counts[run.message.uuid] = self.counts.pop(run.message.uuid, 0) + 1
        if len(self.counts) > MOST_REMEMBERED:
            self.counts.popitem(last=False)
        return number


def _is_tried_again(run: Run) -> bool:
    """Whether the next delivery runs the service, and its trigger goes on meanwhile."""
    end = run.end
    if end is None or end.ending not in _AGAIN or end.suspension is not None:
        return False
    after = end.aftermath
    return after.answer is Answer.RECOVER and after.entry is None and not after.lost
