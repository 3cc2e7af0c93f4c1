"""What a history may do besides: claim the rows of a batch by their digests alone."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from history.entry import DEFAULT_TIME_TO_LIVE, Entry
from history.store.owners import BatchOwner


class FoundInPiece(NamedTuple):
    """What stands in the way of some digests that follow each other.

    ``indexes`` has a byte for each of them, which is an index of ``entries``; of these the first is None: the
    owner has claimed it.
    """

    indexes: bytes
    entries: Sequence[Entry | None]


@runtime_checkable
class PackedClaims(Protocol):
    """What a history may do besides: claim for a batch whose rows nobody makes objects of.

    Over a history that lacks it, the rows of a batch are claimed by ``claim``.
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

        No digest stands twice among them. The pieces of the answer follow each other as the digests do.
        """
        ...
