"""A model of workers, broker and history that is small enough to be explored whole.

The decisions are not the model's: it calls the functions of :mod:`history.entry` and
:mod:`triggers.detection` that the stores and the pipeline run on, or a mutant of one of them. What is
modelled is everything around them: workers that take the pipeline's steps one at a time and may stop for a
while or for ever between any two, a broker that delivers again, a publisher that sends twice, a network that
repeats a write late, and leases that run out.

Each state is explored once, breadth first, so a :class:`ViolationError` comes with a shortest path to it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, auto
from functools import cache
from typing import NamedTuple, TypeVar

from history.entry import Claim, Entry, EntryOutcome, Fence, State, Terms, claim, renew, settle, take_over
from history.message import Message, Uuid
from triggers.detection import (
    Aftermath,
    Answer,
    Count,
    Decision,
    Ending,
    Facts,
    Found,
    HistoryUse,
    Policy,
    Word,
    afterwards,
    decide,
)
from triggers.run import Run

T = TypeVar("T")

TICK = timedelta(seconds=1)
START = datetime(2024, 5, 1, tzinfo=UTC)
FOREVER = 1000 * TICK


class ViolationError(AssertionError):
    """A property does not hold; the message tells it, and the path that leads there."""


class Phase(IntEnum):
    """How far a worker has come with the delivery in its hands."""

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
    """One delivery; ``again`` tells a redelivery."""

    uuid: int
    again: bool = False


class Worker(NamedTuple):
    """One worker. ``held`` tells whether the broker still counts the delivery as its own."""

    phase: Phase = Phase.IDLE
    job: Job = Job(0)
    held: bool = False
    found: Found = Found.NOTHING
    fence: int = 0
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

    ``says`` is what a resolver may answer; without any there is no resolver. ``patience`` is how often it
    lets a uuid be taken over: without an end to that, there would be no end of states.
    """

    faults: Faults
    workers: int = 2
    uuids: int = 1
    lease: bool = False
    says: tuple[Word, ...] = ()
    patience: int = 2
    history: bool = True
    policy: Policy = field(default_factory=Policy)


class Move(NamedTuple):
    """One thing that may happen next. What is no ``fault`` goes on happening when the faults stop."""

    name: str
    after: World
    fault: bool = False


