"""What the first run of a uuid answered, kept beside its entry for those who ask again."""

from datetime import timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from history.store.history import HistoryStore


class KeptResult(NamedTuple):
    """Some bytes, and the fence of the run that kept them.

    They are the answer of a completed entry only where that entry has the same fence: another run may have
    kept something and lost its entry before it completed.
    """

    fence: int
    data: bytes


class Results(Protocol):
    """Keeps some bytes for each uuid of a trigger. Everything may be sent twice.

    The store's ``forget`` takes them along with the entry.
    """

    async def put(self, trigger: str, uuid: str, kept: KeptResult, time_to_live: timedelta) -> bool:
        """Keep this in the place of what was kept; False, and nothing changed, for a greater fence there."""
        ...

    async def get(self, trigger: str, uuid: str) -> KeptResult | None:
        """Return what is kept; None for nothing, or when its time to live is over."""
        ...


@runtime_checkable
class KeepsResults(Protocol):
    """A store that keeps results, as those of this package do; one of your own may."""

    @property
    def results(self) -> Results:
        """What is kept, in the same store."""
        ...


def results_of(store: HistoryStore) -> Results | None:
    """Return what keeps the results of a store; None where it keeps none."""
    return store.results if isinstance(store, KeepsResults) else None
