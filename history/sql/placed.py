"""Histories that know some messages by their place in an order, and remember how far it is settled.

To settle such a message is to move that place, in the transaction of its effects. An entry is written only of
one that failed and is given up, so that it can be run again after all.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Generic, Self, TypeVar, Unpack

from history.entry import EntryOutcome, Settlement
from history.message import Uuid
from history.sql.database.engine import AnyConnection, AnyEngine
from history.sql.history import SqlHistory, SqlOptions

#: What a view inside of a transaction notes of a message that it has claimed.
Mine = TypeVar("Mine")

#: How long a failure that is given up can be run after all.
REMEMBERED = timedelta(days=36_500)


class PlacedHistory(SqlHistory, Generic[Mine]):
    """What the histories of links and of Kafka's offsets have in common."""

    def __init__(self, engine: AnyEngine, **options: Unpack[SqlOptions]) -> None:
        super().__init__(engine, **options)
        self._mine: dict[str, Mine] = {}

    def joined(self, connection: AnyConnection) -> Self:
        """Return a view of this history inside the transaction that ``connection`` has open."""
        view = super().joined(connection)
        view._mine = {}  # noqa: SLF001  (its own class)
        return view

    def completion(self, trigger: str, settlements: Sequence[Settlement]) -> None:
        """Return nothing: it settles by moving places."""

    async def _write_failure(self, trigger: str, uuid: str, owner: str) -> None:
        """Write an entry of what failed; it is given up, and parked, when it is delivered again."""
        (claimed,) = await super().claim(trigger, [uuid], owner, time_to_live=REMEMBERED)
        if claimed.found is None:
            settlement = Settlement(Uuid(uuid), claimed.fence, EntryOutcome.FAILED, owner)
            await super().settle(trigger, [settlement])
