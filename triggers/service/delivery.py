"""Information for a service about its run: the :class:`Delivery`, and whether its lease still holds."""

from dataclasses import dataclass, field
from typing import Protocol

from triggers.service.failures import LeaseLostError


class HeldLease(Protocol):
    """The lease of a run that goes on; the thread of its keeper writes it."""

    @property
    def owner(self) -> str | None:
        """The token under which the entry was claimed."""
        ...

    @property
    def taken_by(self) -> str | None:
        """The owner of the entry, after this run is known to have lost it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One run of a service. If a target checks its ``uuid`` and ``fence``, effects are fenced.

        def book(order: dict, delivery: Delivery) -> None:
            ledger.book(order, uuid=delivery.uuid, fence=delivery.fence)

    ``attempt`` counts the runs of this delivery, from 1. ``fence`` is None without a document history.
    """

    __module__ = "triggers"

    uuid: str | None
    fence: int | None
    attempt: int
    trigger_name: str
    delivery_count: int = -1
    lease: HeldLease | None = field(default=None, repr=False, compare=False)

    def check(self) -> None:
        """Stop a long service if its lease was lost. Without a lease, do nothing.

        Raises:
            LeaseLostError: another owner has the message. Do not catch it: nothing is parked, and no
                event is raised.
        """
        lease = self.lease
        if lease is not None and lease.taken_by is not None:
            raise LeaseLostError(self.uuid or "", lease.owner or "", lease.taken_by)
