"""Histories that identify some messages by their place in an order, and remember how far it is settled.

Settling such a message means moving that place, in the transaction of its effects. An entry is only written
for a message that failed and is given up, so that somebody can still run it.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Generic, Self, TypeVar, Unpack

from history.entry import EntryOutcome, Settlement
from history.message import Uuid
from history.sql.database.engine import AnyConnection, AnyEngine
from history.sql.history import SqlHistory, SqlOptions

#: The notes of a view inside a transaction about a message that it has claimed.
Mine = TypeVar("Mine")

#: How long a failure that was given up can still be run.
REMEMBERED = timedelta(days=36_500)


class PlacedHistory(SqlHistory, Generic[Mine]):
    """The common part of the histories of links and of Kafka's offsets."""

    def __init__(self, engine: AnyEngine, **options: Unpack[SqlOptions]) -> None:
        super().__init__(engine, **options)
        self._mine: dict[str, Mine] = {}

    def joined(self, connection: AnyConnection) -> Self:
        """Return a view of this history inside the transaction that ``connection`` has open."""
        view = super().joined(connection)
        view._mine = {}  # noqa: SLF001  (the same class)
        return view

    def completion(self, trigger: str, settlements: Sequence[Settlement]) -> None:
        """Return nothing, because this history settles by moving places."""

    async def _write_failure(self, trigger: str, uuid: str, owner: str) -> None:
        """Write an entry for a failure; when the message is delivered again, it is given up and parked."""
        (claimed,) = await super().claim(trigger, [uuid], owner, time_to_live=REMEMBERED)
        if claimed.found is None:
            settlement = Settlement(Uuid(uuid), claimed.fence, EntryOutcome.FAILED, owner)
            await super().settle(trigger, [settlement])
