"""Administer the limbo: what waits there, for what and until when; release it now, or drop it."""

from collections.abc import Sequence
from functools import partial

from history.sql.database.engine import AnyConnection, fetch
from triggers.providers.sqljms.admin.steps import HeldError, NotFoundError
from triggers.providers.sqljms.limbo import statements as sql
from triggers.providers.sqljms.limbo.limbo import InLimbo, Limbo, clear_inside, read_inside
from triggers.providers.sqljms.receiving.entries import listed


async def list_limbo(
    limbo: Limbo, *, input_name: str | None = None, limit: int = 50
) -> tuple[Sequence[InLimbo], int]:
    """Return the waiting messages, the next to be due first, and their number; of one input, or of all."""

    async def read(connection: AnyConnection) -> tuple[Sequence[InLimbo], int]:
        rows = await fetch(connection, sql.WAITING, input=input_name, limit=limit)
        ((total,),) = await fetch(connection, sql.HOW_MANY, input=input_name)
        return await read_inside(connection, [row.msg_id for row in rows]), int(total)

    return await limbo.run("listing limbo", read)


async def get_from_limbo(limbo: Limbo, number: int) -> InLimbo:
    """Return one message that waits.

    Raises:
        NotFoundError: no message has this number, or it cannot be read.
    """
    messages = await limbo.run("reading limbo", partial(read_inside, ids=[number]), atomic=False)
    if not messages:
        raise NotFoundError("message in limbo", str(number))
    return messages[0]


async def release_from_limbo(limbo: Limbo, numbers: Sequence[int], *, force: bool = False) -> Sequence[int]:
    """Make messages due now; return the ones that were not due yet.

    Raises:
        NotFoundError: one of them does not exist there.
        HeldError: a process is busy with one of them.
    """

    async def work(connection: AnyConnection) -> Sequence[int]:
        await _check(connection, limbo, numbers, force=force)
        values = {"at": limbo.clock(), "force": int(force), "ids": listed(connection, numbers)}
        return [row.msg_id for row in await fetch(connection, sql.RELEASE_NOW, **values)]

    return await limbo.run("releasing from limbo", work)


async def drop_from_limbo(limbo: Limbo, numbers: Sequence[int], *, force: bool = False) -> Sequence[int]:
    """Remove messages for good; raises as :func:`release_from_limbo`."""

    async def work(connection: AnyConnection) -> Sequence[int]:
        await _check(connection, limbo, numbers, force=force)
        values = {"at": limbo.clock(), "force": int(force), "ids": listed(connection, numbers)}
        gone = [row.msg_id for row in await fetch(connection, sql.DROP, **values)]
        await clear_inside(connection, gone)
        return gone

    return await limbo.run("dropping from limbo", work)


async def _check(connection: AnyConnection, limbo: Limbo, numbers: Sequence[int], *, force: bool) -> None:
    ids = listed(connection, numbers)
    rows = await fetch(connection, sql.BUSY, at=limbo.clock(), ids=ids)
    missing = set(numbers) - {row.msg_id for row in rows}
    if missing:
        raise NotFoundError("message in limbo", ", ".join(map(str, sorted(missing))))
    busy = [row for row in rows if row.busy]
    if busy and not force:
        raise HeldError(f"{len(busy)} messages are being handled by a release loop, or by their input")
