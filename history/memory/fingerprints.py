"""Fingerprints in memory."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from history.store.fingerprints import BodyOf


class MemoryFingerprints:
    """Fingerprints that live and die with their process; safe to share between threads."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], tuple[bytes, datetime]] = {}

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        """Keep each where none is kept for its uuid, and return those that are kept."""
        return [self._first(trigger, uuid, fingerprint, time_to_live) for uuid, fingerprint in bodies]

    def _first(self, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta) -> bytes:
        with self._lock:
            now = self._clock()
            until = now + time_to_live
            before = self._kept.get((trigger, uuid))
            if before is not None and before[1] > now:
                if before[0] != fingerprint:
                    return before[0]
                until = max(until, before[1])
            self._kept.pop((trigger, uuid), None)  # so that the oldest stand first
            self._kept[trigger, uuid] = (fingerprint, until)
            while (oldest := next(iter(self._kept))) and self._kept[oldest][1] <= now:
                del self._kept[oldest]
            return fingerprint

    def forget(self, trigger: str, uuid: str) -> bool:
        """Forget one; False when there was none."""
        with self._lock:
            before = self._kept.pop((trigger, uuid), None)
            return before is not None and before[1] > self._clock()
