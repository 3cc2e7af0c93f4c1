"""``handle()`` of a duplicate beside one bare round trip."""

from collections.abc import Iterable, Sequence

from benchmarks.bench import Bench
from benchmarks.measuring import Pass
from benchmarks.result import TIME, Budget, Result
from benchmarks.rows import floors
from history.message import Message

_WHAT = "handle() of a duplicate"


def measure(bench: Bench) -> Iterable[Result]:
    """Measure one message after the other, all of them completed before."""
    idle, bare = bench.idle_trigger("duplicate"), bench.bare()

    def seen(count: int) -> Sequence[Message]:
        messages = bench.fresh(count)
        idle.handle_batch(messages)
        floors.claim_all(bare, messages)
        return messages

    def by_hand(messages: Sequence[Message]) -> None:
        for message in messages:
            floors.claim(bare, message)

    passes: dict[str, Pass[Message]] = {
        "handle": lambda messages: [idle.handle(message) for message in messages],
        "bare": by_hand,
    }
    times = bench.rounds().run(_WHAT, seen, passes)
    yield Result(
        what=_WHAT,
        beside="one bare redis-py round trip: SET NX",
        unit="µs",
        measured=times.of("handle") * 1e6,
        floor=times.of("bare") * 1e6,
        ratio=times.ratio("handle", "bare"),
        budget=Budget(1.15, TIME),
    )
