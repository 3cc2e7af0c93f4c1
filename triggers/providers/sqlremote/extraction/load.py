"""Load an extract of the peer into this end of a link, and begin again with it, in one transaction.

All rows of its tables are replaced. The log here continues behind an offset that the extract has set, under
an epoch that it has named. So the end that was extracted already knows where this one begins. A process that
dies leaves everything as it was, or everything loaded.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from sqlalchemy import Connection

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.links.watermark import LinkRow, reset_on
from history.sql.statements.dialects import statement
from history.sql.statements.watermark import MARK, NOT_CAPTURED
from history.store.watermark import Offset
from triggers.providers.sqlremote.capture.declared import Declared
from triggers.providers.sqlremote.extraction import document
from triggers.providers.sqlremote.extraction.document import Begin, Extract
from triggers.providers.sqlremote.extraction.extract import locked
from triggers.providers.sqlremote.extraction.tables import replace, take_time
from triggers.providers.sqlremote.links import Links
from triggers.providers.sqlremote.publication.log import COUNT_UNCONFIRMED

# The log continues behind this offset.
JUMP_TO: Final = statement("UPDATE doubtless_link_end SET last_offset = :offset, operations = 0 WHERE id = 1")


async def load(links: Links, link: str, file: Path, *, discard: bool = False) -> Extract:
    """Replace the rows of an extract's tables, and begin again with it, in both directions.

    ``discard`` gives up what was published here and not confirmed by the peer: the extract overwrites it.

    Raises:
        ConfigurationError: the file is not an extract, is an older one, or was loaded already; a table is
            missing; something here is not confirmed; or the log here is ahead of what the extract allows for.
        HistoryUnavailableError: the database did not answer, or refused a row.
    """
    settings = links.link(link)
    extract = document.opened(file)
    step = partial(
        _load,
        link=link,
        extract=extract,
        checks=settings.direction != "receive" and not discard,
        publication=settings.publication,
        tables=settings.declared(),
    )
    await links.history.watermarks.run("loading an extract", step, atomic=True)
    return extract


async def _load(
    connection: AnyConnection,
    *,
    link: str,
    extract: Extract,
    checks: bool,
    publication: str,
    tables: Sequence[Declared],
) -> None:
    begin, blocking = extract.begin, cast("Connection", connection)  # links have blocking engines
    take_time(blocking)
    row, last = await locked(connection, link)
    _refuse_old(row, begin)
    _refuse_behind(row, last, begin)
    if checks:
        confirmed = row.watermark.outgoing.confirm_sent
        values = {"publication": publication, "confirmed": confirmed, "link": link}
        ((count,),) = await fetch(connection, COUNT_UNCONFIRMED, **values)
        if count:
            raise ConfigurationError(
                "extract",
                f"{count} transactions were published here after offset {confirmed}, and the peer has not "
                "confirmed them: the extract would overwrite them",
                "save what they did, and load with --discard",
            )
    await execute(connection, MARK, origin=NOT_CAPTURED)
    replace(blocking, extract, tables)
    await execute(connection, MARK, origin=None)
    await execute(connection, JUMP_TO, offset=begin.peer_offset)
    await reset_on(connection, link=link, epoch=begin.peer_epoch, peer=(begin.epoch, begin.offset))


def _refuse_old(row: LinkRow, begin: Begin) -> None:
    """Refuse an extract that would undo what was applied since it, or since a later one."""
    known_epoch = row.watermark.incoming.epoch
    if begin.epoch <= known_epoch:
        loaded = begin.epoch == known_epoch
        raise ConfigurationError(
            "extract",
            "was loaded already"
            if loaded
            else f"is of the log {begin.epoch}, and {known_epoch} is known here",
            "go on: doubtless sqlremote run" if loaded else "extract the peer anew",
        )


def _refuse_behind(row: LinkRow, last: Offset, begin: Begin) -> None:
    """Refuse an extract that would let the log here repeat offsets."""
    epoch = row.watermark.outgoing.epoch
    if begin.peer_epoch <= epoch or begin.peer_offset < last:
        raise ConfigurationError(
            "extract",
            f"allows for a log here up to {begin.peer_epoch}:{begin.peer_offset}; it is at {epoch}:{last}",
            f"extract the peer anew with --beyond {epoch}:{last}",
        )
