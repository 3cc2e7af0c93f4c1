"""Compare bodies before the claim: under one uuid, the first body counts.

The fingerprint is stored in one atomic step before the uuid is claimed. A message with another fingerprint
claims nothing. So if two workers have two bodies, one worker is first, and the message of the other can
neither run nor pass for a duplicate. A process that dies between the two steps leaves a fingerprint and no
entry: its message comes again, has the same fingerprint, and is NEW.

If a fingerprint expired before its entry, another body could pass for a copy. So a fingerprint lives longer
than an entry that is completed within its time to live. If a run takes longer, each renewal of its lease
extends the life of the entry and also the life of the fingerprint.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from history.beside.fingerprints import Fingerprints, first_of
from history.beside.kept import needed_beside
from history.store import HistoryStore
from history.support.user_code import is_failure
from triggers.detection.table import Found, HistoryUse
from triggers.pipeline.finding import Finding, one_for_each
from triggers.service.failures import own_error

if TYPE_CHECKING:
    from triggers.pipeline.run import Run
    from triggers.service.fingerprints import Fingerprint
    from triggers.service.settings import Settings

_OTHER_BODY = Finding(HistoryUse.ON, instead=Found.OTHER_BODY)

#: How much longer a fingerprint lives than its entry: a fixed time for a pause before the claim, and a
#: divisor of the time to live because the instants of completed entries are coarse.
PAUSE, COARSE = timedelta(hours=1), 1000

#: The fingerprint of a message that has nothing to compare.
NOTHING = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """Tells copies from messages that share only the uuid."""

    settings: "Settings"
    kept: Fingerprints
    read: "Fingerprint"

    async def same(self, runs: Sequence["Run"]) -> list["Run"]:
        """Return the runs that may be claimed, and note in the others why they may not."""
        read = [(run, mine) for run in runs if (mine := self._read(run)) is not None]
        unlike = await self._unlike([(run, mine) for run, mine in read if mine is not NOTHING])
        return [run for run, _ in read if run not in unlike]

    async def _unlike(self, compared: Sequence[tuple["Run", bytes]]) -> set["Run"]:
        """Return the runs that do not have the first body, and note why. Makes one call for all runs."""
        if not compared:
            return set()
        bodies, asked = [(run.message.uuid or "", mine) for run, mine in compared], monotonic()
        lasting = lasting_for(self.settings.history_time_to_live)
        firsts = await self.kept.first_of_each(self.settings.name, bodies, lasting)
        unlike: set[Run] = set()
        for (run, mine), first in zip(compared, one_for_each(firsts, compared), strict=True):
            run.compared = (mine, asked)
            if first != mine:
                note_other_body(run, mine, first)
                unlike.add(run)
        return unlike

    def _read(self, run: "Run") -> bytes | None:
        """Return the fingerprint of a message, or NOTHING; None if it could not be read."""
        try:
            mine = self.read(run.message)
        except BaseException as error:
            if not is_failure(error):
                raise
            run.note(f"its fingerprint could not be read: {run.text_of(error)}")
            run.unidentified = own_error(error)
            return None
        return NOTHING if mine is None else mine


def note_other_body(run: "Run", mine: bytes, first: bytes) -> None:
    """Note that another body came first under the uuid of a message."""
    run.finding = _OTHER_BODY
    run.note(f"its fingerprint is {mine.hex()}, and that of the first body {first.hex()}")


def keeper_of(store: HistoryStore | None) -> Fingerprints:
    """Return the object that stores the fingerprints of a history.

    Raises:
        ConfigurationError: there is no history, or it has no records.
    """
    return needed_beside(store, "fingerprint", "fingerprints").fingerprints


def lasting_for(time_to_live: timedelta) -> timedelta:
    """Return how long a fingerprint lives if its entry has this time to live."""
    return time_to_live + time_to_live / COARSE + PAUSE


async def outlast(kept: Fingerprints, trigger: str, run: "Run", lease: timedelta) -> None:
    """Extend the life of a running message's fingerprint past its entry, after a lease renewal."""
    if run.compared is not None:
        fingerprint, since = run.compared
        lasting = timedelta(seconds=monotonic() - since) + 2 * lease + PAUSE
        await first_of(kept, trigger, run.message.uuid or "", fingerprint, lasting)
