"""How many messages wait at a provider, for how long, and whether anybody takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The messages that wait for one subscription of a destination; None means unknown.

    No consumer has received the ``waiting`` messages yet. The ``held`` messages were handed out and are not
    settled. The ``later`` messages are not due. If ``is_more``, counting stopped early: at least so many
    wait. ``oldest`` is when the first waiting or held message came. ``subscription`` is None if all
    subscriptions share the destination.
    """

    destination: str
    subscription: str | None = None
    waiting: int | None = None
    held: int | None = None
    later: int | None = None
    consumers: int | None = None
    oldest: datetime | None = None
    is_more: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the provider reports any number."""
        return self.waiting is not None or self.held is not None


#: A destination and a subscription of it, by the names that a receiver is opened with.
Place = tuple[str, str]


@runtime_checkable
class TellingBacklog(Protocol):
    """A provider that reports its backlog. The call takes and changes no message."""

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return the backlog of each of these places, in order, then that of any other known places.

        A place that the provider does not have, or cannot count, has no numbers.

        Raises:
            ProviderUnavailableError: it does not answer.
        """
        ...


def in_order(backlogs: Sequence[Backlog], places: Sequence[Place]) -> Sequence[Backlog]:
    """Return the backlogs of ``places`` first and in their order, then the others."""
    by_pair: dict[tuple[str, str | None], Backlog] = {
        (backlog.destination, backlog.subscription): backlog for backlog in backlogs
    }
    wanted = [
        by_pair.pop(pair) if pair in by_pair else Backlog(destination=pair[0], subscription=pair[1])
        for pair in places
    ]
    return [*wanted, *by_pair.values()]
