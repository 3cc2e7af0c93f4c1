"""Which message may run next, so that each group runs one after the other, in the order of the destination.

Pure: no clock, no locks, no provider. A message gets its place when it arrives for the first time; one that
was given back keeps its place, and until it has come again nothing of its group that stands behind it runs.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from triggers.providers.provider import Arrival, Received

#: The one group of a trigger that runs everything in order.
EVERYTHING = ("everything",)


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One delivery in its group; ``put_off`` is how often it was given back only for want of room."""

    received: Received
    place: int
    group: Hashable
    put_off: int = 0


@dataclass(frozen=True, slots=True)
class _Back:
    """A place whose message was given back, and is expected again about then, in monotonic seconds."""

    due: float
    put_off: int


@dataclass(slots=True)
class _Line:
    """One group: who waits here, who was given back, and who is ready or runs."""

    waiting: list[tuple[int, Ticket]] = field(default_factory=list[tuple[int, Ticket]])
    back: dict[int, _Back] = field(default_factory=dict[int, _Back])
    busy: Ticket | None = None
    _places: list[int] = field(default_factory=list[int])
    _by_identity: dict[Hashable, list[int]] = field(default_factory=dict[Hashable, list[int]])

    @property
    def first_back(self) -> int | None:
        """The smallest place that was given back."""
        while self._places and self._places[0] not in self.back:
            heappop(self._places)
        return self._places[0] if self._places else None

    @property
    def is_blocked(self) -> bool:
        """Whether what waits here must wait for a message that was given back."""
        first = self.first_back
        return first is not None and (not self.waiting or self.waiting[0][0] > first)

    def note_back(self, ticket: Ticket, back: _Back) -> None:
        self.back[ticket.place] = back
        heappush(self._places, ticket.place)
        heappush(self._by_identity.setdefault(identity_of(ticket.received), []), ticket.place)

    def come_again(self, received: Received) -> tuple[int, _Back] | None:
        """Return the place of a message that was given back; None for one that was not."""
        identity = identity_of(received)
        places = self._by_identity.get(identity)
        if not places:
            return None
        place = heappop(places)
        if not places:
            del self._by_identity[identity]
        return place, self.back.pop(place)


class Groups:
    """All messages that one active consumer knows of; not safe between threads by itself.

    Args:
        serial: everything is one group, whatever its messages say.
    """

    def __init__(self, *, serial: bool) -> None:
        self.serial = serial
        #: How many tickets became ready since somebody set this to 0.
        self.fresh = 0
        #: How many wait or are ready; what runs is not among them.
        self.waiting = 0
        #: A message that was put off is the next of its group, and its delay need not be waited for.
        self.recall = False
        self._places = count()
        self._lines: dict[Hashable, _Line] = {}
        self._ready: list[tuple[int, Ticket]] = []

    def arrive(self, received: Received) -> None:
        """Queue a delivery in its group, at the place that it had already, if it was given back."""
        group = self._group_of(received)
        self.waiting += 1
        if group is None:
            self._make_ready(Ticket(received, next(self._places), None))
            return
        line = self._lines.setdefault(group, _Line())
        again = line.come_again(received)
        place, put_off = (next(self._places), 0) if again is None else (again[0], again[1].put_off)
        heappush(line.waiting, (place, Ticket(received, place, group, put_off)))
        self._advance(group, line)

    def take(self) -> Ticket | None:
        """Return the next ticket that may run, which is :meth:`done` or given back afterwards; maybe none."""
        if not self._ready:
            return None
        self.waiting -= 1
        return heappop(self._ready)[1]

    def done(self, ticket: Ticket) -> None:
        """Note that a ticket that was taken is acknowledged: the next of its group may run."""
        line = self._lines.get(ticket.group)
        if ticket.group is None or line is None:
            return
        line.busy = None
        first = line.first_back
        self.recall = self.recall or (line.is_blocked and first is not None and line.back[first].put_off > 0)
        self._advance(ticket.group, line)

    def give_back(self, ticket: Ticket, due: float) -> None:
        """Note that a ticket that was taken goes back, and that its group waits until it has come again."""
        line = self._lines.get(ticket.group)
        if ticket.group is None or line is None:
            return
        line.busy = None
        line.note_back(ticket, _Back(due, ticket.put_off))

    def put_off(self, keep: int, now: float, delays: tuple[float, float]) -> list[tuple[Ticket, float]]:
        """Give back what waits in blocked groups, the last first, until no more than ``keep`` do so.

        Returns them in order, with their delays: the first of ``delays`` in seconds, twice as long each time
        one is put off again, at most the second.
        """
        blocked = sorted(
            (one for line in self._lines.values() if line.is_blocked for one in line.waiting),
            key=lambda one: one[0],
        )
        put: list[tuple[Ticket, float]] = []
        for place, ticket in blocked[keep:]:
            delay = min(delays[0] * 2**ticket.put_off, delays[1])
            line = self._lines[ticket.group]
            line.waiting.remove((place, ticket))
            heapify(line.waiting)
            line.note_back(ticket, _Back(now + delay, ticket.put_off + 1))
            self.waiting -= 1
            put.append((ticket, delay))
        return put

    def empty(self) -> list[Received]:
        """Forget everything; return what had not been taken, in order."""
        left = self._ready + [one for line in self._lines.values() for one in line.waiting]
        self._lines, self._ready, self.waiting, self.recall = {}, [], 0, False
        return [ticket.received for _, ticket in sorted(left, key=lambda one: one[0])]

    @property
    def ready(self) -> bool:
        """Whether anything may run now."""
        return bool(self._ready)

    @property
    def outstanding(self) -> int:
        """How many were given back and have not come again."""
        return sum(len(line.back) for line in self._lines.values())

    def next_due(self) -> float | None:
        """When the first of those is expected, in monotonic seconds."""
        return min(self._dues(), default=None)

    def _dues(self) -> Iterable[float]:
        return (back.due for line in self._lines.values() for back in line.back.values())

    def _group_of(self, received: Received) -> Hashable:
        if self.serial:
            return EVERYTHING
        return received.message.group_id if isinstance(received, Arrival) else None

    def _advance(self, group: Hashable, line: _Line) -> None:
        """Make the first of a group ready, if nothing stands before it; forget a group that is empty."""
        if line.busy is None and line.waiting and not line.is_blocked:
            _, line.busy = heappop(line.waiting)
            self._make_ready(line.busy)
        if line.busy is None and not line.waiting and not line.back:
            del self._lines[group]

    def _make_ready(self, ticket: Ticket) -> None:
        heappush(self._ready, (ticket.place, ticket))
        self.fresh += 1


def identity_of(received: Received) -> Hashable:
    """Return what a message is known by when it comes again; two that are equal in it are copies."""
    if isinstance(received, Arrival):
        return received.message.message_id, received.message.uuid
    return received.handle if isinstance(received.handle, Hashable) else None
