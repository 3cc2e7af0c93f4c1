"""The rows of its partitions as one process knows them; safe between threads.

A position only rises, except in two cases: somebody has restored an older copy of the database, or has let a
message run again. Locking a row reveals this: the process compares it with the value at the last lock.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """One partition, as a consumer group reads it."""

    group: str
    topic: str
    number: int


@dataclass(slots=True)
class Seen:
    """The last values of each partition since it was assigned."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _reached: dict[Place, int] = field(default_factory=dict[Place, int])
    _stored: dict[Place, set[int]] = field(default_factory=dict[Place, set[int]])
    _went_back: set[Place] = field(default_factory=set[Place])

    def begin(self, partition: Place, next_offset: int) -> None:
        """Note that a partition was assigned, and its first offset."""
        with self._lock:
            self._reached[partition] = next_offset
            self._stored.pop(partition, None)
            self._went_back.discard(partition)

    def end(self, partition: Place) -> None:
        """Forget a partition that was revoked."""
        with self._lock:
            self._reached.pop(partition, None)
            self._stored.pop(partition, None)
            self._went_back.discard(partition)

    def note_locked(self, partition: Place, next_offset: int | None) -> bool:
        """Note the value of a locked row, None if the row is gone; return whether it went back."""
        with self._lock:
            went_back = next_offset is None or next_offset < self._reached.get(partition, 0)
            if went_back:
                self._went_back.add(partition)
            elif next_offset is not None:
                self._reached[partition] = next_offset
            return went_back

    def has_gone_back(self, partition: Place) -> bool:
        """Whether the messages handed out of a partition no longer match its row."""
        return partition in self._went_back

    def note_stored(self, partition: Place, offsets: Iterable[int]) -> None:
        """Note the value that a locked row has when its transaction is committed."""
        with self._lock:
            self._stored.setdefault(partition, set()).update(offsets)

    def take_stored(self, partition: Place, offset: int) -> bool:
        """Return, only once, whether a transaction has stored an offset."""
        with self._lock:
            stored = self._stored.get(partition, set())
            was_stored = offset in stored
            stored.discard(offset)
            return was_stored
