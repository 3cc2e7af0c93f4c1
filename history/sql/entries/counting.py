"""How the entries of a trigger are counted: all of them, or some, from which the number is estimated.

Digests are spread evenly. So the entries of one piece, and the share of all digests that the piece covers,
tell how many entries there are. This takes the same time for any number of entries.
"""

from functools import partial

from history.entry import DIGEST_SIZE
from history.sql.database.engine import fetch
from history.sql.statements.entries import PIECE_END, STATS
from history.sql.tables.history import Prepared
from history.store import WHOLE, HistoryStats

#: How many rows one statement counts.
COUNTED = 10_000

#: From how many rows a number is estimated; it is usually right within a few percent.
SAMPLED = 2_000


async def piece_end(database: Prepared, trigger: str, after: bytes, end: bytes, size: int) -> bytes | None:
    """Return the last digest of the next ``size`` rows; None if there are fewer."""
    read = partial(fetch, statement=PIECE_END, trigger=trigger, after=after, end=end, skip=size - 1)
    rows = await database.run("reading ahead", read)
    return bytes(rows[0].digest) if rows else None


async def count(database: Prepared, trigger: str) -> HistoryStats:
    """Count all entries of a trigger, piece by piece."""
    started = completed = 0
    begin, end = WHOLE.range
    while True:
        until = await piece_end(database, trigger, begin, end, COUNTED)
        some, others = await _counted(database, trigger, begin, until or end)
        started, completed = started + some, completed + others
        if until is None:
            return HistoryStats(trigger=trigger, started=started, completed=completed)
        begin = until


async def estimate(database: Prepared, trigger: str) -> HistoryStats:
    """Estimate how many entries a trigger has; with few entries, count them."""
    begin, end = WHOLE.range
    until = await piece_end(database, trigger, begin, end, SAMPLED)
    started, completed = await _counted(database, trigger, begin, until or end)
    if until is None:
        return HistoryStats(trigger=trigger, started=started, completed=completed)
    times = 2 ** (8 * DIGEST_SIZE) / (int.from_bytes(until) + 1)
    return HistoryStats(
        trigger=trigger, started=round(started * times), completed=round(completed * times), is_about=True
    )


async def _counted(database: Prepared, trigger: str, after: bytes, end: bytes) -> tuple[int, int]:
    piece = partial(fetch, statement=STATS, trigger=trigger, after=after, end=end)
    ((started, completed),) = await database.run("counting", piece)
    return started, completed
