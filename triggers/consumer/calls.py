"""Calls to a server that have not returned yet: a server may be silent long before a driver gives it up."""

import time
from collections.abc import Generator
from contextlib import contextmanager

#: After how many seconds without an answer a server counts as away: monitoring must show it within ten.
OVERDUE = 4.0


class Calls:
    """The calls of a trigger to one server; safe between threads."""

    def __init__(self) -> None:
        self._begun: dict[object, float] = {}

    @contextmanager
    def begun(self) -> Generator[None]:
        """Count a call while it runs."""
        call = object()
        self._begun[call] = time.monotonic()
        try:
            yield
        finally:
            del self._begun[call]

    @property
    def pending(self) -> bool:
        """Whether a call has not returned."""
        return bool(self._begun)

    @property
    def silent_for(self) -> float | None:
        """How many seconds the oldest call has waited, if that is too long; else None."""
        oldest = min(list(self._begun.values()), default=None)
        age = 0.0 if oldest is None else time.monotonic() - oldest
        return age if age > OVERDUE else None
