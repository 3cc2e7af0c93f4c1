"""The finding of the document history about a message: nothing, an entry, or our own claim."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from history.entry import Entry, EntryOutcome, Fence, State
from triggers.detection.facts import Found, HistoryUse

T = TypeVar("T")


def found_in(entry: Entry | None) -> Found:
    """Return what a history holds for a uuid, in the table's terms."""
    if entry is None:
        return Found.NOTHING
    if entry.state is State.STARTED:
        return Found.IN_PROGRESS if entry.lease_alive else Found.STARTED
    return Found.COMPLETED_FAILED if entry.outcome is EntryOutcome.FAILED else Found.COMPLETED_OK


def one_for_each(answers: Sequence[T], asked: Sequence[object]) -> Sequence[T]:
    """Return the answers of a store, which may be the user's own class.

    Raises:
        ValueError: there is not one answer for each question.
    """
    if len(answers) != len(asked):
        raise ValueError(f"the history gave {len(answers)} answers where it was asked for {len(asked)}")
    return answers


# Made for every message; a named tuple is cheaper than a frozen dataclass.
class Finding(NamedTuple):
    """The result of the claim of a message. Replaced as a whole, never changed.

    ``found`` is the entry that existed before. ``fence`` is the fence of the present entry. It is our own,
    under ``owner``, if nothing was found or the found entry was taken over. ``instead`` is what the table
    receives in place of an entry: there may have been an entry, or the entry belongs to another body.
    """

    history: HistoryUse
    found: Entry | None = None
    fence: Fence | None = None
    owner: str | None = None
    instead: Found | None = None

    @property
    def recorded(self) -> bool:
        """Whether there is an entry in which the end of a run is to be recorded."""
        return self.fence is not None and self.history is HistoryUse.ON

    def taken_over(self, fence: Fence, owner: str) -> "Finding":
        """Return the finding after the found entry became our own."""
        return Finding(self.history, self.found, fence, owner)


#: Without a document history; for a message that it was not asked about; and if it did not answer.
NO_HISTORY = Finding(HistoryUse.OFF)
NOT_ASKED = Finding(HistoryUse.ON)
UNREACHABLE = Finding(HistoryUse.UNREACHABLE)