class Model:
    """All that can happen in one scope, under one set of rules."""

    def __init__(self, scope: Scope, rules: Rules) -> None:
        self.scope = scope
        self.rules = rules
        self.terms = Terms(TICK if scope.lease else None, FOREVER)
        # The functions are pure, so each of the few different calls is made once.
        self.claim = cache(rules.claim)
        self.take_over = cache(rules.take_over)
        self.settle = cache(rules.settle)
        self.renew = cache(rules.renew)

    def start(self) -> World:
        """Every uuid is sent once, and nothing has happened yet."""
        none = (0,) * self.scope.uuids
        return World(
            now=0,
            numbers=1,
            faults=self.scope.faults,
            workers=(IDLE,) * self.scope.workers,
            queue=tuple(Job(uuid) for uuid in range(self.scope.uuids)),
            late=(),
            entries=(None,) * self.scope.uuids,
            effects=none,
            risky=none,
            parked=none,
            allowed=none,
        )

    def moves(self, world: World) -> Iterator[Move]:
        """Everything that may happen next."""
        for place, worker in enumerate(world.workers):
            if place and worker == world.workers[place - 1]:
                continue  # equal workers are interchangeable, and stand side by side
            yield from self._steps(world, place, worker)
            yield from self._faults_of(world, place, worker)
        yield from self._faults_around(world)

    def _steps(self, world: World, place: int, worker: Worker) -> Iterator[Move]:
        match worker.phase:
            case Phase.IDLE:
                yield from self._receive(world, place)
            case Phase.RECEIVED:
                yield self._claim(world, place, worker)
            case Phase.CLAIMED:
                yield from self._decide(world, place, worker)
            case Phase.TAKING_OVER:
                yield self._take_over(world, place, worker)
            case Phase.READY:
                yield self._run(world, place, worker)
            case Phase.RUNNING:
                yield from self._end(world, place, worker)
            case Phase.ENDED | Phase.PARKED:
                yield from self._conclude(world, place, worker)
            case Phase.PARKING:
                parked = bump(world.parked, worker.job.uuid)
                done = worker._replace(phase=Phase.ANSWERING)
                yield Move("park", stepped(world._replace(parked=parked), place, done))
            case Phase.ANSWERING:
                yield self._answer(world, place, worker)

    def _receive(self, world: World, place: int) -> Iterator[Move]:
        for job in sorted(set(world.queue)):
            taken = Worker(Phase.RECEIVED, job, held=True)
            yield Move(
                f"receive {job}", stepped(world._replace(queue=without(world.queue, job)), place, taken)
            )

    def _claim(self, world: World, place: int, worker: Worker) -> Move:
        uuid = worker.job.uuid
        if not self.scope.history:
            return Move("no history", stepped(world, place, worker._replace(phase=Phase.CLAIMED)))
        entry, answer = self.claim(
            world.entries[uuid],
            f"owner {world.numbers}",
            fence=Fence(world.numbers),
            now=clock(world),
            terms=self.terms,
        )
        claimed = worker._replace(phase=Phase.CLAIMED, found=found_of(answer.found), fence=answer.fence)
        return Move(f"claim: {claimed.found.name}", stepped(written(world, uuid, entry), place, claimed))

    def _decide(self, world: World, place: int, worker: Worker) -> Iterator[Move]:
        facts = Facts(
            count=Count.AGAIN if worker.job.again else Count.FIRST,
            history=HistoryUse.ON if self.scope.history else HistoryUse.OFF,
            found=worker.found,
            word=Word.NOT_ASKED if self.scope.says else Word.NONE,
        )
        decision = self.rules.decide(facts, self.scope.policy)
        if not decision.ask:
            yield self._decided(world, place, worker, decision)
            return
        for word in self._sayings(world, worker.job.uuid):
            told = self.rules.decide(replace(facts, word=word), self.scope.policy)
            # With a history the permission counts once the entry is taken over, and then once for each entry.
            allows = word is Word.NEW and not self.scope.history
            allowed = bump(world.allowed, worker.job.uuid, int(allows))
            yield self._decided(world._replace(allowed=allowed), place, worker, told)

    def _sayings(self, world: World, uuid: int) -> Iterator[Word]:
        """What the resolver may answer: it never lies about a duplicate, and tires of NEW."""
        for word in self.scope.says:
            tired = word is Word.NEW and world.allowed[uuid] >= self.scope.patience
            if tired:
                yield Word.IN_DOUBT
            elif word is not Word.DUPLICATE or world.effects[uuid]:
                yield word

    def _decided(self, world: World, place: int, worker: Worker, decision: Decision) -> Move:
        if decision.runs:
            phase = Phase.READY if worker.found is Found.NOTHING else Phase.TAKING_OVER
        else:
            phase = Phase.PARKING if decision.park else Phase.ANSWERING
        judged = worker._replace(
            phase=phase,
            acknowledges=decision.answer is Answer.ACKNOWLEDGE,
            later=decision.answer is Answer.RECOVER_LATER,
        )
        return Move(f"decide: row {decision.row}", stepped(world, place, judged))

    def _take_over(self, world: World, place: int, worker: Worker) -> Move:
        uuid = worker.job.uuid
        entry, answer = self.take_over(
            world.entries[uuid],
            f"owner {world.numbers}",
            expected_fence=Fence(worker.fence),
            fence=Fence(world.numbers),
            now=clock(world),
            terms=self.terms,
        )
        after = written(world, uuid, entry)
        guard(world.entries[uuid], after.entries[uuid], worker.fence)
        if answer is None:
            return Move("take over: too late", stepped(after, place, worker._replace(phase=Phase.RECEIVED)))
        after = after._replace(allowed=bump(after.allowed, uuid))
        return Move(
            "take over", stepped(after, place, worker._replace(phase=Phase.READY, fence=answer.fence))
        )

    def _run(self, world: World, place: int, worker: Worker) -> Move:
        uuid = worker.job.uuid
        if world.risky[uuid] > world.allowed[uuid]:
            raise ViolationError("the service runs again, and nobody said that it should")
        running = worker._replace(phase=Phase.RUNNING)
        return Move("run", stepped(world._replace(risky=bump(world.risky, uuid)), place, running))

    def _end(self, world: World, place: int, worker: Worker) -> Iterator[Move]:
        uuid = worker.job.uuid
        ended = worker._replace(phase=Phase.ENDED)
        happened = world._replace(effects=bump(world.effects, uuid))
        yield Move("effect", stepped(happened, place, ended._replace(ending=Ending.SUCCESS)))
        if world.faults.failures:
            spent = world._replace(
                faults=world.faults._replace(failures=world.faults.failures - 1),
                risky=bump(world.risky, uuid, -1),
            )
            for ending in (Ending.FATAL, Ending.TRANSIENT):
                failed = stepped(spent, place, ended._replace(ending=ending))
                yield Move(f"fail: {ending.value}", failed, fault=True)

    def _conclude(self, world: World, place: int, worker: Worker) -> Iterator[Move]:
        uuid = worker.job.uuid
        after = self.rules.afterwards(worker.ending, self.scope.policy, history=self.scope.history)
        answered = worker._replace(
            phase=Phase.ANSWERING, acknowledges=after.answer is Answer.ACKNOWLEDGE, later=False
        )
        if after.park and worker.phase is Phase.ENDED:
            parked = world._replace(parked=bump(world.parked, uuid))
            yield Move("park", stepped(parked, place, worker._replace(phase=Phase.PARKED)))
            return
        if not self.scope.history:
            yield Move("nothing to settle", stepped(world, place, answered))
            return
        settled, done = self._settle(world, uuid, worker.fence, after.entry)
        if not done:
            settled, acknowledges = self._lost(settled, uuid, after.entry)
            answered = answered._replace(acknowledges=answered.acknowledges and acknowledges)
        yield Move(f"settle: {done}", stepped(settled, place, answered))
        if world.faults.repeats:
            faults = world.faults._replace(repeats=world.faults.repeats - 1)
            late = (*settled.late, (uuid, worker.fence, after.entry))
            yield Move(
                f"settle: {done}, and the network keeps a copy",
                stepped(settled._replace(faults=faults, late=late), place, answered),
                fault=True,
            )

    def _settle(
        self, world: World, uuid: int, fence: int, outcome: EntryOutcome | None
    ) -> tuple[World, bool]:
        before = world.entries[uuid]
        after, done = self.settle(before, fence=Fence(fence), outcome=outcome, now=clock(world))
        settled = written(world, uuid, after)
        guard(before, settled.entries[uuid], fence)
        return settled, done

    def _lost(self, world: World, uuid: int, outcome: EntryOutcome | None) -> tuple[World, bool]:
        """Do as :mod:`triggers.completion` does about an end that was not recorded."""
        entry = world.entries[uuid]
        if entry is not None:
            return world, entry.state is State.COMPLETED
        fence = world.numbers
        fresh, _ = self.claim(None, f"owner {fence}", fence=Fence(fence), now=clock(world), terms=self.terms)
        return self._settle(written(world, uuid, fresh), uuid, fence, outcome)

    def _answer(self, world: World, place: int, worker: Worker) -> Move:
        job = worker.job
        if worker.acknowledges:
            if not world.effects[job.uuid] and not world.parked[job.uuid]:
                raise ViolationError("a message is acknowledged that had no effect and is not parked")
            return Move("acknowledge", stepped(world, place, IDLE))
        back = (*world.queue, job._replace(again=True)) if worker.held else world.queue
        name = "recover after a delay" if worker.later else "recover"
        return Move(name, stepped(world._replace(queue=back), place, IDLE))

    def _faults_of(self, world: World, place: int, worker: Worker) -> Iterator[Move]:
        if worker.phase is Phase.IDLE:
            return
        faults, again = world.faults, (*world.queue, worker.job._replace(again=True))
        if faults.crashes:
            dead = world._replace(faults=faults._replace(crashes=faults.crashes - 1))
            dead = dead._replace(queue=again) if worker.held else dead
            yield Move(f"crash while {worker.phase.name}", stepped(dead, place, IDLE), fault=True)
        if faults.redeliveries and worker.held:
            twice = world._replace(faults=faults._replace(redeliveries=faults.redeliveries - 1), queue=again)
            yield Move("redeliver", stepped(twice, place, worker._replace(held=False)), fault=True)
        if self.scope.lease and worker.phase is Phase.RUNNING:
            yield from self._renew(world, worker)

    def _renew(self, world: World, worker: Worker) -> Iterator[Move]:
        uuid = worker.job.uuid
        before = world.entries[uuid]
        after, done = self.renew(before, fence=Fence(worker.fence), lease=TICK, now=clock(world))
        renewed = written(world, uuid, after)
        guard(before, renewed.entries[uuid], worker.fence)
        if done and renewed != world:
            yield Move("renew", renewed, fault=True)  # a worker need not renew, so nothing may wait for it

    def _faults_around(self, world: World) -> Iterator[Move]:
        faults = world.faults
        if faults.sends:
            for uuid in range(self.scope.uuids):
                sent = world._replace(
                    faults=faults._replace(sends=faults.sends - 1), queue=(*world.queue, Job(uuid))
                )
                yield Move("send again", arranged(sent), fault=True)
        for copy in set(world.late):
            arrived, _ = self._settle(world._replace(late=without(world.late, copy)), *copy)
            yield Move("a late copy of a write arrives", arranged(arrived), fault=True)
        if faults.ticks:
            ticked = world._replace(now=world.now + 1, faults=faults._replace(ticks=faults.ticks - 1))
            yield Move("time passes", ticked, fault=True)


