"""Whether an event loop runs here, and what belongs to one each, such as connections of an asyncio driver."""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

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

    What belongs to a loop that is closed can be used no more, nor be closed there: it is dropped when another
    loop makes its own. So a program that calls ``asyncio.run`` again and again keeps the last one only.
    """

    def __init__(self) -> None:
        self._values: dict[AbstractEventLoop, T] = {}
        self._lock = Lock()

    def of_running(self, make: Callable[[AbstractEventLoop], T]) -> T:
        """Return the running loop's value, made at its first use there."""
        loop = get_running_loop()
        value = self._values.get(loop)
        return self._make(loop, make) if value is None else value

    def pop_running(self) -> T | None:
        """Take the running loop's value out, if it has one."""
        with self._lock:
            return self._values.pop(get_running_loop(), None)

    def _make(self, loop: AbstractEventLoop, make: Callable[[AbstractEventLoop], T]) -> T:
        with self._lock:
            # They are let go after the lock: what ends with them may take time.
            closed = [one for one in self._values if one.is_closed()]
            dropped = [self._values.pop(one, None) for one in closed]
            value = self._values[loop] = make(loop)
        del dropped
        return value
