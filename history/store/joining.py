"""Joins: messages of several destinations that wait for each other, or of which only the first one counts.

Messages with the same *activation* belong together. For a join of *all*, each is a part; a period begins with
its first part and is READY when every destination has given one, or EXPIRED when its time-out was faster.

    absent --first part--> OPEN --last part--> READY ----finish--> absent
                           OPEN --time-out---> EXPIRED --finish--> absent

Adding a part and completing its entry in the document history are one atomic step, and only a STARTED entry
with the part's own fence is completed. So a part is in one period at most, however often its message is
delivered, and a worker that comes late can add nothing: whatever it has lost is completed by somebody else.

A READY or EXPIRED period is handed to one owner at a time, who *holds* it for a while; when the hold is over,
the owner counts as dead and the period is due again. For a join of *only one*, the store remembers who was
the first of an activation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from history.entry import Fence
from history.message import Message, Uuid


class PeriodState(StrEnum):
    """Whether a period waits for parts, is to be run, or was too slow."""

    OPEN = "open"
    READY = "ready"
    EXPIRED = "expired"


class Addition(StrEnum):
    """What became of a part that was to be added."""

    #: It is stored and its entry is COMPLETED ok; so it was when the call was sent twice.
    KEPT = "kept"
    #: Another message has its place in the open period; its entry is STARTED as before.
    TAKEN = "taken"
    #: Its entry is not STARTED with its fence any more; nothing was stored.
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPart:
    """One message of a join; ``fence`` is that of its claim in the document history."""

    activation: str
    destination: str
    fence: Fence
    message: Message

    @property
    def uuid(self) -> Uuid:
        """The message's identity; what has none is not claimed, and is no part of anything."""
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
    """What a period waits for: a part of each destination, and for how long (None: for ever)."""

    destinations: Sequence[str]
    time_out: timedelta | None


@dataclass(frozen=True, slots=True)
class Hold:
    """Who is handed a period, and for how long it is presumed alive when nothing is heard of it."""

    owner: str
    duration: timedelta


@dataclass(frozen=True, slots=True)
class Added:
    """The answer to an added part; when it was the last one, ``period`` is held by whoever asked."""

    addition: Addition
    period: Period | None = field(default=None)


class Joining(Protocol):
    """Keeps the parts of joins, beside the document history whose entries it completes.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer, and
    may be sent twice without harm. Time comes from the store's server. A time-out is counted from the first
    part of a period; one that is over ends the period, although nobody may have looked at it yet.
    """

    async def add(self, trigger: str, part: JoinPart, terms: JoinTerms, hold: Hold) -> Added:
        """Store a part in the open period of its activation and complete its entry, or do neither.

        The last part makes the period READY, and held by ``hold``; the next message begins another period.
        """
        ...

    async def due(self, trigger: str, hold: Hold, *, limit: int = 10) -> Sequence[Period]:
        """Hand out READY and EXPIRED periods that nobody holds; the entries of EXPIRED ones are failed then.

        One cheap round trip when there is none.
        """
        ...

    async def keep(self, trigger: str, numbers: Sequence[int], hold: Hold) -> None:
        """Hold periods for ``hold.duration`` from now, where its owner still does; zero gives them back."""
        ...

    async def finish(self, trigger: str, number: int) -> bool:
        """Forget a READY or EXPIRED period and its parts; False when it was forgotten before."""
        ...

    async def waiting(self, trigger: str, *, limit: int = 100) -> Sequence[Period]:
        """Return the periods that are not finished, oldest first."""
        ...

    async def first(self, trigger: str, activation: str, uuid: str, *, time_out: timedelta | None) -> bool:
        """Tell whether this message is the first of its activation, which it stays until the time-out."""
        ...

    async def purge(self, trigger: str) -> int:
        """Forget who was first where the time-out is over; return how many, where the store can tell."""
        ...
