"""What a store may keep besides: the fingerprint of the first body that came with a uuid."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from history.store.history import HistoryStore

#: How many bytes a fingerprint has.
FINGERPRINT_SIZE = 8

#: In the evidence of a parked message: the entry of its uuid is that of another body, and never its own.
NO_FENCE = 0


class Fingerprints(Protocol):
    """Keeps one fingerprint for each uuid of a trigger. Everything may be sent twice."""

    async def first(self, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta) -> bytes:
        """Keep this fingerprint where none is kept, and return the one that is kept, in one atomic step.

        The one that came first stays until its time to live is over, which begins anew whenever the same one
        comes again, and is never made shorter by that. The store's ``forget`` takes it along with the entry.
        """
        ...


@runtime_checkable
class KeepsFingerprints(Protocol):
    """A store that keeps fingerprints, as those of this package do; one of your own may."""

    @property
    def fingerprints(self) -> Fingerprints:
        """What is kept, in the same store."""
        ...


def fingerprints_of(store: HistoryStore) -> Fingerprints | None:
    """Return what keeps the fingerprints of a store; None where it keeps none."""
    return store.fingerprints if isinstance(store, KeepsFingerprints) else None
