"""What waits at a provider: how much, for how long, and whether anybody takes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits for one subscription of a destination; None is what the provider does not say.

    ``waiting`` were handed to nobody yet, ``held`` were handed out and are not answered, ``later`` are not
    due. ``is_more`` says that counting ended there: at least so many wait. ``oldest`` is when the first of
    what is waiting or held came. ``subscription`` is None where all subscriptions share the destination.
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
        """Whether the provider says anything of it."""
        return self.waiting is not None or self.held is not None


#: A destination and a subscription of it, by the names that a receiver is opened with.
Place = tuple[str, str]


@runtime_checkable
class TellingBacklog(Protocol):
    """A provider that can be asked what waits there, which takes and changes nothing."""

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return what waits at each of these places, in order, then what is known of others.

        One that the provider does not have, or says nothing of, has no numbers.

        Raises:
            ProviderUnavailableError: it does not answer.
        """
        ...


def in_order(found: Sequence[Backlog], places: Sequence[Place]) -> Sequence[Backlog]:
    """Return what was found: that of ``places`` first and in their order, then the others."""
    known: dict[tuple[str, str | None], Backlog] = {(one.destination, one.subscription): one for one in found}
    wanted = [
        known.pop(place) if place in known else Backlog(destination=place[0], subscription=place[1])
        for place in places
    ]
    return [*wanted, *known.values()]
