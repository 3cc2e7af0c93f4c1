"""A peer that needs an extract: its subscription changed, or its link is new and the log is not whole.

After a change of the subscription, the link only receives. So what the peer has sent before still arrives,
and nothing is sent to the peer. A new link stands still until the extract.
"""

from collections.abc import Collection, Sequence

from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.links.watermark import UNKNOWN_EPOCH, LinkRow, row_of
from history.sql.statements.watermark import READ_ALL, STOP
from history.store.watermark import ORIGIN
from triggers.providers.sqlremote.protocol.alarms import (
    EXTRACT,
    AlarmKind,
    awaits_extract,
    column_changed,
    log_cut,
    revoked_before,
    subscription_changed,
)


def stopped_after(
    before: LinkRow | None, after: LinkRow, past: Collection[str], *, sends: bool
) -> str | None:
    """Return why a link is stopped after its settings were stored; None if it may run.

    If the old subscription comes back before an extract, nothing has to be done.
    """
    stopped = after.stopped
    if before is None:
        return _stopped_as_new(after, past, sends=sends)
    if not sends:
        return stopped
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
    found = [place for kind in EXTRACT if (place := (stopped or "").find(kind)) >= 0]
    return (stopped or "")[min(found) :] if found else None


def _stopped_as_new(row: LinkRow, past: Collection[str], *, sends: bool) -> str | None:
    """Return why a new link may not begin at the beginning."""
    if "link" in past or "address" in past:
        return str(revoked_before(row.link))
    return str(log_cut(row.link, row.publication)) if sends and "publication" in past else row.stopped


def _with(stopped: str | None, alarm: str) -> str:
    # A link that is stopped for another reason must not receive either.
    return alarm if stopped is None else f"{stopped}; {alarm}"


def _is_new(row: LinkRow) -> bool:
    """Whether nothing was sent to the peer or extracted for it, so that it cannot have wrong rows."""
    return row.watermark.outgoing.log_sent == ORIGIN and row.watermark.incoming.epoch == UNKNOWN_EPOCH
