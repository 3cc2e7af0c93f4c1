"""The state of a link as seen from its row, its log and its inbox, without running it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from history.bridge import settled
from history.sql.links.watermark import LinkRow
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqlremote.carriers.carrier import Carrier, UnreadableMessageError
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier
from triggers.providers.sqlremote.links import Links
from triggers.providers.sqlremote.protocol.header import Header
from triggers.providers.sqlremote.protocol.packet import decode
from triggers.providers.sqlremote.protocol.parts import MangledError
from triggers.providers.sqlremote.protocol.verdicts import has_hole, is_used_up
from triggers.providers.sqlremote.publication.log import LinkLog
from triggers.providers.sqlremote.settings import LinkSettings

#: How many messages of an inbox are checked to find a gap.
LOOKED_AT: Final = 200


@dataclass(frozen=True, slots=True)
class InboxState:
    """How many messages wait there, and whether something is missing before one of them; None: unknown."""

    messages: int | None
    gap: bool | None


async def status(links: Links) -> Sequence[dict[str, Any]]:
    """Return one row per link, with all columns of ``sysremoteuser`` and values derived from them."""
    history = links.history
    rows: list[dict[str, Any]] = []
    end = await history.watermarks.end()
    for row in await history.watermarks.read_all():
        log = LinkLog(history.watermarks, row.publication, row.link)
        inbox = await _inbox(links, row)
        shown = _row_of(row)
        shown |= {
            "log_end": end.last,
            "log_deleted_to": end.deleted_to,
            "log_operations": await log.count(),
            "captured": await log.waiting(),
            "unconfirmed": await log.unconfirmed(row.watermark.outgoing.confirm_sent),
            "inbox": inbox.messages,
            "gap": inbox.gap,
        }
        rows.append(shown)
    return rows


def _row_of(row: LinkRow) -> dict[str, Any]:
    outgoing, incoming = row.watermark.outgoing, row.watermark.incoming
    lives = row.agent is not None and row.agent_until is not None and row.agent_until > datetime.now(UTC)
    return {
        "link": row.link,
        "state": "stopped" if row.stopped is not None else "running" if lives else "idle",
        "stopped": row.stopped,
        "publication": row.publication,
        "address": row.address,
        "consolidate": row.consolidate,
        "frequency": row.frequency,
        "send_time": row.send_time,
        "log_send": outgoing.log_send,
        "time_sent": outgoing.time_sent,
        "log_sent": outgoing.log_sent,
        "confirm_sent": outgoing.confirm_sent,
        "send_count": outgoing.send_count,
        "resend_count": outgoing.resend_count,
        "time_received": incoming.time_received,
        "log_received": incoming.log_received,
        "confirm_received": incoming.confirm_received,
        "receive_count": incoming.receive_count,
        "rereceive_count": incoming.rereceive_count,
        "epoch": outgoing.epoch,
        "peer_epoch": incoming.epoch,
        "agent": row.agent,
        "failed": row.failed,
        "skipped": row.skipped,
    }


async def _inbox(links: Links, row: LinkRow) -> InboxState:
    settings = links.settings.links.get(row.link)
    if settings is None or not settings.carrier.startswith(("file:", "sqlite:", "postgres")):
        return InboxState(None, None)  # looking into a provider's inbox would take the messages
    try:
        return await _read(links.carrier(row.link), settings, row)
    except (OSError, ProviderUnavailableError):
        return InboxState(None, None)


async def _read(carrier: Carrier, settings: LinkSettings, row: LinkRow) -> InboxState:
    if isinstance(carrier, DirectoryCarrier) and not carrier.has(settings.inbox):
        return InboxState(0, gap=False)
    seal = settings.seal()
    names = await settled(carrier.list(settings.inbox))
    incoming = row.watermark.incoming
    waiting: set[Header] = set()
    for name in names[:LOOKED_AT]:
        try:
            data = await settled(carrier.get(settings.inbox, name))
            packet = decode(
                seal.open(data, sender=settings.outbox, receiver=settings.inbox), seal.message_size
            )
        except (KeyError, MangledError, UnreadableMessageError):
            continue
        stale = packet.header.resend_count < incoming.rereceive_count or packet.epoch != incoming.epoch
        if not (stale or packet.is_control or is_used_up(packet.header, incoming.log_received)):
            waiting.add(packet.header)
    return InboxState(len(names), has_hole(waiting, incoming.log_received))
