"""Kept results in memory."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from history.store.results import KeptResult


class MemoryResults:
    """Results that live and die with their process; safe to share between threads."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], tuple[KeptResult, datetime]] = {}

    async def put(self, trigger: str, uuid: str, kept: KeptResult, time_to_live: timedelta) -> bool:
        """Keep this in the place of what was kept before."""
        with self._lock:
            now = self._clock()
            before = self._kept.get((trigger, uuid))
            if before is not None and before[1] > now and before[0].fence > kept.fence:
                return False
            self._kept.pop((trigger, uuid), None)  # so that the oldest stand first
            self._kept[trigger, uuid] = (kept, now + time_to_live)
            while (oldest := next(iter(self._kept))) and self._kept[oldest][1] <= now:
                del self._kept[oldest]
            return True

    async def get(self, trigger: str, uuid: str) -> KeptResult | None:
        """Return what is kept."""
        with self._lock:
            kept = self._kept.get((trigger, uuid))
            return None if kept is None or kept[1] <= self._clock() else kept[0]

    def forget(self, trigger: str, uuid: str) -> bool:
        """Forget one; False when there was none."""
        with self._lock:
            before = self._kept.pop((trigger, uuid), None)
            return before is not None and before[1] > self._clock()
