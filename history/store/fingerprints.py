"""What a store may keep besides: the fingerprint of the first body that came with a uuid."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

from history.store.history import HistoryStore

#: How many bytes a fingerprint has.
FINGERPRINT_SIZE = 8

#: In the evidence of a parked message: the entry of its uuid is that of another body, and never its own.
NO_FENCE = 0


#: A uuid, and the fingerprint of a body that came with it.
BodyOf = tuple[str, bytes]


class Fingerprints(Protocol):
    """Keeps one fingerprint for each uuid of a trigger. Everything may be sent twice."""

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        """Keep each fingerprint where none is kept for its uuid, and return those that are kept, in order.

        Each is one atomic step; a uuid that stands twice is kept in order. The fingerprint that came first
        stays until its time to live is over, which begins anew whenever the same one comes again, and is
        never made shorter by that. The store's ``forget`` takes it along with the entry.
        """
        ...


@runtime_checkable
class KeepsFingerprints(Protocol):
    """A store that keeps fingerprints, as those of this package do; one of your own may."""

    @property
    def fingerprints(self) -> Fingerprints:
        """What is kept, in the same store."""
        ...


async def first_of(
    kept: Fingerprints, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta
) -> bytes:
    """Do as :meth:`Fingerprints.first_of_each` does, for one body."""
    (first,) = await kept.first_of_each(trigger, [(uuid, fingerprint)], time_to_live)
    return first


def fingerprints_of(store: HistoryStore) -> Fingerprints | None:
    """Return what keeps the fingerprints of a store; None where it keeps none."""
    return store.fingerprints if isinstance(store, KeepsFingerprints) else None
