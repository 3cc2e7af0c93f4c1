"""The parking lot in memory: for tests and first steps."""

import threading
from collections.abc import Sequence

from history.store.parking import Parked


class MemoryParking:
    """A parking lot that lives and dies with its process; safe to share between threads.

    It keeps text, as the others do: nobody can change a message that was parked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parked: dict[tuple[str, str], str] = {}

    async def park(self, parked: Sequence[Parked]) -> None:
        """Keep messages."""
        with self._lock:
            for message in parked:
                self._parked[message.trigger_name, message.id] = message.model_dump_json()

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return the one parked message whose id begins so."""
        everything = await self.list(trigger=trigger, limit=len(self._parked))
        found = [message for message in everything if message.id.startswith(parked_id)]
        return found[0] if len(found) == 1 else None

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages, oldest first."""
        with self._lock:
            texts = [text for (name, _), text in self._parked.items() if trigger in {None, name}]
        found = [Parked.model_validate_json(text) for text in texts]
        return sorted(found, key=lambda message: (message.parked_at, message.id))[:limit]

    async def remove(self, parked: Parked) -> bool:
        """Take one message out."""
        with self._lock:
            return self._parked.pop((parked.trigger_name, parked.id), None) is not None

    async def count(self, *, trigger: str | None = None) -> int:
        """Count what is parked."""
        with self._lock:
            return sum(trigger in {None, name} for name, _ in self._parked)
