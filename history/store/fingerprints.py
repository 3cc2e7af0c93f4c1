"""An optional part of a store: the fingerprint of the first body that came with a uuid."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from history.store.history import HistoryStore

#: How many bytes a fingerprint has.
FINGERPRINT_SIZE = 8

#: In the evidence of a parked message: the entry of its uuid belongs to another body, never to its own.
NO_FENCE = 0


#: A uuid, and the fingerprint of a body that came with it.
BodyOf = tuple[str, bytes]


class Fingerprints(Protocol):
    """Keeps one fingerprint for each uuid of a trigger. Every call may be sent twice."""

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        """Store each fingerprint if its uuid has none yet, and return the stored fingerprints, in order.

        Each is one atomic step; if a uuid occurs twice, both are processed in order. The first fingerprint
        stays until its time to live is over. That begins again whenever the same fingerprint comes, and never
        gets shorter by this. The store's ``forget`` deletes it with the entry.
        """
        ...


async def first_of(
    kept: Fingerprints, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta
) -> bytes:
    """Do the same as :meth:`Fingerprints.first_of_each`, for one body."""
    (first,) = await kept.first_of_each(trigger, [(uuid, fingerprint)], time_to_live)
    return first


def fingerprints_of(store: HistoryStore) -> Fingerprints | None:
    """Return the fingerprints of a store; None if it does not keep any. Your own store may, in a property."""
    kept: Fingerprints | None = getattr(store, "fingerprints", None)
    return kept
