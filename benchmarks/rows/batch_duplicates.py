"""``handle_batch()`` of 200 duplicates beside one bare pipeline."""

from collections.abc import Iterable, Sequence

from benchmarks.bench import Bench
from benchmarks.measuring import Pass
from benchmarks.result import SPEED, Budget, Result
from benchmarks.rows import floors
from history.message import Message
from history.store import CLAIM_BATCH

_WHAT = f"handle_batch() of {CLAIM_BATCH} duplicates"


def measure(bench: Bench) -> Iterable[Result]:
    """Measure whole batches, all of them completed before."""
    idle, bare = bench.idle_trigger("batch-duplicates"), bench.bare()

    def seen(count: int) -> Sequence[Message]:
        messages = bench.fresh(count)
        idle.handle_batch(messages)
        floors.claim_all(bare, messages)
        return messages

    passes: dict[str, Pass[Message]] = {
        "handle": idle.handle_batch,
        "bare": lambda messages: floors.claim_all(bare, messages),
    }
    times = bench.rounds(CLAIM_BATCH).run(_WHAT, seen, passes)
    yield Result(
        what=_WHAT,
        beside="one pipeline: SET NX",
        unit="messages/s",
        measured=1 / times.of("handle"),
        floor=1 / times.of("bare"),
        ratio=times.ratio("bare", "handle"),
        # 100,000 a second where the bare pipeline does 150,000.
        budget=Budget(0.66, SPEED, at_least=True),
    )
