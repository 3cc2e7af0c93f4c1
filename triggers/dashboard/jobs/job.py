"""A decision in progress: what it has done for each trigger, and how it is stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from threading import Event, Lock

from history.store.decisions import OperatorDecision
from history.store.parking import ParkedLabel
from triggers.operations.pacing import RunPace

#: How many of the messages that a job leaves parked are named.
NAMED = 50


@dataclass(slots=True)
class Share:
    """The work of a job on ``total`` messages of one trigger: how many are closed, why others stay parked.

    ``error`` is the reason of an abort; the remaining messages stay parked then. ``rest`` are the messages
    that have not had their turn when it was aborted or cancelled.
    """

    trigger: str
    total: int
    begun: bool = False
    closed: int = 0
    left: int = 0
    why_left: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    error: str | None = None
    finished: bool = False
    rest: Sequence[ParkedLabel] = ()

    def close(self, count: int) -> None:
        """Count messages that are not parked any more."""
        self.closed += count

    def leave(self, label: ParkedLabel, why: str) -> None:
        """Count a message that stays parked."""
        self.left += 1
        if len(self.why_left) < NAMED:
            self.why_left.append((label.uuid or label.id, why))


@dataclass(slots=True)
class DecisionJob:
    """One decision, and the share of each trigger in it.

    ``pace`` limits how many messages run in a second; ``cancelled_by`` is the person who cancelled it.
    """

    decision: OperatorDecision
    shares: Sequence[Share]
    key: str = field(default_factory=lambda: token_hex(8))
    finished: Event = field(default_factory=Event)
    #: Called after all of it has ended.
    ended: Callable[["DecisionJob"], None] | None = None
    pace: RunPace | None = None
    cancelled_by: str | None = None
    _taking: Lock = field(default_factory=Lock)

    @property
    def triggers(self) -> Sequence[str]:
        """The triggers of its messages."""
        return [share.trigger for share in self.shares]

    @property
    def total(self) -> int:
        """How many messages it has."""
        return sum(share.total for share in self.shares)

    @property
    def closed(self) -> int:
        """How many of them are not parked any more."""
        return sum(share.closed for share in self.shares)

    @property
    def left(self) -> int:
        """How many of them stay parked."""
        return sum(share.left for share in self.shares)

    @property
    def rest(self) -> Sequence[ParkedLabel]:
        """The messages that have not had their turn, after it was aborted or cancelled."""
        return [label for share in self.shares for label in share.rest]

    def take_rest(self) -> Sequence[ParkedLabel]:
        """Return them to one caller, who decides about them again."""
        with self._taking:
            rest = self.rest
            for share in self.shares:
                share.rest = ()
        return rest

    @property
    def begun(self) -> bool:
        """Whether it has had a turn."""
        return any(share.begun for share in self.shares)

    def cancel(self, by: str) -> bool:
        """Let no other message have its turn; False if it has ended, or was cancelled before."""
        if self.finished.is_set() or self.cancelled_by is not None:
            return False
        self.cancelled_by = by
        return True

    @property
    def error(self) -> str | None:
        """Why it was aborted, for at least one of its triggers."""
        return next((share.error for share in self.shares if share.error is not None), None)
