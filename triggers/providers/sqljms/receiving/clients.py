"""Consumers as the database knows them: a name, an id, a lease, and what happens to silent ones.

The id stays with the name for a day after the last renewal, so that a consumer that comes back under it finds
what it held. An incarnation is one life of a client: two at a time are refused.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, AnyRow, execute, fetch
from triggers.providers.sqljms.destinations import Destination, DestinationKind
from triggers.providers.sqljms.link import OTHERS, reserve
from triggers.providers.sqljms.receiving import client_statements as sql
from triggers.providers.sqljms.receiving.entries import (
    EntrySource,
    count_down,
    let_others,
    listed,
    release_all,
)

#: How long a client is remembered after its last renewal, in milliseconds: one day.
AFTERLIFE = 86_400_000


@dataclass(frozen=True, slots=True)
class ReceivingClient:
    """One life of a consumer."""

    number: int
    incarnation: str


async def take_name(connection: AnyConnection, name: str, incarnation: str) -> AnyRow:
    """Return the row of a client's name, which is made if need be; in a transaction.

    Raises:
        ConfigurationError: a running client has this name.
    """
    rows = await fetch(connection, sql.FIND, name=name)
    if not rows:
        number = await reserve(connection, OTHERS)
        await execute(connection, sql.ADD, name=name, client=number)
        rows = await fetch(connection, sql.FIND, name=name)
    row = rows[0]
    if row.alive and row.incarnation not in (None, incarnation):
        raise ConfigurationError(
            "name",
            f"{name!r} is the name of another consumer that is alive",
            "give each consumer its own name, or wait for the end of its lease",
        )
    return row


async def renew(connection: AnyConnection, client: ReceivingClient, lease: int) -> bool:
    """Renew a life for so many milliseconds; False if the reaper came, or another client has the name."""
    values = {"client": client.number, "incarnation": client.incarnation, "lease": lease}
    return bool(await fetch(connection, sql.RENEW, **values))


async def remove_dead(connection: AnyConnection, clients: Sequence[tuple[int, int | None]]) -> Sequence[int]:
    """Give back all that dead clients (given with sources) hold; end what ends with them; in a transaction.

    Returns the sources where something may be received now.
    """
    numbers = [number for number, _ in clients]
    ids = listed(connection, numbers)
    await execute(connection, sql.REMOVE_RECEIVERS, clients=ids)
    sources = {source for _, source in clients if source is not None}
    for number in sorted(sources):
        for destination_kind in DestinationKind:
            source = EntrySource(destination_kind, number)
            await release_all(connection, source, numbers)
            await let_others(connection, source, numbers)
        await _detach(connection, number)
    for (queue,) in await fetch(connection, sql.TEMPORARY_QUEUES, clients=ids):
        await drop_queue(connection, int(queue))
    return sorted(sources)


async def _detach(connection: AnyConnection, source: int) -> None:
    """If nobody is left, mark a subscription as inactive, or end it if it is not durable."""
    subscriptions = await fetch(connection, sql.SUBSCRIPTION, place=source)
    if not subscriptions or await fetch(connection, sql.SHARED, place=source):
        return
    if subscriptions[0].durable:
        await execute(connection, sql.DETACH, place=source)
    else:
        await unsubscribe(connection, source)


async def unsubscribe(connection: AnyConnection, subscriber: int) -> None:
    """End a subscription, with all its unread messages; in a transaction."""
    await empty(connection, EntrySource(DestinationKind.TOPIC, subscriber))
    await execute(connection, sql.UNSUBSCRIBE, place=subscriber)


async def end_subscription(connection: AnyConnection, destination: Destination, name: str) -> bool:
    """End a subscription that nobody is attached to; False if it does not exist; in a transaction.

    Raises:
        ConfigurationError: a consumer is attached, or the destination is a queue.
    """
    topic = destination.name
    if destination.kind is DestinationKind.QUEUE:
        raise ConfigurationError(
            "destination", f"{topic!r} is a queue, without subscriptions", "name a topic"
        )
    # Perhaps no consumer runs that would remove the dead ones.
    await remove_expired(connection)
    subscribers = await fetch(connection, sql.NAMED, topic=topic, name=name)
    for (subscriber,) in subscribers:
        await fetch(connection, sql.SUBSCRIPTION, place=subscriber)
        if await fetch(connection, sql.SHARED, place=subscriber):
            raise ConfigurationError(
                "subscription", f"{name!r} of {topic!r} has a living consumer", "stop its consumers first"
            )
        await unsubscribe(connection, int(subscriber))
    return bool(subscribers)


async def drop_queue(connection: AnyConnection, queue: int) -> None:
    """Delete a queue with all its messages; in a transaction."""
    await empty(connection, EntrySource(DestinationKind.QUEUE, queue))
    await execute(connection, sql.DROP_RECEIVERS, place=queue)
    await execute(connection, sql.DROP_QUEUE, place=queue)


async def empty(connection: AnyConnection, source: EntrySource) -> None:
    """Delete all entries of a source, and the messages without another reader; in a transaction."""
    rows = await fetch(connection, sql.EMPTY[source.kind], place=source.number)
    unread = [int(number) for (number,) in rows]
    if unread:
        await count_down(connection, unread)


async def sweep(connection: AnyConnection) -> int:
    """Delete expired messages that nobody holds, at most a thousand; return how many; in a transaction."""
    expired = [int(number) for (number,) in await fetch(connection, sql.EXPIRED)]
    if not expired:
        return 0
    gone: Counter[int] = Counter()
    for step in sql.DELETE_EXPIRED.values():
        gone.update(
            int(message_id)
            for (message_id,) in await fetch(connection, step, ids=listed(connection, expired))
        )
    swept = len(gone)
    while gone:
        await count_down(connection, sorted(gone))
        gone = gone - Counter(gone.keys())
    return swept


async def remove_expired(connection: AnyConnection) -> Sequence[int]:
    """Remove the clients with an ended lease; return the sources where something may be received now."""
    dead = [(int(row.client_id), row.place_id) for row in await fetch(connection, sql.REAP)]
    await execute(connection, sql.FORGET, afterlife=AFTERLIFE)
    return await remove_dead(connection, dead) if dead else ()
