"""Entries pinned to a reader that reads them again and again, until it says that it is done with them.

Message ids cannot serve as offsets: their order is not that of commits, and consumed messages are deleted. So
a reader claims entries as a consumer does, in lots with growing numbers. ``read_state`` holds the lot, and a
lot has the same entries until it is removed. The number of the lot is the offset.

The reader is a client with a lease of a thousand years: no reaper gives back what it holds, and nobody
changes it without ``--force``. Its incarnation is one line of lots. If another process takes the name over,
it gets a new line, and every request for the old one returns nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, AnyRow, execute, fetch
from history.sql.statements.dialects import statement
from triggers.providers.sqljms.destinations import Destination, DestinationKind, find_or_make, subscribe
from triggers.providers.sqljms.link import OTHERS, reserve
from triggers.providers.sqljms.receiving import client_statements, entries
from triggers.providers.sqljms.receiving.entries import EntrySource, listed
from triggers.providers.sqljms.receiving.odd_rows import EitherRow, read_together
from triggers.providers.sqljms.statements import for_each_kind

#: How long a reader counts as alive, in milliseconds: a thousand years.
LIFELONG = 1000 * 365 * 86_400_000

NOW = statement("SELECT {now} AS now")

# Whether the line has ended, or an entry is due.
LOOK = for_each_kind(
    """SELECT CASE WHEN c.client_id IS NULL OR EXISTS (
            SELECT 1 FROM {priorities} CROSS JOIN {entry} AS e
            WHERE e.{place} = c.place_id AND e.priority = p.value AND e.read_state = 0
                AND e.delivery_date <= clock.now
        ) THEN 1 ELSE 0 END AS there
    FROM (SELECT {now} AS now) AS clock
    LEFT JOIN dms_client AS c ON c.client_name = :name AND c.incarnation = :incarnation"""
)

# The place of a reader, and its exclusive client. Nobody may take it over until this is committed.
OPEN = for_each_kind(
    "SELECT exclusive_client_id FROM {parent} WHERE {place} = :place",
    "SELECT exclusive_client_id FROM {parent} WHERE {place} = :place FOR SHARE",
)

# Pin entries that are due and have not expired, in the order of delivery.
PIN = for_each_kind(
    """UPDATE {entry} SET handling_client_id = :client, read_state = :lot, delivery_count = delivery_count + 1
    WHERE {place} = :place AND msg_id IN (
        SELECT e.msg_id FROM (SELECT {now} AS now) AS clock
        CROSS JOIN {priorities}
        CROSS JOIN {entry} AS e INDEXED BY {entry}_free
        CROSS JOIN dms_msg AS m ON m.msg_id = e.msg_id
        WHERE e.{place} = :place AND e.priority = p.value AND e.read_state = 0
            AND e.delivery_date <= :until AND (m.expiration = 0 OR m.expiration > clock.now)
        LIMIT :limit)
    RETURNING msg_id""",
    """WITH clock AS MATERIALIZED (SELECT {now} AS now),
    picked AS MATERIALIZED (
        SELECT e.msg_id FROM clock
        CROSS JOIN {priorities}
        CROSS JOIN LATERAL (
            SELECT n.msg_id FROM {entry} AS n JOIN dms_msg AS m ON m.msg_id = n.msg_id
            WHERE n.{place} = :place AND n.priority = p.value AND n.read_state = 0
                AND n.delivery_date <= CAST(:until AS BIGINT)
                AND (m.expiration = 0 OR m.expiration > clock.now)
            ORDER BY n.delivery_date, n.msg_id LIMIT :limit FOR UPDATE OF n SKIP LOCKED
        ) AS e
        LIMIT :limit
    )
    UPDATE {entry} AS e
    SET handling_client_id = :client, read_state = :lot, delivery_count = e.delivery_count + 1
    WHERE e.{place} = :place AND e.msg_id = ANY (ARRAY(SELECT msg_id FROM picked))
    RETURNING e.msg_id""",
)

#: The entries that a reader has pinned, as long as it still owns its name.
_PINNED = """FROM dms_client AS c
    JOIN {entry} AS e ON e.{place} = c.place_id AND e.handling_client_id = c.client_id
    WHERE c.client_name = :name AND c.incarnation = :incarnation
        AND e.read_state <> 0 AND e.read_state > :after AND e.read_state <= :upto"""

# The lots, and how many entries each has.
LOTS = for_each_kind(
    "SELECT e.read_state AS lot, COUNT(*) AS entries {pinned} GROUP BY e.read_state ORDER BY e.read_state",
    words={"pinned": _PINNED},
)

# The messages of lots, in the order of delivery.
NUMBERS = for_each_kind(
    "SELECT e.msg_id {pinned} ORDER BY e.read_state, e.priority DESC, e.delivery_date, e.msg_id",
    words={"pinned": _PINNED},
)

# Messages whole, as a claim returns them; reads are not counted.
MESSAGES = for_each_kind(
    """SELECT {message}, {properties}, -1 AS delivery_count FROM dms_msg AS m
    WHERE m.msg_id {among ids}"""
)


class Lot(NamedTuple):
    """Entries pinned together: the number of their lot, and how many they are."""

    number: int
    entries: int


@dataclass(frozen=True, slots=True)
class Pins:
    """A line of lots: of one reader and place, since the last takeover of the name."""

    destination: Destination
    reader: str
    incarnation: str

    @property
    def name(self) -> str:
        """The reader's name in ``dms_client``."""
        return f"{self.reader} on {self.destination.kind}://{self.destination.name}"

    @property
    def kind(self) -> DestinationKind:
        """The kind of the place."""
        return self.destination.kind


