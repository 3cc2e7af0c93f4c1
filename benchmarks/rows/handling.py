"""Compares ``handle()`` and ``handle_batch()`` with bare Redis commands, for new messages and duplicates."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.measuring import Pass
from benchmarks.result import SPEED, TIME, Budget, Result, durations, speeds
from benchmarks.rows import floors
from history.message import Message
from history.store import CLAIM_BATCH


def measure_new(bench: Bench) -> Iterable[Result]:
    """Measure one new message after the other. The service does nothing."""
    steps = [floors.claim, floors.complete]
    yield _one_by_one(bench, "a new message", steps, "two bare redis-py round trips: SET NX, SET")


def measure_duplicates(bench: Bench) -> Iterable[Result]:
    """Measure one message after the other, all of them completed before."""
    yield _one_by_one(bench, "a duplicate", [floors.claim], "one bare redis-py round trip: SET NX", seen=True)


def measure_new_batches(bench: Bench) -> Iterable[Result]:
    """Measure whole batches. The service does nothing."""
    steps = [floors.claim_all, floors.complete_all]
    yield _in_batches(bench, "new messages", steps, "two pipelines: SET NX, SET", least=0.5)


def measure_batches_of_duplicates(bench: Bench) -> Iterable[Result]:
    """Measure whole batches, all of them completed before."""
    # 100,000 per second if the bare pipeline does 150,000.
    yield _in_batches(bench, "duplicates", [floors.claim_all], "one pipeline: SET NX", least=0.66, seen=True)


def _one_by_one(
    bench: Bench,
    kind: str,
    steps: Sequence[Callable[[Any, Message], None]],
    beside: str,
    *,
    seen: bool = False,
) -> Result:
    """Compare the handling of each message with some bare commands for it."""
    what, idle, bare = f"handle() of {kind}", bench.idle_trigger(kind), bench.bare()

    def by_hand(messages: Sequence[Message]) -> None:
        for message in messages:
            for step in steps:
                step(bare, message)

    passes: dict[str, Pass[Message]] = {
        "handle": lambda messages: [idle.handle(message) for message in messages],
        "bare": by_hand,
    }
    times = bench.rounds().run(what, floors.seen_by(bench, idle) if seen else bench.fresh, passes)
    return durations(times, "handle", "bare", what=what, beside=beside, budget=Budget(1.15, TIME))


def _in_batches(
    bench: Bench,
    kind: str,
    steps: Sequence[Callable[[Any, Sequence[Message]], None]],
    beside: str,
    *,
    least: float,
    seen: bool = False,
) -> Result:
    """Compare the handling of a batch with some bare pipelines for it."""
    what, idle, bare = f"handle_batch() of {CLAIM_BATCH} {kind}", bench.idle_trigger(kind), bench.bare()

    def by_hand(messages: Sequence[Message]) -> None:
        for step in steps:
            step(bare, messages)

    passes: dict[str, Pass[Message]] = {"handle": idle.handle_batch, "bare": by_hand}
    make = floors.seen_by(bench, idle) if seen else bench.fresh
    times = bench.rounds(CLAIM_BATCH).run(what, make, passes)
    budget = Budget(least, SPEED, at_least=True)
    return speeds(times, "handle", "bare", what=what, beside=beside, budget=budget)
