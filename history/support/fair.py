"""A semaphore for threads that gives its permits in the order of the requests.

``threading`` has no fair one: a thread that gives a permit back and asks again takes it before a waiting
thread is awake. So a busy thread keeps all others out. ``asyncio.Semaphore`` and ``asyncio.Lock`` are fair.
"""

from collections import deque
from threading import Lock


class FairSemaphore:
    """Safe between threads. A permit that comes back goes to the thread that has waited longest."""

    def __init__(self, permits: int) -> None:
        self._changing = Lock()
        self._permits = permits
        #: One lock for each thread that waits: locked until the thread gets a permit.
        self._waiting: deque[Lock] = deque()

    @property
    def waiting(self) -> int:
        """How many threads wait for a permit."""
        return len(self._waiting)

    def locked(self) -> bool:
        """Whether a thread that asks now has to wait."""
        return self._permits == 0

    def acquire(self) -> bool:
        """Wait for a permit, and take it; return True."""
        with self._changing:
            if self._permits > 0:
                self._permits -= 1
                return True
            handed = Lock()
            handed.acquire()
            self._waiting.append(handed)
        try:
            return handed.acquire()
        except BaseException:  # Ctrl-C, in the main thread
            self._leave(handed)
            raise

    def release(self) -> None:
        """Hand a permit to the thread that has waited longest; keep it if nobody waits."""
        with self._changing:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._permits += 1

    def _leave(self, handed: Lock) -> None:
        """Stop waiting; a permit that was handed over meanwhile goes to the next thread."""
        with self._changing:
            waits = handed in self._waiting
            if waits:
                self._waiting.remove(handed)
        if not waits:
            self.release()
