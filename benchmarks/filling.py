"""Many completed entries, for the measurements of their costs."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from benchmarks.bench import Bench
from history.bridge import drive
from history.entry import DEFAULT_TIME_TO_LIVE, EntryOutcome, Settlement
from history.message import Uuid
from history.store import CLAIM_BATCH, HistoryStore


def fill(
    bench: Bench,
    history: HistoryStore,
    trigger: str,
    entries: int,
    *,
    time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
) -> None:
    """Claim and complete ``entries`` uuids, like a trigger."""
    what = f"{trigger}: {entries:,} entries"
    for _ in bench.progress.track(range(entries // CLAIM_BATCH), description=what):
        remember(history, trigger, numbered(bench.numbers, CLAIM_BATCH), time_to_live=time_to_live)


def numbered(numbers: Iterator[int], count: int) -> Sequence[str]:
    """Return uuids that are the next numbers."""
    return [str(next(numbers)) for _ in range(count)]


def remember(
    history: HistoryStore,
    trigger: str,
    uuids: Sequence[str],
    *,
    time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
) -> None:
    """Claim and complete some uuids."""
    claims = drive(history.claim(trigger, uuids, "benchmark", time_to_live=time_to_live))
    ends = [
        Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
        for uuid, claim in zip(uuids, claims, strict=True)
    ]
    drive(history.settle(trigger, ends))
