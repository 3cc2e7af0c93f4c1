"""The result of a uuid's first run, stored with its entry for later callers."""

from datetime import timedelta
from typing import NamedTuple, Protocol

from history.store.history import HistoryStore


class KeptResult(NamedTuple):
    """Some bytes, and the fence of the run that stored them.

    They are the result of a completed entry only if that entry has the same fence: another run may have
    stored something and lost its entry before it completed.
    """

    fence: int
    data: bytes


class Results(Protocol):
    """Keeps some bytes for each uuid of a trigger. Every call may be sent twice.

    The store's ``forget`` deletes them with the entry.
    """

    async def put(self, trigger: str, uuid: str, kept: KeptResult, time_to_live: timedelta) -> bool:
        """Replace the stored bytes with these; False, without a change, if those have a greater fence."""
        ...

    async def get(self, trigger: str, uuid: str) -> KeptResult | None:
        """Return the stored bytes; None if there are none, or after their time to live."""
        ...


def results_of(store: HistoryStore) -> Results | None:
    """Return the results of a store; None if it does not keep any. Your own store may, in a property."""
    kept: Results | None = getattr(store, "results", None)
    return kept
