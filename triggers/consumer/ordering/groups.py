"""Which message may run next, so that each group runs one after the other, in the order of the destination.

Pure: no clock, no locks, no provider. A message gets its number when it arrives for the first time. A message
that was recovered keeps its number. Until it has come again, no message of its group with a greater number
runs.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import count
from operator import itemgetter

from triggers.providers.provider import Arrival, Received

#: The only group of a trigger that runs everything in order.
EVERYTHING = ("everything",)


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One delivery: its position in the order of all, and the key of its group.

    ``put_off`` is how often it was recovered only for lack of room.
    """

    received: Received
    number: int
    key: Hashable
    put_off: int = 0


@dataclass(frozen=True, slots=True)
class _Back:
    """A message that was recovered, and when it is expected again, in monotonic seconds."""

    due: float
    put_off: int


@dataclass(slots=True)
class _Group:
    """One group: its waiting messages, recovered ones, and the message that is ready or runs."""

    waiting: list[tuple[int, Ticket]] = field(default_factory=list[tuple[int, Ticket]])
    back: dict[int, _Back] = field(default_factory=dict[int, _Back])
    busy: Ticket | None = None
    _numbers: list[int] = field(default_factory=list[int])
    _by_identity: dict[Hashable, list[int]] = field(default_factory=dict[Hashable, list[int]])

    @property
    def first_back(self) -> int | None:
        """The smallest number that was recovered."""
        while self._numbers and self._numbers[0] not in self.back:
            heappop(self._numbers)
        return self._numbers[0] if self._numbers else None

    @property
    def is_blocked(self) -> bool:
        """Whether its waiting messages must wait for a message that was recovered."""
        first = self.first_back
        return first is not None and (not self.waiting or self.waiting[0][0] > first)

    def note_back(self, ticket: Ticket, back: _Back) -> None:
        self.back[ticket.number] = back
        heappush(self._numbers, ticket.number)
        heappush(self._by_identity.setdefault(identity_of(ticket.received), []), ticket.number)

    def numbers_of(self, received: Received) -> Sequence[int]:
        return self._by_identity.get(identity_of(received), ())

    def come_again(self, received: Received) -> tuple[int, _Back] | None:
        """Return the number of a message that was recovered; None for any other message."""
        identity = identity_of(received)
        numbers = self._by_identity.get(identity)
        if not numbers:
            return None
        number = heappop(numbers)
        if not numbers:
            del self._by_identity[identity]
        return number, self.back.pop(number)


class Groups:
    """All messages known to an active consumer; not safe between threads by itself.

    Args:
        serial: everything is one group, whatever its messages say.
    """

    def __init__(self, *, serial: bool) -> None:
        self.serial = serial
        #: How many tickets became ready since a caller set this to 0.
        self.fresh = 0
        #: How many wait or are ready; running ones do not count.
        self.waiting = 0
        #: A message that was put off is the next of its group, and need not wait for its delay.
        self.recall = False
        self._numbers = count()
        self._groups: dict[Hashable, _Group] = {}
        self._ready: list[tuple[int, Ticket]] = []

    def arrive(self, received: Received) -> None:
        """Queue a delivery in its group, under its old number if it was recovered."""
        key = self._key_of(received)
        self.waiting += 1
        if key is None:
            self._make_ready(Ticket(received, next(self._numbers), None))
            return
        group = self._groups.setdefault(key, _Group())
        again = group.come_again(received)
        number, put_off = (next(self._numbers), 0) if again is None else (again[0], again[1].put_off)
        heappush(group.waiting, (number, Ticket(received, number, key, put_off)))
        self._advance(key, group)

    def take(self) -> Ticket | None:
        """Return the next ticket that may run, if any; call :meth:`done` or :meth:`give_back` afterwards."""
        if not self._ready:
            return None
        self.waiting -= 1
        return heappop(self._ready)[1]

    def done(self, ticket: Ticket) -> None:
        """Note that a taken ticket is acknowledged: the next of its group may run."""
        group = self._groups.get(ticket.key)
        if ticket.key is None or group is None:
            return
        group.busy = None
        first = group.first_back
        if group.is_blocked and first is not None and group.back[first].put_off > 0:
            self.recall = True
        self._advance(ticket.key, group)

    def give_back(self, ticket: Ticket, due: float) -> None:
        """Note that a taken ticket is recovered, and that its group waits until it has come again."""
        group = self._groups.get(ticket.key)
        if ticket.key is None or group is None:
            return
        group.busy = None
        group.note_back(ticket, _Back(due, ticket.put_off))

    def expect(self, received: Received, due: float) -> None:
        """Note when a message comes again: its delay begins when the provider receives the call."""
        group = self._groups.get(self._key_of(received))
        if group is None:
            return
        for number in group.numbers_of(received):
            group.back[number] = replace(group.back[number], due=due)

    def put_off(self, keep: int, now: float, delays: tuple[float, float]) -> list[tuple[Ticket, float]]:
        """Give back waiting messages of blocked groups, the last first, until at most ``keep`` wait.

        Returns them in order, with their delays: the first of ``delays`` in seconds, doubled each time that a
        message is put off again, at most the second.
        """
        blocked = sorted(
            (pair for group in self._groups.values() if group.is_blocked for pair in group.waiting),
            key=itemgetter(0),
        )
        put: list[tuple[Ticket, float]] = []
        for number, ticket in blocked[keep:]:
            delay = min(delays[0] * 2**ticket.put_off, delays[1])
            group = self._groups[ticket.key]
            group.waiting.remove((number, ticket))
            heapify(group.waiting)
            group.note_back(ticket, _Back(now + delay, ticket.put_off + 1))
            self.waiting -= 1
            put.append((ticket, delay))
        return put

    def empty(self) -> list[Received]:
        """Forget everything; return the messages that were not taken, in order."""
        left = self._ready + [pair for group in self._groups.values() for pair in group.waiting]
        self._groups, self._ready, self.waiting, self.recall = {}, [], 0, False
        return [ticket.received for _, ticket in sorted(left, key=itemgetter(0))]

    @property
    def ready(self) -> bool:
        """Whether any message may run now."""
        return bool(self._ready)

    @property
    def outstanding(self) -> int:
        """How many were recovered and have not come again."""
        return sum(len(group.back) for group in self._groups.values())

    def next_due(self) -> float | None:
        """When the first of those is expected, in monotonic seconds."""
        return min(self._dues(), default=None)

    def _dues(self) -> Iterable[float]:
        return (back.due for group in self._groups.values() for back in group.back.values())

    def _key_of(self, received: Received) -> Hashable:
        if self.serial:
            return EVERYTHING
        return received.message.group_id if isinstance(received, Arrival) else None

    def _advance(self, key: Hashable, group: _Group) -> None:
        """Make the first of a group ready if nothing blocks it; forget an empty group."""
        if group.busy is None and group.waiting and not group.is_blocked:
            _, group.busy = heappop(group.waiting)
            self._make_ready(group.busy)
        if group.busy is None and not group.waiting and not group.back:
            del self._groups[key]

    def _make_ready(self, ticket: Ticket) -> None:
        heappush(self._ready, (ticket.number, ticket))
        self.fresh += 1


def identity_of(received: Received) -> Hashable:
    """Return the identity by which a message is recognised when it comes again; copies are equal in it."""
    if isinstance(received, Arrival):
        return received.message.message_id, received.message.uuid
    return received.handle if isinstance(received.handle, Hashable) else None
