"""Fingerprints in memory."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta


class MemoryFingerprints:
    """Fingerprints that live and die with their process; safe to share between threads."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], tuple[bytes, datetime]] = {}

    async def first(self, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta) -> bytes:
        """Keep this where none is kept, and return the one that is kept."""
        with self._lock:
            now = self._clock()
            before = self._kept.get((trigger, uuid))
            if before is not None and before[1] > now and before[0] != fingerprint:
                return before[0]
            self._kept.pop((trigger, uuid), None)  # so that the oldest stand first
            self._kept[trigger, uuid] = (fingerprint, now + time_to_live)
            while (oldest := next(iter(self._kept))) and self._kept[oldest][1] <= now:
                del self._kept[oldest]
            return fingerprint
