"""Resource monitors: asked once in an interval, whichever of their triggers want to know."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

#: What a trigger is given as its monitor.
Asked = Callable[[], bool]


@dataclass(slots=True, eq=False)
class Monitor:
    """One resource monitor of one consumer, and what it said last; safe between threads.

    Several triggers may wait for it: one of them asks, and its yes is for all that were suspended when it was
    asked, as in the reference system. Instants are monotonic seconds.
    """

    ask: Asked
    asked_at: float = float("-inf")
    _agreed_at: float = float("-inf")
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def agreed_since(self, instant: float) -> bool:
        """Whether it was asked since then, and said yes."""
        return self._agreed_at >= instant

    def begin(self, now: float, interval: float, *, unless_before: float = float("-inf")) -> bool:
        """Whether it is to be asked now, and not by another already; :meth:`end` must follow.

        It is not asked twice in ``interval`` seconds, unless it was last asked before ``unless_before``.
        """
        if not self._asking.acquire(blocking=False):
            return False
        if now < self.asked_at + interval and self.asked_at >= unless_before:
            self._asking.release()
            return False
        self.asked_at = now
        return True

    def end(self, *, agreed: bool) -> None:
        """Note what it said."""
        if agreed:
            self._agreed_at = self.asked_at
        self._asking.release()


class Monitors:
    """The monitors of one consumer, one for each function that its triggers name."""

    def __init__(self) -> None:
        self._known: list[Monitor] = []

    def of(self, ask: Asked | None) -> Monitor | None:
        """Return the monitor that asks this function; the same for equal functions."""
        if ask is None:
            return None
        for known in self._known:
            if known.ask == ask:
                return known
        self._known.append(Monitor(ask))
        return self._known[-1]
