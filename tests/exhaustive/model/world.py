"""The states of the model: workers, a broker's queue and the entries, and how they are written."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, auto
from functools import cache
from typing import NamedTuple, TypeVar

from history.entry import Claim, Entry, EntryOutcome, State, claim, renew, settle, take_over
from history.message import Message, Uuid
from triggers.detection.aftermath import Aftermath, Ending, afterwards
from triggers.detection.table import Count, Decision, Facts, Found, HistoryUse, Policy, Word, decide
from triggers.pipeline.finding import Finding
from triggers.pipeline.run import Run

T = TypeVar("T")

TICK = timedelta(seconds=1)
START = datetime(2024, 5, 1, tzinfo=UTC)
FOREVER = 1000 * TICK


class ViolationError(AssertionError):
    """A property does not hold; the message names it, and the path that leads there."""


class Phase(IntEnum):
    """The progress of a worker with its current delivery."""

    IDLE = auto()
    RECEIVED = auto()
    CLAIMED = auto()
    TAKING_OVER = auto()
    READY = auto()
    RUNNING = auto()
    ENDED = auto()
    PARKED = auto()
    PARKING = auto()
    ANSWERING = auto()


class Job(NamedTuple):
    """One delivery; ``again`` means that it is a redelivery."""

    uuid: int
    again: bool = False


class Worker(NamedTuple):
    """One worker.

    ``held`` says whether the broker still counts the delivery as this worker's. ``token`` is the token of its
    claim if the reply was lost.
    """

    phase: Phase = Phase.IDLE
    job: Job = Job(0)
    held: bool = False
    found: Found = Found.NOTHING
    fence: int = 0
    token: int = 0
    ending: Ending | None = None
    acknowledges: bool = False
    later: bool = False


IDLE = Worker()


class Faults(NamedTuple):
    """How many of each may still happen."""

    crashes: int = 0
    redeliveries: int = 0
    repeats: int = 0
    sends: int = 0
    failures: int = 0
    ticks: int = 0


class World(NamedTuple):
    """Everything. The last five count per uuid; ``risky`` are runs that may have had an effect."""

    now: int
    numbers: int
    faults: Faults
    workers: tuple[Worker, ...]
    queue: tuple[Job, ...]
    late: tuple[tuple[int, int, EntryOutcome | None], ...]
    entries: tuple[Entry | None, ...]
    effects: tuple[int, ...]
    risky: tuple[int, ...]
    parked: tuple[int, ...]
    allowed: tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """The functions under test."""

    claim: Callable[..., tuple[Entry, Claim]] = claim
    take_over: Callable[..., tuple[Entry | None, Claim | None]] = take_over
    settle: Callable[..., tuple[Entry | None, bool]] = settle
    renew: Callable[..., tuple[Entry | None, bool]] = renew
    decide: Callable[[Facts, Policy], Decision] = decide
    afterwards: Callable[..., Aftermath] = afterwards


@dataclass(frozen=True)
class Scope:
    """How much is explored.

    ``says`` lists the possible answers of a resolver; if it is empty, there is none. ``patience`` limits how
    often the resolver lets a uuid be taken over; without a limit, there would be endless states. If ``keeps``
    is true, time passes only while a service runs, and only right after all running workers renewed leases.
    """

    faults: Faults
    workers: int = 2
    uuids: int = 1
    lease: bool = False
    time_to_live: timedelta = FOREVER
    keeps: bool = False
    says: tuple[Word, ...] = ()
    patience: int = 2
    history: bool = True
    policy: Policy = field(default_factory=Policy)


class Move(NamedTuple):
    """One possible next move. When the faults stop, only moves without ``fault`` go on."""

    name: str
    after: World
    fault: bool = False


def guard(before: Entry | None, after: Entry | None, fence: int) -> None:
    """Check that a caller with ``fence`` changes an entry only as this fence allows."""
    if before is None or before == after:
        return
    if before.state is State.COMPLETED:
        raise ViolationError("a completed entry changes")
    if before.fence != fence:
        raise ViolationError("a late worker changes its successor's entry")


def clock(world: World) -> datetime:
    return START + world.now * TICK


@cache
def found_of(entry: Entry | None) -> Found:
    """Translate an entry into the table's terms, as the pipeline does."""
    return Run(MESSAGE, Finding(HistoryUse.ON, found=entry)).facts(Count.FIRST, Word.NONE).found


MESSAGE = Message(body="", uuid=Uuid("u-1"))


def written(world: World, uuid: int, entry: Entry | None) -> World:
    """Store an entry; a new fence uses its number up, and when it was read does not matter."""
    kept = None if entry is None else replace(entry, read_at=START)
    numbers = world.numbers + (kept is not None and kept.fence == world.numbers)
    entries = (*world.entries[:uuid], kept, *world.entries[uuid + 1 :])
    return world._replace(numbers=numbers, entries=entries)


def stepped(world: World, place: int, worker: Worker) -> World:
    return arranged(world._replace(workers=(*world.workers[:place], worker, *world.workers[place + 1 :])))


def arranged(world: World) -> World:
    """Sort the unordered parts, so that equal worlds compare equal."""
    return world._replace(
        workers=tuple(sorted(world.workers, key=order_of)),
        queue=tuple(sorted(world.queue)),
        late=tuple(sorted(world.late, key=order_of)),
    )


@cache
def order_of(thing: object) -> str:
    return repr(thing)


def without(things: tuple[T, ...], thing: T) -> tuple[T, ...]:
    place = things.index(thing)
    return things[:place] + things[place + 1 :]


def bump(counts: tuple[int, ...], uuid: int, by: int = 1) -> tuple[int, ...]:
    return (*counts[:uuid], counts[uuid] + by, *counts[uuid + 1 :])
