"""Comparing bodies before the claim: under one uuid, the body that came first is the one that counts.

The fingerprint is kept in one atomic step before the uuid is claimed, and who brings another one claims
nothing. So of two workers with two bodies one is first, and the other can neither run nor be taken for a
duplicate. A process that dies between the two steps leaves a fingerprint and no entry: its message comes
again, has the same one, and is NEW.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
        uuid, time_to_live = run.message.uuid or "", self.settings.history_time_to_live
        first = await self.kept.first(self.settings.name, uuid, mine, time_to_live)
        if first != mine:
            run.finding = _OTHER_BODY
            run.note(f"its fingerprint is {mine.hex()}, and that of the first body {first.hex()}")
        return first == mine