async def attach(connection: AnyConnection, pins: Pins) -> int:
    """Make the reader, the queue, or the topic and the reader's subscription; return the place's id.

    In a transaction. Raises:
        ConfigurationError: a subscription of this name exists that is not durable.
    """
    client = await _client(connection, pins.name)
    number = await find_or_make(connection, pins.destination)
    if pins.kind is DestinationKind.QUEUE:
        return number
    retains = pins.destination.retains
    return await subscribe(
        connection, number, pins.reader, client=client.client_id, durable=True, retains=retains
    )


async def take_over(connection: AnyConnection, pins: Pins) -> None:
    """Begin a line of lots; it includes what the name has pinned before; in a transaction."""
    number = await attach(connection, pins)
    client = int((await _client(connection, pins.name)).client_id)
    if pins.kind is DestinationKind.QUEUE:
        await execute(connection, client_statements.ADD_RECEIVER, client=client, queue=number)
    values = {"client": client, "incarnation": pins.incarnation, "place": number}
    await execute(connection, client_statements.LIVE, **values, lease=LIFELONG)


async def _client(connection: AnyConnection, name: str) -> AnyRow:
    for _ in range(2):
        for client in await fetch(connection, client_statements.FIND, name=name):
            return client
        number = await reserve(connection, OTHERS)
        await execute(connection, client_statements.ADD, name=name, client=number)
    (client,) = await fetch(connection, client_statements.FIND, name=name)
    return client


async def pin(
    connection: AnyConnection, pins: Pins, *, after: int, until: int, limit: int, again: bool = False
) -> Lot | None:
    """Pin a lot of entries due up to an instant, and return it; it may be empty; in a transaction.

    ``again`` returns the lot that an earlier call may have pinned before its answer was lost. None if the
    reader does not own the line any more.

    Raises:
        ConfigurationError: an ordered consumer has the place for itself.
    """
    clients = await fetch(connection, client_statements.FIND, name=pins.name)
    if not clients or clients[0].incarnation != pins.incarnation:
        return None
    client, source = int(clients[0].client_id), EntrySource(pins.kind, int(clients[0].place_id))
    opened = await fetch(connection, OPEN[source.kind], place=source.number)
    if not opened:
        return None
    if opened[0].exclusive_client_id not in (None, client):
        problem = f"an ordered consumer has {pins.destination.name} for itself"
        raise ConfigurationError("destination", problem, "stop it, or read a topic")
    if again and (there := await lots(connection, pins, after=after)):
        return there[0]
    await entries.tame(connection, source)
    values = {"place": source.number, "client": client, "lot": after + 1, "until": until, "limit": limit}
    return Lot(after + 1, len(await fetch(connection, PIN[source.kind], **values)))


async def lots(connection: AnyConnection, pins: Pins, *, after: int, upto: int = 2**62) -> Sequence[Lot]:
    """Return the lots after one, up to another; none if the reader does not own the line any more."""
    values = {"name": pins.name, "incarnation": pins.incarnation, "after": after, "upto": upto}
    return [Lot(*row) for row in await fetch(connection, LOTS[pins.kind], **values)]


async def numbers(connection: AnyConnection, pins: Pins, *, after: int, upto: int) -> Sequence[int]:
    """Return the messages of the lots after one, up to another, in the order of delivery."""
    values = {"name": pins.name, "incarnation": pins.incarnation, "after": after, "upto": upto}
    return [int(number) for (number,) in await fetch(connection, NUMBERS[pins.kind], **values)]


async def messages(
    connection: AnyConnection, destination_kind: DestinationKind, ids: Sequence[int]
) -> Sequence[EitherRow]:
    """Return the rows of messages, in the order of ``ids``; without deleted ones."""

    async def read(numbers: Sequence[int]) -> Sequence[AnyRow]:
        return await fetch(connection, MESSAGES[destination_kind], ids=listed(connection, numbers))

    by_number = {row.msg_id: row for row in await read_together(connection, ids, read)}
    return [by_number[number] for number in ids if number in by_number]


async def take_out(connection: AnyConnection, pins: Pins, lot: int) -> None:
    """Remove the entries of a lot, and messages that nobody is left to read; in a transaction."""
    clients = await fetch(connection, client_statements.FIND, name=pins.name)
    pinned = await numbers(connection, pins, after=lot - 1, upto=lot)
    if clients and pinned:
        source, client = EntrySource(pins.kind, int(clients[0].place_id)), int(clients[0].client_id)
        await entries.remove(connection, source, client=client, claims=dict.fromkeys(pinned, lot))


async def is_anything(connection: AnyConnection, pins: Pins) -> bool:
    """Whether :func:`pin` may find something to pin: for frequent calls, because it locks nothing."""
    values = {"name": pins.name, "incarnation": pins.incarnation}
    ((there,),) = await fetch(connection, LOOK[pins.kind], **values)
    return bool(there)


async def now(connection: AnyConnection) -> int:
    """Return the server's time, in milliseconds."""
    ((milliseconds,),) = await fetch(connection, NOW)
    return int(milliseconds)
