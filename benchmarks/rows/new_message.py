"""``handle()`` of a new message beside two bare round trips."""

from collections.abc import Iterable, Sequence

from benchmarks.bench import Bench
from benchmarks.measuring import Pass
from benchmarks.result import TIME, Budget, Result
from benchmarks.rows import floors
from history.message import Message

_WHAT = "handle() of a new message"


def measure(bench: Bench) -> Iterable[Result]:
    """Measure one message after the other; the service does nothing."""
    idle, bare = bench.idle_trigger("new"), bench.bare()

    def by_hand(messages: Sequence[Message]) -> None:
        for message in messages:
            floors.claim(bare, message)
            floors.complete(bare, message)

    passes: dict[str, Pass[Message]] = {
        "handle": lambda messages: [idle.handle(message) for message in messages],
        "bare": by_hand,
    }
    times = bench.rounds().run(_WHAT, bench.fresh, passes)
    yield Result(
        what=_WHAT,
        beside="two bare redis-py round trips: SET NX, SET",
        unit="µs",
        measured=times.of("handle") * 1e6,
        floor=times.of("bare") * 1e6,
        ratio=times.ratio("handle", "bare"),
        budget=Budget(1.15, TIME),
    )
