"""The possible next moves in a state: the steps of the pipeline, and the faults."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from history.entry import EntryOutcome, EntryTerms, Fence, State
from tests.exhaustive.model.world import (
    IDLE,
    TICK,
    Job,
    Move,
    Phase,
    Rules,
    Scope,
    ViolationError,
    Worker,
    World,
    arranged,
    bump,
    clock,
    found_of,
    guard,
    stepped,
    without,
    written,
)
from triggers.detection.aftermath import Ending
from triggers.detection.table import Answer, Count, Decision, Facts, Found, HistoryUse, Word


class Model:
    """All that can happen in one scope, under one set of rules."""

    def __init__(self, scope: Scope, rules: Rules) -> None:
        self.scope = scope
        self.rules = rules
        self.terms = EntryTerms(TICK if scope.lease else None, scope.time_to_live)
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
                continue  # equal workers are next to each other, and only the first one needs to move
            yield from self._steps(world, place, worker)
            yield from self._faults_of(world, place, worker)
        yield from self._faults_around(world)

    def _steps(self, world: World, place: int, worker: Worker) -> Iterator[Move]:
        match worker.phase:
            case Phase.IDLE:
                yield from self._receive(world, place)
            case Phase.RECEIVED:
                yield from self._claim(world, place, worker)
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

    def _claim(self, world: World, place: int, worker: Worker) -> Iterator[Move]:
        if not self.scope.history:
            yield Move("no history", stepped(world, place, worker._replace(phase=Phase.CLAIMED)))
            return
        uuid, token = worker.job.uuid, worker.token or world.numbers
        owner, before = f"owner {token}", world.entries[uuid]
        entry, answer = self.claim(
            before, owner, fence=Fence(world.numbers), now=clock(world), terms=self.terms
        )
        if before is not None and before.owner == owner and answer.found is not None:
            raise ViolationError("a claim that is sent twice stands in its own way")
        after = written(world, uuid, entry)
        claimed = worker._replace(
            phase=Phase.CLAIMED, found=found_of(answer.found), fence=answer.fence, token=0
        )
        yield Move(f"claim: {claimed.found.name}", stepped(after, place, claimed))
        if world.faults.repeats and not worker.token:
            faults = world.faults._replace(repeats=world.faults.repeats - 1)
            after = after._replace(faults=faults, numbers=world.numbers + 1)
            yield Move("claim: reply lost", stepped(after, place, worker._replace(token=token)), fault=True)

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
            if word is Word.DUPLICATE and self.scope.history and worker.found is Found.STARTED:
                # The entry is completed with that, unless it has changed.
                settled, _ = self._settle(world, worker.job.uuid, worker.fence, EntryOutcome.OK)
                yield self._decided(settled._replace(allowed=allowed), place, worker, told)

    def _sayings(self, world: World, uuid: int) -> Iterator[Word]:
        """Yield the resolver's possible answers: it never lies about a duplicate, and limits its NEWs."""
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
        """Do as :mod:`triggers.pipeline.completion` does about an end that was not recorded."""
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
        if faults.ticks and (not self.scope.keeps or self._are_kept(world)):
            ticked = world._replace(now=world.now + 1, faults=faults._replace(ticks=faults.ticks - 1))
            yield Move("time passes", ticked, fault=True)

    def _are_kept(self, world: World) -> bool:
        """Whether some worker runs, and the lease of each running worker was renewed just now."""
        running = [worker for worker in world.workers if worker.phase is Phase.RUNNING]
        entries = [world.entries[worker.job.uuid] for worker in running]
        until = clock(world) + TICK
        return bool(entries) and all(entry is not None and entry.lease_until == until for entry in entries)
