"""What the document history says of a message: nothing of it, an entry, or a claim of our own."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from history.entry import Entry, EntryOutcome, Fence, State
from triggers.detection.table import Found, HistoryUse

T = TypeVar("T")


def found_in(entry: Entry | None) -> Found:
    """Return what a history holds of a uuid, in the table's terms."""
    if entry is None:
        return Found.NOTHING
    if entry.state is State.STARTED:
        return Found.IN_PROGRESS if entry.lease_alive else Found.STARTED
    return Found.COMPLETED_FAILED if entry.outcome is EntryOutcome.FAILED else Found.COMPLETED_OK


def one_for_each(answers: Sequence[T], asked: Sequence[object]) -> Sequence[T]:
    """Return what a store answered, which may be somebody's own.

    Raises:
        ValueError: it is not one answer for each of what it was asked.
    """
    if len(answers) != len(asked):
        raise ValueError(f"the history gave {len(answers)} answers where it was asked for {len(asked)}")
    return answers


# Made for every message, and a named tuple is cheaper than a frozen dataclass.
class Finding(NamedTuple):
    """What was found when a message was claimed. Replaced as a whole, never written to.

    ``found`` is the entry that was there before, and ``fence`` that of the entry as it stands: our own, under
    ``owner``, where nothing was found or what was found has been taken over. ``instead`` is what the
    table is told in the place of an entry: that there may have been one, or that it is another body's.
    """

    history: HistoryUse
    found: Entry | None = None
    fence: Fence | None = None
    owner: str | None = None
    instead: Found | None = None

    @property
    def recorded(self) -> bool:
        """Whether there is an entry in which the end of a run is to be written."""
        return self.fence is not None and self.history is HistoryUse.ON

    def taken_over(self, fence: Fence, owner: str) -> "Finding":
        """Return what stands once the entry that was found is our own."""
        return Finding(self.history, self.found, fence, owner)


#: Of a trigger without a document history; of a message that it was not asked about; of one that it gave no
#: answer about.
NO_HISTORY = Finding(HistoryUse.OFF)
NOT_ASKED = Finding(HistoryUse.ON)
UNREACHABLE = Finding(HistoryUse.UNREACHABLE)
