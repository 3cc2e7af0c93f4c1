"""Joins: messages of several destinations wait for each other, or only the first of them counts.

Messages with the same *activation* belong together. For a join of *all*, each is a part. A period begins with
its first part. It is READY when it has a part of every destination, or EXPIRED if its time-out comes first.

    absent --first part--> OPEN --last part--> READY ----finish--> absent
                           OPEN --time-out---> EXPIRED --finish--> absent

Adding a part and completing its entry in the document history are one atomic step, and only a STARTED entry
with the part's own fence is completed. So a part is in one period at most, however often its message is
delivered. A late worker can add nothing: if it has lost an entry, another worker completes that entry.

The store hands a READY or EXPIRED period to one owner at a time, who *holds* it for a while. When the hold is
over, the owner counts as dead, and the period is due again. For a join of *only one*, the store remembers the
first message of an activation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from history.entry import Fence
from history.message import Message, Uuid


class PeriodState(StrEnum):
    """Whether a period waits for parts, is ready to run, or was too slow."""

    OPEN = "open"
    READY = "ready"
    EXPIRED = "expired"


class Addition(StrEnum):
    """The result of adding a part."""

    #: It is stored, and its entry is COMPLETED ok. A call that is sent twice gets the same result.
    KEPT = "kept"
    #: Another message has its place in the open period; its entry is STARTED as before.
    TAKEN = "taken"
    #: Its entry is no longer STARTED with its fence; nothing was stored.
    STALE = "stale"
    #: The record of its open period cannot be read; its entry is STARTED as before.
    SPOILT = "spoilt"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPart:
    """One message of a join; ``fence`` is that of its claim in the document history."""

    activation: str
    destination: str
    fence: Fence
    message: Message

    @property
    def uuid(self) -> Uuid:
        """The message's identity; a message without one is never claimed, and never a part."""
        assert self.message.uuid is not None  # noqa: S101
        return Uuid(self.message.uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The parts of one activation that belong together, by destination.

    ``number`` grows and is never used again. ``taken`` counts how often the period was handed to an owner.
    """

    number: int
    activation: str
    state: PeriodState
    started_at: datetime
    parts: Mapping[str, JoinPart]
    taken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTerms:
    """The terms of a period: it waits for a part of each destination until its time-out (None: forever)."""

    destinations: Sequence[str]
    time_out: timedelta | None


@dataclass(frozen=True, slots=True)
class Hold:
    """The owner that gets a period, and for how long it counts as alive without a sign of life."""

    owner: str
    duration: timedelta


@dataclass(frozen=True, slots=True)
class Added:
    """The answer to an added part. If it was the last part, the caller now holds ``period``."""

    addition: Addition
    period: Period | None = field(default=None)
