"""Many completed entries, for the rows that ask what they cost."""

from datetime import timedelta

from benchmarks.bench import Bench
from history.bridge import drive
from history.entry import DEFAULT_TIME_TO_LIVE, EntryOutcome, Settlement
from history.message import Uuid
from history.redis import RedisHistory
from history.store import CLAIM_BATCH


def fill(
    bench: Bench,
    history: RedisHistory,
    trigger: str,
    entries: int,
    *,
    time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
) -> None:
    """Claim and complete ``entries`` uuids, as a trigger would."""
    what = f"{trigger}: {entries:,} entries"
    for _ in bench.progress.track(range(entries // CLAIM_BATCH), description=what):
        complete_some(bench, history, trigger, time_to_live=time_to_live)


def complete_some(
    bench: Bench,
    history: RedisHistory,
    trigger: str,
    *,
    time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
) -> None:
    """Claim and complete one batch."""
    uuids = [str(next(bench.numbers)) for _ in range(CLAIM_BATCH)]
    claims = drive(history.claim(trigger, uuids, "benchmark", time_to_live=time_to_live))
    ends = [
        Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
        for uuid, claim in zip(uuids, claims, strict=True)
    ]
    drive(history.settle(trigger, ends))
