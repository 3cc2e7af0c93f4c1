"""A process's part in the charts: each minute, one of those that report adds a step for each trigger."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from history.beside.charts import STEP, Charts, ChartStep
from history.beside.kept import KeepsBeside
from history.errors import DoubtlessError
from history.store.control import Counts, Overview
from history.support.rendering import text_of

_log = logging.getLogger(__name__)

#: For how long a beat adds steps, in seconds, but at least one; the next beats add the others.
LONGEST = 0.25


@dataclass(slots=True)
class Charting:
    """Adds the steps of some triggers to one history. If that fails, only these steps are missing."""

    store: KeepsBeside
    triggers: Sequence[str]
    _minute: int = 0
    _due: list[str] = field(default_factory=list[str])
    _fails: bool = False

    async def note(self, now: datetime) -> None:
        """Add the steps that are due; ``now`` is the store's time."""
        minute = int(now.timestamp() // STEP.total_seconds())
        if minute != self._minute:
            self._minute, self._due = minute, list(self.triggers)
        if not self._due:
            return
        try:
            await self._add(self.store.charts, now)
            self._fails = False
        except Exception as error:  # noqa: BLE001  (any error of a store: nothing else depends on the charts)
            self._due.clear()
            if not self._fails:
                _log.warning("the dashboard's charts have a gap: no step was added: %s", text_of(error))
            self._fails = True

    async def _add(self, charts: Charts, now: datetime) -> None:
        made = _Steps(self.store, now)
        ends = time.monotonic() + LONGEST
        while self._due:
            name = self._due.pop()
            await charts.add(name, now, partial(made.of, name))
            if time.monotonic() >= ends:
                return


@dataclass(slots=True)
class _Steps:
    """Makes steps; all of a beat have the sums of one moment."""

    store: KeepsBeside
    now: datetime
    overview: Overview | None = None

    async def of(self, trigger: str) -> ChartStep:
        """Return the step of a trigger."""
        if self.overview is None:
            self.overview = await self.store.control.overview()
        counts = self.overview.statistics.get(trigger, Counts())
        return ChartStep(self.now, counts, await self._parked(trigger))

    async def _parked(self, trigger: str) -> int | None:
        try:
            return await self.store.parking.count(trigger=trigger)
        except DoubtlessError:  # its messages may be parked elsewhere, and its account may have no right here
            return None
