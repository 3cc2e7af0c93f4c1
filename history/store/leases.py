"""Optional verbs of a history: prolong many leases in one call, or the lease of a batch."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

from history.entry import Renewal
from history.store.owners import BatchOwner


@runtime_checkable
class ManyLeases(Protocol):
    """An optional verb of a history: prolong the leases of many entries in one round trip per 200.

    Without it, each lease is renewed by a separate call.
    """

    async def renew_many(self, trigger: str, renewals: Sequence[Renewal], lease: timedelta) -> Sequence[bool]:
        """Prolong each lease, as :meth:`~history.store.HistoryStore.renew` does for one; answer in order.

        False for each lease that is not prolonged, for any reason; the others are not affected. A lookup
        shows the reason. A uuid may occur twice, such as for a run that lost its fence and for its successor.

        Raises:
            ConfigurationError: no store can hold the lease, as in
                :meth:`~history.store.HistoryStore.claim`.
        """
        ...


@runtime_checkable
class BatchLeases(Protocol):
    """An optional verb of a history: prolong the lease of a batch if its driver does not know the uuids.

    Without it, the batches of Spark are claimed without a lease.
    """

    async def renew_batch(self, trigger: str, owner: BatchOwner, lease: timedelta) -> bool:
        """Prolong the lease of all entries of an open batch to ``lease`` from now, with one write.

        Sending it twice does no harm. False, without a change, if the batch is unknown or has ended, or would
        be forgotten before the lease is over. The entries of a batch live as long as was set when it was
        opened.

        Raises:
            ConfigurationError: no store can hold the lease, as in
                :meth:`~history.store.HistoryStore.claim`.
        """
        ...
