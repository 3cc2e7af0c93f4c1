"""What a history may do besides: prolong many leases in one call, and the lease of a batch."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

from history.entry import Renewal
from history.store.owners import BatchOwner


@runtime_checkable
class ManyLeases(Protocol):
    """What a history may do besides: prolong the leases of many entries in one round trip per 200.

    Over a history that lacks it, each lease is renewed by a call of its own.
    """

    async def renew_many(self, trigger: str, renewals: Sequence[Renewal], lease: timedelta) -> Sequence[bool]:
        """Prolong each lease as :meth:`~history.store.HistoryStore.renew` does one; answer in order.

        False for each that is not prolonged, whatever the reason, and nothing but that one is different for
        it: a lookup says why. A uuid may stand twice, such as of a run that lost its fence and of the one
        after it.

        Raises:
            ConfigurationError: no store can hold the lease, as in
                :meth:`~history.store.HistoryStore.claim`.
        """
        ...


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
