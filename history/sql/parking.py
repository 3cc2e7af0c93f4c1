"""The parking lot in a SQL database, beside the history."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from history.sql.database.engine import AnyConnection, Database, execute_each, fetch
from history.sql.statements.parking import COUNT, FIND, LIST, PARK, REMOVE
from history.store.parking import Parked

_EPOCH = datetime.fromtimestamp(0, UTC)


class SqlParking:
    """A parking lot in a SQL database; each message is one JSON document.

    Safe to share between threads; over an asyncio engine it belongs to one event loop.

    Guarantee: a message is kept once ``park`` has returned, as safely as the database keeps a commit.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def park(self, parked: Sequence[Parked]) -> None:
        """Keep messages, all or none."""
        if parked:
            await self._database.run("parking", partial(_park, parked=parked), atomic=True)

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return the one parked message whose id begins so."""
        find = partial(fetch, statement=FIND, beginning=parked_id, trigger=trigger)
        found = await self._database.run("looking for a parked message", find)
        return Parked.model_validate_json(found[0].document) if len(found) == 1 else None

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages, oldest first."""
        found = await self._database.run(
            "listing parked messages", partial(fetch, statement=LIST, trigger=trigger, limit=limit)
        )
        return [Parked.model_validate_json(row.document) for row in found]

    async def remove(self, parked: Parked) -> bool:
        """Take one message out."""
        remove = partial(fetch, statement=REMOVE, trigger=parked.trigger_name, id=parked.id)
        return bool(await self._database.run("removing a parked message", remove))

    async def count(self, *, trigger: str | None = None) -> int:
        """Count what is parked."""
        ((count,),) = await self._database.run(
            "counting parked messages", partial(fetch, statement=COUNT, trigger=trigger)
        )
        return int(count)


async def _park(connection: AnyConnection, *, parked: Sequence[Parked]) -> None:
    rows = [
        {
            "trigger": message.trigger_name,
            "id": message.id,
            "parked_at": (message.parked_at - _EPOCH) // timedelta(microseconds=1),
            "document": message.model_dump_json(),
        }
        for message in parked
    ]
    await execute_each(connection, PARK, rows)
