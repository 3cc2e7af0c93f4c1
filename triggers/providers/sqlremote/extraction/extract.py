"""Extract one end of a link: its tables into a file, and this end reset to it, in one transaction.

The link's row and the counter of the log are locked first, in the order that everybody uses. So between the
first table and the last no work of the peer is applied, and nothing that is published is committed. A later
commit has a later offset, and is sent to the end that loads the file.

A process that dies before the commit leaves only a hidden file. If it dies after the commit, and before the
file has its name, the link's peer stops with EPOCH_MISMATCH until another extract is loaded.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import Connection, Table

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.links.watermark import LinkRow, reset_on, row_of
from history.sql.statements.watermark import LOCK, SUBSCRIBE
from history.store.watermark import MAX_OFFSET, Epoch, Offset, began, new_epoch
from triggers.providers.sqlremote.capture.declared import Declared
from triggers.providers.sqlremote.extraction.document import Begin, hidden_beside, writing
from triggers.providers.sqlremote.extraction.tables import rows_of, shape_of, tables_of, take_time
from triggers.providers.sqlremote.links import Links, fresh_epoch
from triggers.providers.sqlremote.publication.collecting import collect

#: The jump of the peer's log when it loads an extract: further than anybody commits unnoticed.
JUMP: Final = 2**32


async def extract(
    links: Links,
    link: str,
    file: Path,
    *,
    tables: Sequence[str] = (),
    beyond: tuple[Epoch, Offset] | None = None,
) -> Begin:
    """Write the tables of a link into a new file, and begin again behind it, in both directions.

    ``tables`` are by default those of the link's settings; parents before children. ``beyond`` is the
    position of the other end's log, which :func:`~.load.load` has requested.

    Raises:
        ConfigurationError: the link or a table does not exist, no table is named, or the file exists already.
        HistoryUnavailableError: the database did not answer.
    """
    settings = links.link(link)
    names = settings.declared(tables)
    if not names:
        raise ConfigurationError(
            "tables", f"no table of link {link} is named", "set tables = [...] of the link, or give --table"
        )
    hidden = hidden_beside(file)
    rows: dict[str, Any] = {"names": names, "subscription": settings.subscription}
    step = partial(_extract, link=link, hidden=hidden, beyond=beyond, **rows)
    begin = await links.history.watermarks.run("extracting a link", step, atomic=True)
    hidden.rename(file)
    return begin


async def _extract(
    connection: AnyConnection,
    *,
    link: str,
    hidden: Path,
    names: Sequence[Declared],
    subscription: str | None,
    beyond: tuple[Epoch, Offset] | None,
) -> Begin:
    blocking = cast("Connection", connection)  # links have blocking engines
    take_time(blocking)
    row, last = await locked(connection, link)
    outgoing, incoming = row.watermark.outgoing, row.watermark.incoming
    peer_epoch, peer_offset = max((incoming.epoch, incoming.log_received), beyond or ("", 0))
    extracted = tables_of(blocking, names)
    begin = Begin(
        link=link,
        dialect=connection.dialect.name,
        epoch=later_than(outgoing.epoch),
        offset=last,
        peer_epoch=later_than(Epoch(peer_epoch)),
        peer_offset=Offset(min(peer_offset + JUMP, MAX_OFFSET)),
        tables=tuple(map(shape_of, extracted)),
    )
    _write(blocking, hidden, begin, list(zip(names, extracted, strict=True)))
    await reset_on(connection, link=link, epoch=begin.epoch, peer=(begin.peer_epoch, begin.peer_offset))
    await execute(connection, SUBSCRIBE, link=link, subscription=subscription)
    return begin


def _write(
    connection: Connection, hidden: Path, begin: Begin, tables: Sequence[tuple[Declared, Table]]
) -> None:
    with writing(hidden) as writer:
        writer.begin(begin)
        for number, (declared, table) in enumerate(tables):
            for values in rows_of(connection, declared, table):
                writer.row(number, values)


async def locked(connection: AnyConnection, link: str) -> tuple[LinkRow, Offset]:
    """Lock a link's row and the end of the log until the transaction ends, and return both.

    The log then has all changes that triggers have captured; nobody changes a captured table until the end.

    Raises:
        ConfigurationError: the link is not set up.
    """
    rows = await fetch(connection, LOCK, link=link)
    if not rows:
        raise ConfigurationError(
            "link", f"link {link} does not exist", "create it with: doubtless sqlremote setup"
        )
    row = row_of(rows[0])
    return row, Offset(await collect(connection, row.publication, alone=True))


def later_than(previous: Epoch) -> Epoch:
    """Return a new epoch that sorts after a previous one, even if the previous one's clock is ahead of ours.

    Raises:
        ConfigurationError: the previous one does not have our form, and nothing of our form sorts after it.
    """
    fresh = fresh_epoch()
    if fresh > previous:
        return fresh
    instant, _, token = fresh.partition("-")
    moment = began(previous)
    if moment is None:
        raise ConfigurationError(
            "epoch", f"{previous} is none of ours, and sorts after {instant}", "set up a link of another name"
        )
    return new_epoch(moment + timedelta(microseconds=1), token)
