"""Random runs: a store answers like the pure transitions of :mod:`history.entry`.

:class:`~history.memory.MemoryHistory` represents the pure transitions. Both run the same operations, and
their answers are compared step by step. Fences are compared by their claims, as each store has its own.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from history.entry import Claim, Entry, EntryOutcome, Fence, Renewal, Settlement, State
from history.memory.history import MemoryHistory
from history.message import Uuid
from history.store import BatchLeases, BatchOwner, HistoryStore, ManyLeases, Owner

LEASE = timedelta(hours=1)
UUIDS = tuple(Uuid(uuid) for uuid in ("u1", "u2", "u3", "u4"))
OWNERS = ("worker-1", "worker-2", "worker-3")
BATCHES = (BatchOwner("query/1"), BatchOwner("query/2"))

#: An operation's name and arguments; a fence is given by its place among those granted so far.
Step = tuple[str, tuple[Any, ...]]


@dataclass
class Play:
    """One run on the store under test and on the oracle, with the fences that both have granted."""

    store: HistoryStore
    trigger: str
    oracle: MemoryHistory = field(default_factory=MemoryHistory)
    fences: list[tuple[Fence, Fence]] = field(default_factory=lambda: [(Fence(10**9), Fence(10**9))])
    newest: dict[Uuid, Fence] = field(default_factory=dict[Uuid, Fence])

    async def step(self, name: str, args: tuple[Any, ...]) -> None:
        """Play one operation on both sides and compare."""
        match name:
            case "claim":
                await self._claim(*args)
            case "take over":
                await self._take_over(*args)
            case "settle":
                await self._settle(*args)
            case "renew":
                await self._renew(*args)
            case "renew batch":
                await self._renew_batch(*args)
            case _:
                await self._end(name, *args)
        mine = await self.store.lookup(self.trigger, UUIDS)
        for own, pure in zip(mine, await self.oracle.lookup(self.trigger, UUIDS), strict=True):
            self._same_entry(own, pure)

    async def _claim(self, uuids: Sequence[Uuid], owner: Owner, lease: timedelta | None) -> None:
        mine = await self.store.claim(self.trigger, uuids, owner, lease)
        pure = await self.oracle.claim(self.trigger, uuids, owner, lease)
        for uuid, own, expected in zip(uuids, mine, pure, strict=True):
            repeated = expected.fence in dict(self.fences)
            self._same_claim(own, expected)
            if isinstance(owner, str) and own.found is None and not repeated:
                self._greatest(uuid, own.fence)

    async def _take_over(self, uuid: Uuid, owner: str, lease: timedelta | None, index: int) -> None:
        pure_fence, own_fence = self.fences[index % len(self.fences)]
        own = await self.store.take_over(self.trigger, uuid, owner, lease, own_fence)
        pure = await self.oracle.take_over(self.trigger, uuid, owner, lease, pure_fence)
        assert (own is None) == (pure is None)
        if own is not None and pure is not None:
            repeated = pure.fence in dict(self.fences)
            self._same_claim(own, pure)
            if not repeated:
                self._greatest(uuid, own.fence)

    async def _settle(self, wishes: Sequence[tuple[Uuid, int, EntryOutcome | None]]) -> None:
        pairs = [(uuid, *self.fences[index % len(self.fences)], outcome) for uuid, index, outcome in wishes]
        own = [Settlement(uuid, own_fence, outcome) for uuid, _, own_fence, outcome in pairs]
        pure = [Settlement(uuid, pure_fence, outcome) for uuid, pure_fence, _, outcome in pairs]
        mine = await self.store.settle(self.trigger, own)
        assert list(mine) == list(await self.oracle.settle(self.trigger, pure))

    async def _renew(self, wishes: Sequence[tuple[Uuid, int, str | None]]) -> None:
        pairs = [(uuid, *self.fences[index % len(self.fences)], owner) for uuid, index, owner in wishes]
        own = [Renewal(uuid, own_fence, owner) for uuid, _, own_fence, owner in pairs]
        pure = [Renewal(uuid, pure_fence, owner) for uuid, pure_fence, _, owner in pairs]
        if isinstance(self.store, ManyLeases):
            mine = list(await self.store.renew_many(self.trigger, own, LEASE))
        else:
            mine = [await self.store.renew(self.trigger, u, f, LEASE, owner=o) for u, f, o in own]
        assert mine == list(await self.oracle.renew_many(self.trigger, pure, LEASE))

    async def _renew_batch(self, owner: BatchOwner) -> None:
        if isinstance(self.store, BatchLeases):
            own = await self.store.renew_batch(self.trigger, owner, LEASE)
            assert own == await self.oracle.renew_batch(self.trigger, owner, LEASE)

    async def _end(self, name: str, *args: Any) -> None:
        if name == "forget":
            own = await self.store.forget(self.trigger, args[0])
            assert own == await self.oracle.forget(self.trigger, args[0])
        else:
            own = await self.store.settle_batch(self.trigger, args[0], args[1])
            assert own == await self.oracle.settle_batch(self.trigger, args[0], args[1])

    def _same_claim(self, own: Claim, pure: Claim) -> None:
        self._same_entry(own.found, pure.found)
        self._same_fence(own.fence, pure.fence)
        assert own.found is None or own.found.fence == own.fence

    def _same_entry(self, own: Entry | None, pure: Entry | None) -> None:
        if own is None or pure is None:
            assert own is pure
            return
        assert (own.state, own.outcome, own.lease_alive) == (pure.state, pure.outcome, pure.lease_alive)
        if pure.state is State.STARTED:
            assert (own.owner, own.batch) == (pure.owner, pure.batch)
        self._same_fence(own.fence, pure.fence)

    def _same_fence(self, own: Fence, pure: Fence) -> None:
        own_by_pure = dict(self.fences)
        if pure not in own_by_pure:
            assert own not in own_by_pure.values(), "each claim has a fence of its own"
            self.fences.append((pure, own))
        else:
            assert own == own_by_pure[pure]

    def _greatest(self, uuid: Uuid, fence: Fence) -> None:
        # Not for batches: all entries of a batch have its number, which may be older than the last claim.
        assert fence > self.newest.get(uuid, 0), "the fence grows with every claim of a uuid"
        self.newest[uuid] = fence


async def play(store: HistoryStore, trigger: str, steps: Sequence[Step]) -> None:
    """Play ``steps`` under a fresh trigger name."""
    run = Play(store, trigger)
    for name, args in steps:
        await run.step(name, args)


def steps() -> Any:
    """Return the hypothesis strategy of a run: a list of steps."""
    from hypothesis import strategies as st  # noqa: PLC0415  (the rest of the suite works without hypothesis)

    uuid, owner, batch = st.sampled_from(UUIDS), st.sampled_from(OWNERS), st.sampled_from(BATCHES)
    lease, index = st.sampled_from([None, LEASE]), st.integers(0, 7)
    outcome = st.sampled_from([*EntryOutcome, None])
    uuids = st.lists(uuid, min_size=1, max_size=5)
    wishes = st.lists(st.tuples(uuid, index, outcome), min_size=1, max_size=4)
    token = st.sampled_from([None, *OWNERS, *(batch.token for batch in BATCHES)])
    renewals = st.lists(st.tuples(uuid, index, token), min_size=1, max_size=4)

    def step(name: str, *args: Any) -> Any:
        return st.tuples(st.just(name), st.tuples(*args))

    return st.lists(
        step("claim", uuids, owner | batch, lease)
        | step("take over", uuid, owner, lease, index)
        | step("settle", wishes)
        | step("renew", renewals)
        | step("renew batch", batch)
        | step("settle batch", batch, outcome)
        | step("forget", uuid),
        max_size=12,
    )


class RunContract:
    """Random runs against the pure transitions."""

    #: How many random runs a store gets; a subclass may want more.
    runs = 60

    async def test_a_store_answers_as_the_pure_transitions_do(self, store: HistoryStore) -> None:
        from hypothesis import given, settings  # noqa: PLC0415  (as above)

        loop, names = asyncio.get_running_loop(), iter(range(1_000_000))

        @settings(max_examples=self.runs, deadline=None, database=None)
        @given(steps())
        def check(run: Sequence[Step]) -> None:
            asyncio.run_coroutine_threadsafe(play(store, f"run {next(names)}", run), loop).result()

        # hypothesis is blocking, and the store may belong to this loop: so hypothesis gets the other thread.
        await asyncio.to_thread(check)
