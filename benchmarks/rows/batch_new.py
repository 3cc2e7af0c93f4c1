"""``handle_batch()`` of 200 new messages beside the bare pipelined commands."""

from collections.abc import Iterable, Sequence

from benchmarks.bench import Bench
from benchmarks.measuring import Pass
from benchmarks.result import SPEED, Budget, Result
from benchmarks.rows import floors
from history.message import Message
from history.store import CLAIM_BATCH

_WHAT = f"handle_batch() of {CLAIM_BATCH} new messages"


def measure(bench: Bench) -> Iterable[Result]:
    """Measure whole batches; the service does nothing."""
    idle, bare = bench.idle_trigger("batch"), bench.bare()

    def by_hand(messages: Sequence[Message]) -> None:
        floors.claim_all(bare, messages)
        floors.complete_all(bare, messages)

    passes: dict[str, Pass[Message]] = {"handle": idle.handle_batch, "bare": by_hand}
    times = bench.rounds(CLAIM_BATCH).run(_WHAT, bench.fresh, passes)
    yield Result(
        what=_WHAT,
        beside="two pipelines: SET NX, SET",
        unit="messages/s",
        measured=1 / times.of("handle"),
        floor=1 / times.of("bare"),
        ratio=times.ratio("bare", "handle"),
        budget=Budget(0.5, SPEED, at_least=True),
    )
