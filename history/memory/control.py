"""Commands, states and statistics in memory: for tests and first steps."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from history.store.control import (
    FORGOTTEN_AFTER,
    GONE_AFTER,
    Beat,
    Counts,
    Heard,
    Order,
    Overview,
    Report,
    Verb,
)


class MemoryControl:
    """Reports of this process's consumers, and commands to them; threads may share it.

    ``clock`` replaces the server's clock and returns aware UTC.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._number = 0
        self._beats: dict[tuple[str, str], Beat] = {}
        self._orders: dict[tuple[str, bool], Order] = {}
        self._totals: dict[str, Counter[str]] = {}
        self._named: set[str] = set()

    @property
    def address(self) -> str:
        """This object: nothing outside the process sees its content."""
        return f"memory:{id(self)}"

    async def beat(self, token: str, reports: Sequence[Report]) -> Heard:
        """Store reports, and return the commands of their triggers."""
        with self._lock:
            now = self._clock()
            for report in reports:
                before = self._beats.get((token, report.trigger))
                counted = report.counts - (Counts() if before is None else before.report.counts)
                self._totals.setdefault(report.trigger, Counter()).update(counted.some())
                self._beats[token, report.trigger] = Beat(report, now)
            named = {report.trigger for report in reports}
            self._named |= named
            return Heard(now, [order for order in self._orders.values() if order.trigger in named])

    async def order(self, verb: Verb, triggers: Sequence[str], *, reason: str | None = None) -> int:
        """Give a command."""
        with self._lock:
            self._number += 1
            for name in triggers:
                self._orders[name, verb.lasts] = Order(
                    trigger=name, verb=verb, number=self._number, given_at=self._clock(), reason=reason
                )
            return self._number

    async def overview(self, *, silence: timedelta = GONE_AFTER) -> Overview:
        """Return everything known."""
        with self._lock:
            now = self._clock()
            alive = [beat for beat in self._beats.values() if now - beat.beat_at <= silence]
            return Overview(
                now=now,
                beats=[beat for beat in alive if not beat.report.leaving],
                orders=list(self._orders.values()),
                statistics={name: Counts(**total) for name, total in self._totals.items() if total},
                reported=frozenset(self._named),
            )

    async def clear(self, *, trigger: str | None = None) -> None:
        """Forget the sums; earlier counts are not added again."""
        with self._lock:
            for name in list(self._totals) if trigger is None else [trigger]:
                self._totals.pop(name, None)

    async def sweep(self, *, silence: timedelta = FORGOTTEN_AFTER) -> int:
        """Delete old reports."""
        with self._lock:
            now = self._clock()
            gone = [key for key, beat in self._beats.items() if now - beat.beat_at > silence]
            for key in gone:
                del self._beats[key]
            return len(gone)
