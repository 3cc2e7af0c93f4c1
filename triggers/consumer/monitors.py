"""Resource monitors: asked once in an interval, however many triggers use them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

#: A trigger's monitor function.
Asked = Callable[[], bool]


@dataclass(slots=True, eq=False)
class Monitor:
    """One resource monitor of one consumer, and its last answer; safe between threads.

    Several triggers may wait for it. One of them asks, and a yes is valid for all that were suspended when it
    was asked, as in webMethods. Instants are monotonic seconds.
    """

    ask: Asked
    asked_at: float = float("-inf")
    _agreed_at: float = float("-inf")
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def agreed_since(self, instant: float) -> bool:
        """Whether it was asked after this instant, and agreed."""
        return self._agreed_at >= instant

    def begin(self, now: float, interval: float, *, unless_before: float = float("-inf")) -> bool:
        """Whether to ask it now, unless another trigger already does; :meth:`end` must follow.

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
        """Note its answer."""
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
