"""What a consumer does with entries: claim, take out, give back; every step fenced by client and token.

All functions work inside a transaction on SQLite; on PostgreSQL each is as good outside of one.
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
class Source:
    """A queue, or a topic's subscription, by its id."""

    kind: DestinationKind
    number: int


def listed(connection: AnyConnection, numbers: Sequence[int]) -> Any:
    """Return numbers as the statements take them."""
    return json.dumps(list(numbers)) if connection.dialect.name == Dialect.SQLITE else list(numbers)


async def is_anything(connection: AnyConnection, source: Source, client: int) -> bool:
    """Whether a claim may find something; on PostgreSQL the claim itself is as cheap."""
    return bool(await fetch(connection, sql.LOOK[source.kind], place=source.number, client=client))


async def claim(
    connection: AnyConnection, source: Source, *, client: int, incarnation: str, token: int, limit: int
) -> Sequence[EitherRow]:
    """Hand out up to ``limit`` entries that are due, counted as delivered once more; return their rows.

    None to a client of whom another life, or none, is known: it may have been in another database, of which
    this is an older copy, and the source have been another one there.
    """
    values = {"place": source.number, "client": client, "token": token}
    if connection.dialect.name == Dialect.POSTGRESQL:
        known = {**values, "incarnation": incarnation}
        return await fetch(connection, sql.CLAIM[source.kind], **known, limit=limit)
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


async def tame(connection: AnyConnection, source: Source) -> None:
    """Give entries of a priority that JMS has not the nearest one; before that they are never delivered."""
    if await fetch(connection, sql.ODD[source.kind], place=source.number):
        await execute(connection, sql.TAME[source.kind], place=source.number)


async def next_due(connection: AnyConnection, source: Source) -> int | None:
    """Return in how many milliseconds the next entry will be due; None where there is none."""
    ((pause,),) = await fetch(connection, sql.NEXT_DUE[source.kind], place=source.number)
    return None if pause is None else int(pause)


async def remove(
    connection: AnyConnection, source: Source, *, client: int, claims: Mapping[int, int]
) -> Sequence[int]:
    """Take out what is held, by message and token, and what nobody is left to read.

    Returns the messages of those whose claim still stood: the rest was taken away.
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
    transaction: AnyConnection, source: Source, *, client: int, claims: Mapping[int, int]
) -> bool:
    """Have what is held taken out with the COMMIT, or nothing be committed; False where that cannot be."""
    return ride(transaction, sql.REMOVE_ALL[source.kind], _claims(transaction, source, client, claims))


async def count_down(connection: AnyConnection, messages: Sequence[int]) -> None:
    """Note that messages have one reader less; delete those that have none; in a transaction."""
    ids = listed(connection, messages)
    if connection.dialect.name == Dialect.POSTGRESQL:
        await execute(connection, sql.READ_NO_MORE, ids=ids)
        return
    for step in (sql.COUNT_DOWN, sql.DELETE_PROPERTIES, sql.DELETE_MESSAGES):
        await execute(connection, step, ids=ids)


async def release(
    connection: AnyConnection, source: Source, *, client: int, claims: Mapping[int, int], delay: int
) -> Sequence[int]:
    """Give back what is held, by message and token, for ``delay`` milliseconds later; return what was."""
    values = _claims(connection, source, client, claims)
    rows = await fetch(connection, sql.RELEASE[source.kind], **values, delay=delay)
    return await _marked(connection, rows)


async def release_all(
    connection: AnyConnection, source: Source, clients: Sequence[int], known: Sequence[int] = ()
) -> Sequence[int]:
    """Give back what clients hold, but for the messages that are known; return what was."""
    ids = {"clients": listed(connection, clients), "known": listed(connection, known)}
    rows = await fetch(connection, sql.RELEASE_ALL[source.kind], place=source.number, **ids)
    return await _marked(connection, rows)


async def orphaned(connection: AnyConnection, source: Source) -> Sequence[int]:
    """Return the clients that hold something and do not live."""
    rows = await fetch(connection, sql.ORPHANED[source.kind], place=source.number)
    return [int(client) for (client,) in rows]


async def take_over(connection: AnyConnection, source: Source, client: int) -> None:
    """Take all that others hold away, in its first order, and let nobody else claim; in a transaction."""
    values = {"place": source.number, "client": client}
    await execute(connection, sql.SEIZE[source.kind], **values)
    await _marked(connection, await fetch(connection, sql.ROB[source.kind], **values))
    await execute(connection, sql.RECALL[source.kind], place=source.number)


async def let_others(connection: AnyConnection, source: Source, clients: Sequence[int]) -> None:
    """Let others claim again, if it was one of these clients that let nobody."""
    ids = listed(connection, clients)
    await execute(connection, sql.UNSEIZE[source.kind], place=source.number, clients=ids)


async def _marked(connection: AnyConnection, rows: Sequence[AnyRow]) -> Sequence[int]:
    numbers = [int(number) for (number,) in rows]
    if numbers:
        await execute(connection, sql.MARK, ids=listed(connection, numbers))
    return numbers


def _claims(
    connection: AnyConnection, source: Source, client: int, claims: Mapping[int, int]
) -> dict[str, Any]:
    # Tokens are unique to one claim, so two lists are as good as pairs.
    tokens = sorted(set(claims.values()))
    return {
        "place": source.number,
        "client": client,
        "ids": listed(connection, list(claims)),
        "tokens": listed(connection, tokens),
    }
