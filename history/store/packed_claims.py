"""An optional verb of a history: claim the rows of a batch only by their digests."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from history.entry import DEFAULT_TIME_TO_LIVE, Entry
from history.store.owners import BatchOwner


class FoundInPiece(NamedTuple):
    """The existing entries of some consecutive digests.

    ``indexes`` has one byte for each digest, which is an index of ``entries``. The first of these is None:
    the owner has claimed the digest.
    """

    indexes: bytes
    entries: Sequence[Entry | None]


@runtime_checkable
class PackedClaims(Protocol):
    """An optional verb of a history: claim for a batch without making an object of each row.

    Without it, the rows of a batch are claimed by ``claim``.
    """

    async def claim_packed(
        self,
        trigger: str,
        digests: bytes,
        owner: BatchOwner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[FoundInPiece]:
        """Claim as :meth:`~history.store.HistoryStore.claim` does, by :func:`history.entry.digests`.

        No digest may occur twice. The pieces of the answer are in the order of the digests.
        """
        ...
