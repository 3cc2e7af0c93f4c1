"""The rows of ``doubtless_offsets``: read when partitions are assigned, moved with the effects."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, AnyRow, execute, fetch
from history.sql.offsets.position import Position, Range
from history.sql.offsets.seen import Place
from history.sql.statements.offsets import ADD, FORGET, LOCK, READ, SAVE, these
from history.sql.tables.history import Prepared

#: The settled part of each partition, by the partition's number.
Positions = Mapping[int, Position]


def position_of(row: AnyRow) -> Position:
    """Read a row.

    Raises:
        ConfigurationError: somebody has written something else there.
    """
    try:
        return Position.read(row.next_offset, row.settled_beyond)
    except ValueError as error:
        raise ConfigurationError(
            "offsets",
            f"the row of partition {row.number} in the table doubtless_offsets cannot be read: {error}",
            "write next_offset as it was, and settled_beyond as ranges, such as 7-9,12",
        ) from error


async def lock(connection: AnyConnection, group: str, topic: str, numbers: Iterable[int]) -> Positions:
    """Return the existing rows, locked: nobody else writes them until the transaction ends."""
    values = these(connection.dialect.name, group, topic, numbers)
    return {row.number: position_of(row) for row in await fetch(connection, LOCK, **values)}


def values_of(partition: Place, position: Position) -> dict[str, object]:
    """Return the parameters to write a row with."""
    return {**partition._asdict(), "next": position.next_offset, "beyond": position.text}


@dataclass(frozen=True, slots=True)
class SqlOffsets:
    """The offsets in one database. Safe to share between threads; see :class:`~history.sql.SqlHistory`.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer.
    """

    database: Prepared

    async def read(self, group: str, topic: str, numbers: Iterable[int]) -> Positions:
        """Return the positions of the partitions that have a row."""
        values = these(self.database.dialect, group, topic, numbers)
        rows = await self.database.run("reading offsets", partial(fetch, statement=READ, **values))
        return {row.number: position_of(row) for row in rows}

    async def begin(self, group: str, topic: str, positions: Positions) -> Positions:
        """Make rows, and return the stored positions: another consumer may have been faster."""

        async def add(connection: AnyConnection) -> None:
            for number, position in sorted(positions.items()):
                await execute(connection, ADD, **values_of(Place(group, topic, number), position))

        await self.database.run("beginning offsets", add, atomic=True)
        return await self.read(group, topic, positions)

    async def settle(self, group: str, topic: str, ranges: Mapping[int, Sequence[Range]]) -> None:
        """Store what was settled outside of any transaction, such as messages that no service wants.

        Partitions without a row are skipped.
        """

        async def settle(connection: AnyConnection) -> None:
            positions = await lock(connection, group, topic, ranges)
            for number, position in positions.items():
                settled = position.settled(ranges[number])
                if settled != position:
                    await execute(connection, SAVE, **values_of(Place(group, topic, number), settled))

        await self.database.run("storing offsets", settle, atomic=True)

    async def reopen(self, partition: Place, offset: int) -> bool:
        """Let a message be run again; return whether it was settled."""

        async def reopen(connection: AnyConnection) -> bool:
            position = (await lock(connection, partition.group, partition.topic, [partition.number])).get(
                partition.number
            )
            if position is None or not position.has(offset):
                return False
            await execute(connection, SAVE, **values_of(partition, position.reopened(offset)))
            return True

        return await self.database.run("reopening an offset", reopen, atomic=True)

    async def forget(self, group: str, topic: str) -> int:
        """Delete the rows of a topic, and return how many there were: the group begins at Kafka's offset."""
        step = partial(fetch, statement=FORGET, group=group, topic=topic)
        return len(await self.database.run("forgetting offsets", step))

    async def close(self) -> None:
        """Give the connections back."""
        await self.database.close()
