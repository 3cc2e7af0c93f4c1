"""A decision that comes too late leaves the entry as it was: the message must not run again by itself."""

from collections.abc import Callable

import pytest

from history import MemoryHistory, Message, Parked, ParkedKind
from history.beside.parking import Parking
from history.bridge import drive
from history.entry import Entry, EntryOutcome, State
from history.store import DecisionKind, OperatorDecision, ParkedLabel
from history.store.parking import Evidence
from triggers.pipeline.parking.decisions import GONE, decide

DONE = OperatorDecision(kind=DecisionKind.DONE, by="ann")


def fails(history: MemoryHistory) -> int:
    (claim,) = drive(history.claim("book", ["a"], "host-1:1:a"))
    drive(history.complete("book", "a", claim.fence, EntryOutcome.FAILED))
    return claim.fence


def is_forgotten(_: MemoryHistory) -> None:
    """Leave no entry behind."""


def starts(history: MemoryHistory) -> int:
    (claim,) = drive(history.claim("book", ["a"], "host-1:1:a"))
    return claim.fence


def decided(history: MemoryHistory, fence: int | None, lot: Parking) -> str | None:
    """Settle a message as done that another person has decided about, and return why it is left."""
    parked = Parked(
        id="1",
        trigger_name="book",
        kind=ParkedKind.REJECTED,
        reason="it failed",
        uuid="a",
        message=Message(body={}, uuid="a"),
        evidence=Evidence(fence=fence),
    )
    (verdict,) = drive(decide([ParkedLabel.of(parked)], DONE, lot=lot, store=history))
    return verdict.left


def entry_of(history: MemoryHistory) -> Entry | None:
    (entry,) = drive(history.lookup("book", ["a"]))
    return entry


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside", "another-lot"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(fails, (State.COMPLETED, EntryOutcome.FAILED)), (is_forgotten, None), (starts, (State.STARTED, None))],
    ids=["failed", "absent", "started"],
)
def test_the_entry_of_a_message_that_is_not_parked_any_more_stays_as_it_was(
    before: Callable[[MemoryHistory], int | None],
    after: tuple[State, EntryOutcome | None] | None,
    *,
    elsewhere: bool,
) -> None:
    history = MemoryHistory()
    fence = before(history)

    left = decided(history, fence, MemoryHistory().parking if elsewhere else history.parking)

    entry = entry_of(history)
    assert left == GONE
    assert (None if entry is None else (entry.state, entry.outcome)) == after
