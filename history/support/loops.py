"""Whether an event loop runs here, and one value per loop, such as connections of an asyncio driver."""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable
from typing import Generic, TypeVar

from history.support.forks import forkable_lock, without_forks

T = TypeVar("T")


def has_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True


class PerLoop(Generic[T]):
    """One value for each event loop; safe between threads.

    When a loop is closed, its value can neither be used nor closed. It is dropped when another loop makes its
    own. So a program that calls ``asyncio.run`` again and again keeps only the last value.
    """

    def __init__(self) -> None:
        self._values: dict[AbstractEventLoop, T] = {}
        self._lock = forkable_lock()

    def of_running(self, make: Callable[[AbstractEventLoop], T]) -> T:
        """Return the running loop's value; the first call there makes it."""
        loop = get_running_loop()
        value = self._values.get(loop)
        return self._make(loop, make) if value is None else value

    def pop_running(self) -> T | None:
        """Remove and return the running loop's value, if it has one."""
        with self._lock:
            return self._values.pop(get_running_loop(), None)

    def _make(self, loop: AbstractEventLoop, make: Callable[[AbstractEventLoop], T]) -> T:
        with without_forks(), self._lock:
            # Dropped after the lock is released, because their destructors may take time.
            closed = [closed_loop for closed_loop in self._values if closed_loop.is_closed()]
            dropped = [self._values.pop(closed_loop, None) for closed_loop in closed]
            value = self._values[loop] = make(loop)
        del dropped
        return value
