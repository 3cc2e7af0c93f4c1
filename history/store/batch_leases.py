"""What a history may do besides: prolong the lease of a batch."""

from datetime import timedelta
from typing import Protocol, runtime_checkable

from history.store.owners import BatchOwner


@runtime_checkable
class BatchLeases(Protocol):
    """What a history may do besides: prolong the lease of a batch whose driver knows none of its uuids.

    Over a history that lacks it, the batches of Spark are claimed without a lease.
    """

    async def renew_batch(self, trigger: str, owner: BatchOwner, lease: timedelta) -> bool:
        """Prolong the lease of all that an open batch holds to ``lease`` from now, with one write.

        Sending it twice does no harm. False, and nothing changed, when the batch is unknown or has ended, or
        would be forgotten before the lease is over: the entries of a batch live as long as was said when it
        was opened.

        Raises:
            ConfigurationError: no store can hold the lease, as in
                :meth:`~history.store.HistoryStore.claim`.
        """
        ...
