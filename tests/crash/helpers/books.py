"""Shared parts of the crash tests of brokers: processes that book orders, the kills, and the counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from history.store.parking import Parked, ParkedKind
from tests.crash.helpers.fleet import Fleet
from tests.crash.victims.booking_service import CONCURRENCY, NAME, SHORT_LEASE, effects_of
from tests.fixtures.scale import sized
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import parked_in

MESSAGES = sized(300, full=20_000)

#: One kill for each 1,000 messages, and at least two.
KILLS = max(2, MESSAGES // 1000)

#: How often a broker is killed in a soak.
BROKER_KILLS = max(2, KILLS // 4)

PROCESSES = 2

#: The messages in flight at the kills; a copy waits if its original is in flight.
MOST_IN_DOUBT = KILLS * CONCURRENCY

#: The uuids of the sent messages, in order.
ORDERS = [f"order-{number}" for number in range(MESSAGES)]


@dataclass(frozen=True, slots=True)
class Books:
    """The booked and parked :data:`ORDERS` of a fleet; ``depth`` counts the rest in the queue."""

    folder: Path
    provider: str
    history: str
    depth: Callable[[], int]

    @property
    def parked(self) -> Sequence[Parked]:
        """The parked messages, beside the history or in the local file."""
        local = self.folder / "parked.sqlite3"
        lots = [self.history, *([f"sqlite:///{local}"] if local.exists() else [])]
        return [one for lot in lots for one in parked_in(lot, NAME)]

    def over(self) -> bool:
        """Whether each order is booked or parked, and the queue is empty."""
        booked = set(effects_of(self.folder).counts())
        if len(booked) + PROCESSES * CONCURRENCY * (KILLS + 2) < MESSAGES:
            return False
        return booked | {one.uuid for one in self.parked} >= set(ORDERS) and self.drained()

    def drained(self) -> bool:
        return self.depth() == 0

    def check(self, most_in_doubt: int) -> str:
        """Assert that nothing is lost or booked twice, and that the rest is In Doubt; report the counts."""
        booked, expected = effects_of(self.folder).counts(), set(ORDERS)
        parked = self.parked
        assert {uuid: times for uuid, times in booked.items() if times > 1} == {}
        assert {one.kind for one in parked} <= {ParkedKind.IN_DOUBT}
        doubtful = {one.uuid for one in parked}
        assert expected - set(booked) <= doubtful <= expected
        assert len(doubtful) <= most_in_doubt
        # If the drained processes had fetched messages, these are back in the queue now.
        assert self.drained()
        return (
            f"{len(booked)} booked once, {len(doubtful)} of {MESSAGES} In Doubt: {sorted(map(str, doubtful))}"
        )


def fleet_of(
    books: Books,
    processes: int = PROCESSES,
    *,
    lease: int = SHORT_LEASE,
    service: str = "tests.crash.victims.booking_service",
) -> Fleet:
    """Return processes that will book the orders; ``lease`` is in seconds."""
    return Fleet(
        service=service,
        folder=books.folder,
        effects=effects_of(books.folder),
        provider=books.provider,
        history=books.history,
        processes=processes,
        options=[str(lease)],
    )


def end(fleet: Fleet, books: Books) -> None:
    """End all processes, and let others process the returned messages: copies that waited for originals."""
    eventually(books.drained)
    fleet.drain()
    while not books.drained():
        with fleet_of(books, 1) as others:
            eventually(books.drained)
            others.drain()


def kill_now_and_then(fleet: Fleet, books: Books) -> int:
    """Kill processes, spread over the work, until it is over; return how many were killed."""
    due = [_spread(number, KILLS) for number in range(KILLS)]
    kills = 0
    for effects in fleet.watch(books.over):
        if due and effects >= due[0]:
            fleet.kill(fleet.running[0])
            del due[0]
            kills += 1
    return kills


def kill_both(fleet: Fleet, books: Books, kill_broker: Callable[[], object]) -> tuple[int, int]:
    """Kill consumers and the broker, spread over the work, until it is over; return how many of each.

    ``kill_broker`` also starts it again.
    """
    due = sorted(
        [(_spread(one, KILLS), False) for one in range(KILLS)]
        + [(_spread(one, BROKER_KILLS), True) for one in range(BROKER_KILLS)]
    )
    consumers = brokers = 0
    for effects in fleet.watch(lambda: not due and books.over()):
        if due and effects >= due[0][0]:
            _, is_the_broker = due.pop(0)
            if is_the_broker:
                kill_broker()
                brokers += 1
            else:
                fleet.kill(fleet.running[0])
                consumers += 1
    return consumers, brokers


def _spread(number: int, many: int) -> int:
    return MESSAGES * (number + 1) // (many + 2)
