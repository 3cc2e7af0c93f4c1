"""Many completed entries, for the measurements that ask what they cost."""

from collections.abc import Iterator, Sequence

from benchmarks.bench import Bench
from history.bridge import drive
from history.entry import EntryOutcome, Settlement
from history.message import Uuid
from history.store import CLAIM_BATCH, HistoryStore


def fill(bench: Bench, history: HistoryStore, trigger: str, entries: int) -> None:
    """Claim and complete ``entries`` uuids, as a trigger would."""
    what = f"{trigger}: {entries:,} entries"
    for _ in bench.progress.track(range(entries // CLAIM_BATCH), description=what):
        remember(history, trigger, numbered(bench.numbers, CLAIM_BATCH))


def numbered(numbers: Iterator[int], count: int) -> Sequence[str]:
    """Return uuids that are the next numbers."""
    return [str(next(numbers)) for _ in range(count)]


def remember(history: HistoryStore, trigger: str, uuids: Sequence[str]) -> None:
    """Claim and complete some uuids."""
    claims = drive(history.claim(trigger, uuids, "benchmark"))
    ends = [
        Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
        for uuid, claim in zip(uuids, claims, strict=True)
    ]
    drive(history.settle(trigger, ends))
