"""The steps of a consumer on entries: claim, remove, give back; every step is fenced by client and token.

All functions work inside a transaction on SQLite; on PostgreSQL each also works outside of one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError

from history.sql.database.engine import AnyConnection, AnyRow, execute, fetch
from history.sql.database.riders import ride
from history.sql.statements.dialects import Dialect
from triggers.providers.sqljms import statements as sql
from triggers.providers.sqljms.destinations import DestinationKind
from triggers.providers.sqljms.receiving.odd_rows import EitherRow, is_of_a_row, read_each


@dataclass(frozen=True, slots=True)
class EntrySource:
    """A queue, or a topic's subscription, by its id."""

    kind: DestinationKind
    number: int


def listed(connection: AnyConnection, numbers: Sequence[int]) -> Any:
    """Return numbers in the form that the statements take."""
    return json.dumps(list(numbers)) if connection.dialect.name == Dialect.SQLITE else list(numbers)


async def is_anything(connection: AnyConnection, source: EntrySource, client: int) -> bool:
    """Whether a claim may find something; on PostgreSQL the claim itself is as cheap."""
    return bool(await fetch(connection, sql.LOOK[source.kind], place=source.number, client=client))


async def claim(
    connection: AnyConnection, source: EntrySource, *, client: int, incarnation: str, token: int, limit: int
) -> Sequence[EitherRow]:
    """Hand out up to ``limit`` due entries, counted as delivered once more; return their rows.

    A client with another known life, or none, gets nothing: it may come from a newer state of a database that
    was restored, where its source was another one.
    """
    values = {"place": source.number, "client": client, "token": token}
    if connection.dialect.name == Dialect.POSTGRESQL:
        claimant = {**values, "incarnation": incarnation}
        return await fetch(connection, sql.CLAIM[source.kind], **claimant, limit=limit)
    await execute(connection, sql.CLAIM[source.kind], **values, limit=limit)
    try:
        return await fetch(connection, sql.READ[source.kind], **values)
    except DBAPIError as error:
        if not is_of_a_row(error):
            raise

    async def some(numbers: Sequence[int]) -> Sequence[AnyRow]:
        ids = listed(connection, numbers)
        return await fetch(connection, sql.READ_SOME[source.kind], **values, ids=ids)

    claimed = await fetch(connection, sql.CLAIMED[source.kind], **values)
    return await read_each(connection, [number for (number,) in claimed], some)


async def tame(connection: AnyConnection, source: EntrySource) -> None:
    """Set priorities that JMS does not have to the nearest one; before, these entries are never delivered."""
    if await fetch(connection, sql.ODD[source.kind], place=source.number):
        await execute(connection, sql.TAME[source.kind], place=source.number)


async def next_due(connection: AnyConnection, source: EntrySource) -> int | None:
    """Return in how many milliseconds the next entry will be due; None without entries."""
    ((pause,),) = await fetch(connection, sql.NEXT_DUE[source.kind], place=source.number)
    return None if pause is None else int(pause)


async def remove(
    connection: AnyConnection, source: EntrySource, *, client: int, claims: Mapping[int, int]
) -> Sequence[int]:
    """Remove what is held, by message and token, and messages that nobody is left to read.

    Returns the messages with a claim that was still valid: the others were taken away.
    """
    gone = [
        number
        for (number,) in await fetch(
            connection, sql.REMOVE[source.kind], **_claims(connection, source, client, claims)
        )
    ]
    if gone and connection.dialect.name == Dialect.SQLITE:
        await count_down(connection, gone)
    return gone


def remove_at_end(
    transaction: AnyConnection, source: EntrySource, *, client: int, claims: Mapping[int, int]
) -> bool:
    """Remove what is held with the COMMIT, or let the COMMIT fail; False if that is not possible."""
    return ride(transaction, sql.REMOVE_ALL[source.kind], _claims(transaction, source, client, claims))


async def count_down(connection: AnyConnection, messages: Sequence[int]) -> None:
    """Note that messages have one reader less; delete messages without readers; in a transaction."""
    ids = listed(connection, messages)
    if connection.dialect.name == Dialect.POSTGRESQL:
        await execute(connection, sql.READ_NO_MORE, ids=ids)
        return
    for step in (sql.COUNT_DOWN, sql.DELETE_PROPERTIES, sql.DELETE_MESSAGES):
        await execute(connection, step, ids=ids)


async def release(
    connection: AnyConnection, source: EntrySource, *, client: int, claims: Mapping[int, int], delay: int
) -> Sequence[int]:
    """Give back what is held, by message and token, for ``delay`` milliseconds later; return the messages."""
    values = _claims(connection, source, client, claims)
    rows = await fetch(connection, sql.RELEASE[source.kind], **values, delay=delay)
    return await _marked(connection, rows)


async def release_all(
    connection: AnyConnection, source: EntrySource, clients: Sequence[int], message_ids: Sequence[int] = ()
) -> Sequence[int]:
    """Give back what clients hold, except the known messages; return the messages."""
    ids = {"clients": listed(connection, clients), "known": listed(connection, message_ids)}
    rows = await fetch(connection, sql.RELEASE_ALL[source.kind], place=source.number, **ids)
    return await _marked(connection, rows)


async def orphaned(connection: AnyConnection, source: EntrySource) -> Sequence[int]:
    """Return the clients that hold something and are not alive."""
    rows = await fetch(connection, sql.ORPHANED[source.kind], place=source.number)
    return [int(client) for (client,) in rows]


async def take_over(connection: AnyConnection, source: EntrySource, client: int) -> None:
    """Take away all that others hold, in its first order, and let nobody else claim; in a transaction."""
    values = {"place": source.number, "client": client}
    await execute(connection, sql.SEIZE[source.kind], **values)
    await _marked(connection, await fetch(connection, sql.ROB[source.kind], **values))
    await execute(connection, sql.RECALL[source.kind], place=source.number)


async def let_others(connection: AnyConnection, source: EntrySource, clients: Sequence[int]) -> None:
    """Let others claim again, if one of these clients had stopped them."""
    ids = listed(connection, clients)
    await execute(connection, sql.UNSEIZE[source.kind], place=source.number, clients=ids)


async def _marked(connection: AnyConnection, rows: Sequence[AnyRow]) -> Sequence[int]:
    numbers = [int(number) for (number,) in rows]
    if numbers:
        await execute(connection, sql.MARK, ids=listed(connection, numbers))
    return numbers


def _claims(
    connection: AnyConnection, source: EntrySource, client: int, claims: Mapping[int, int]
) -> dict[str, Any]:
    # Tokens are unique to one claim, so two lists work as well as pairs.
    tokens = sorted(set(claims.values()))
    return {
        "place": source.number,
        "client": client,
        "ids": listed(connection, list(claims)),
        "tokens": listed(connection, tokens),
    }
