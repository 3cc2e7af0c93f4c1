"""A peer whose subscription changed: it still has the rows of the old one, until it gets an extract.

The link then only receives. So what the peer has sent before still arrives, and nothing is sent to the peer.
"""

from collections.abc import Sequence

from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.links.watermark import UNKNOWN_EPOCH, LinkRow, row_of
from history.sql.statements.watermark import READ_ALL, STOP
from history.store.watermark import ORIGIN
from triggers.providers.sqlremote.protocol.alarms import (
    AlarmKind,
    awaits_extract,
    column_changed,
    subscription_changed,
)


def stopped_after(before: LinkRow, after: LinkRow) -> str | None:
    """Return why a link is stopped after its settings were stored; None if it may run.

    If the old subscription comes back before an extract, nothing has to be done.
    """
    stopped = after.stopped
    if before.subscription == after.subscription or _is_new(before):
        return stopped
    undone = str(subscription_changed(after.link, after.subscription))
    if stopped is not None and stopped.endswith(undone):
        return stopped.removesuffix(undone).removesuffix("; ") or None
    if stopped is not None and awaits_extract(stopped):
        return stopped
    return _with(stopped, str(subscription_changed(before.link, before.subscription)))


async def stop_subscribers(connection: AnyConnection, *, publication: str, tables: Sequence[str]) -> None:
    """Stop the links that subscribe to a publication, because other columns of these tables select rows."""
    for row in map(row_of, await fetch(connection, READ_ALL)):
        waits = row.stopped is not None and awaits_extract(row.stopped)
        if row.publication == publication and row.subscription is not None and not (_is_new(row) or waits):
            reason = _with(row.stopped, str(column_changed(row.link, tables)))
            await execute(connection, STOP, link=row.link, reason=reason)


def only_receives(stopped: str | None) -> bool:
    """Whether a link that is stopped for this reason still receives."""
    return stopped is not None and stopped.startswith(AlarmKind.SUBSCRIPTION_CHANGED)


def extract_awaited(stopped: str | None) -> str | None:
    """Return the reason without other reasons if the link needs an extract for its peer; else None."""
    _, kind, rest = (stopped or "").partition(AlarmKind.SUBSCRIPTION_CHANGED)
    return f"{kind}{rest}" or None


def _with(stopped: str | None, alarm: str) -> str:
    # A link that is stopped for another reason must not receive either.
    return alarm if stopped is None else f"{stopped}; {alarm}"


def _is_new(row: LinkRow) -> bool:
    """Whether nothing was sent to the peer or extracted for it, so that it cannot have wrong rows."""
    return row.watermark.outgoing.log_sent == ORIGIN and row.watermark.incoming.epoch == UNKNOWN_EPOCH