@dataclass
class Explored:
    """What an exploration has seen."""

    states: int = 0
    transitions: int = 0
    drained: int = 0
    names: set[str] = field(default_factory=set[str])


#: How many steps may lead from any state, without faults, to the end of all work.
LONGEST_DRAIN = 500


def explore(scope: Scope, rules: Rules | None = None) -> Explored:
    """Visit every state of a scope.

    Raises:
        ViolationError: a property does not hold.
    """
    model = Model(scope, rules or Rules())
    start = model.start()
    parents: dict[World, tuple[World, str] | None] = {start: None}
    seen, drains = Explored(), set[World]()
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        try:
            moves = list(model.moves(world))
            drain(model, world, drains)
        except ViolationError as violation:
            path = " > ".join(path_to(parents, world))
            raise ViolationError(f"{violation}\n{path}\nin {world}") from None
        for move in moves:
            seen.transitions += 1
            seen.names.add(move.name)
            if move.after not in parents:
                parents[move.after] = (world, move.name)
                waiting.append(move.after)
    seen.states, seen.drained = len(parents), len(drains)
    return seen


def path_to(parents: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    path: list[str] = []
    step = parents[world]
    while step is not None:
        world, name = step
        path.append(name)
        step = parents[world]
    return path[::-1]


def drain(model: Model, world: World, drains: set[World]) -> None:
    """Stop all faults and let the workers go on; time passes while everybody waits for a lease."""
    path: list[World] = []
    world = world._replace(faults=Faults(), late=())
    while world not in drains:
        path.append(world)
        if len(path) > LONGEST_DRAIN:
            raise ViolationError("the work does not come to an end when the faults have stopped")
        moves = [move for move in model.moves(world) if not move.fault]
        if not moves:
            check_end(model, world)
            break
        # Those who are at work go first, so that nobody waits for a worker that never gets its turn.
        going = [move for move in moves if not move.name.startswith("receive")] or moves
        world = going[0].after
        if going[0].name == "recover after a delay":
            world = world._replace(now=world.now + 1)
    drains.update(path)


def check_end(model: Model, world: World) -> None:
    if world.queue or any(worker != IDLE for worker in world.workers):
        raise ViolationError("work is left that nobody can do")
    for uuid in range(model.scope.uuids):
        if not world.effects[uuid] and not world.parked[uuid]:
            raise ViolationError("a message is lost")


def guard(before: Entry | None, after: Entry | None, fence: int) -> None:
    """Hold one who knows an entry by ``fence`` to what that allows."""
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
    """Put an entry into the table's terms as the pipeline does."""
    return Run(MESSAGE, HistoryUse.ON, found=entry).facts(Count.FIRST, Word.NONE).found


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
    """Order what has no order, so that equal worlds are equal."""
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
