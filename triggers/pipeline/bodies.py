"""Comparing bodies before the claim: under one uuid, the body that came first is the one that counts.

The fingerprint is kept in one atomic step before the uuid is claimed, and who brings another one claims
nothing. So of two workers with two bodies one is first, and the other can neither run nor be taken for a
duplicate. A process that dies between the two steps leaves a fingerprint and no entry: its message comes
again, has the same one, and is NEW.

A fingerprint that ended before its entry would let another body pass for a copy. So it lives longer than an
entry that is completed in its time to live; and a run that takes longer, whose entry lives longer with every
renewal of its lease, prolongs it together with that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from history.store.fingerprints import Fingerprints
from history.support.rendering import text_of
from history.support.user_code import is_failure
from triggers.detection.table import Found, HistoryUse
from triggers.pipeline.finding import Finding
from triggers.service.failures import own_error

if TYPE_CHECKING:
    from triggers.pipeline.run import Run
    from triggers.service.fingerprints import Fingerprint
    from triggers.service.settings import Settings

_OTHER_BODY = Finding(HistoryUse.ON, instead=Found.OTHER_BODY)

#: How much longer a fingerprint lives than its entry: for a pause before the claim, and, as a divisor of the
#: time to live, because the instants of completed entries are coarse.
PAUSE, COARSE = timedelta(hours=1), 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """Tells copies from messages that have nothing but the uuid in common."""

    settings: "Settings"
    kept: Fingerprints
    read: "Fingerprint"

    async def same(self, runs: Sequence["Run"]) -> list["Run"]:
        """Return the runs that may be claimed, and note what keeps the others from it."""
        return [run for run in runs if await self._is_same(run)]

    async def _is_same(self, run: "Run") -> bool:
        try:
            mine = self.read(run.message)
        except BaseException as error:
            if not is_failure(error):
                raise
            run.note(f"its fingerprint could not be read: {text_of(error)}")
            run.unidentified = own_error(error)
            return False
        if mine is None:
            return True
        time_to_live, asked = self.settings.history_time_to_live, monotonic()
        lasting = time_to_live + time_to_live / COARSE + PAUSE
        first = await self.kept.first(self.settings.name, run.message.uuid or "", mine, lasting)
        run.compared = (mine, asked)
        if first != mine:
            run.finding = _OTHER_BODY
            run.note(f"its fingerprint is {mine.hex()}, and that of the first body {first.hex()}")
        return first == mine


async def outlast(kept: Fingerprints, trigger: str, run: "Run", lease: timedelta) -> None:
    """Prolong the life of a running message's fingerprint past that of its entry, whose lease was renewed."""
    if run.compared is not None:
        fingerprint, since = run.compared
        lasting = timedelta(seconds=monotonic() - since) + 2 * lease + PAUSE
        await kept.first(trigger, run.message.uuid or "", fingerprint, lasting)
