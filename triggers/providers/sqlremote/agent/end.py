"""One end of a link while its agent runs it: the row, the two states, and the database and carrier."""

import logging
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from history.bridge import settled
from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection
from history.sql.links.history import LinkHistory
from history.sql.links.watermark import LinkRow
from history.store.watermark import ORIGIN, Offset, broken_rules
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqlremote.agent.hooks import Hooks
from triggers.providers.sqlremote.capture.installing import refuse_uncaptured
from triggers.providers.sqlremote.capture.subscribing import only_receives
from triggers.providers.sqlremote.carriers.carrier import Carrier
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol import subscriber as sub
from triggers.providers.sqlremote.protocol.alarms import awaits_extract
from triggers.providers.sqlremote.protocol.chain import trailer_of
from triggers.providers.sqlremote.protocol.inbox import SubscriberSettings, SubscriberState
from triggers.providers.sqlremote.protocol.packet import LinkReport, Packet, encode
from triggers.providers.sqlremote.protocol.publisher import PublisherState
from triggers.providers.sqlremote.protocol.sealing import Seal
from triggers.providers.sqlremote.settings import LinkSettings

if TYPE_CHECKING:
    from sqlalchemy import Connection

_log = logging.getLogger(__name__)

#: How long a silent agent counts as alive.
LEASE: Final = timedelta(minutes=1)


class LinkBusyError(ProviderUnavailableError):
    """Another agent runs the link; this one waits until the other has left, or is known to be dead."""

    remedy = "wait until that process ends, or stop it"

    def __init__(self, link: str, agent: str) -> None:
        super().__init__(f"link {link}", "taking it")
        self.__cause__ = BlockingIOError(f"{agent} runs it")


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def new_token() -> str:
    """Return a token unique to an agent, readable as host and process."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(6)}"


@dataclass(slots=True)
class AgentState:
    """The state of an agent for its link. Only the row survives it."""

    link: str
    settings: LinkSettings
    history: LinkHistory
    carrier: Carrier
    hooks: Hooks = field(default_factory=Hooks)
    clock: Callable[[], datetime] = utc_now
    horizon: Callable[[], Offset | None] = field(default=lambda: None)
    token: str = field(default_factory=new_token)
    row: LinkRow | None = None
    begun: bool = False
    seal: Seal = field(init=False)
    publishing: pub.PublisherSettings = field(init=False)
    receiving: SubscriberSettings = field(init=False)
    publisher: PublisherState = field(init=False)
    subscriber: SubscriberState = field(init=False)
    #: The checksum of the last transaction applied.
    digest: bytes | None = None
    #: Why the link is stopped.
    stopped: str | None = None
    #: The greatest offset given out here, as of the last poll.
    log_end: Offset = ORIGIN

    def __post_init__(self) -> None:
        self.publishing, self.receiving = self.settings.publishing, self.settings.receiving
        self.seal = self.settings.seal()

    async def open(self) -> None:
        """Take the link, and begin with the stored row.

        Raises:
            LinkBusyError: another agent has it.
            ConfigurationError: the link does not exist, or its triggers do not capture its tables.
        """
        watermarks = self.history.watermarks
        link_row = await watermarks.read(self.link)
        if link_row is None:
            raise ConfigurationError(
                "link", f"link {self.link} does not exist", "create it with: doubtless sqlremote setup"
            )
        await self.check_capture()
        dead = link_row.agent if link_row.agent is not None and _is_dead(link_row.agent) else ""
        row = await watermarks.take(self.link, self.token, LEASE, dead=dead)
        if row is None:
            raise LinkBusyError(self.link, link_row.agent or "another agent")
        self.log_end = (await watermarks.end()).last
        outgoing, incoming = row.watermark.outgoing, row.watermark.incoming
        self.publisher = pub.opened(outgoing, self.publishing, greets=self.settings.direction != "receive")
        self.subscriber = sub.opened(incoming)
        self.row, self.digest, self.stopped = row, row.received_digest, row.stopped
        rules = broken_rules(outgoing, incoming, log_end=self.log_end)
        if rules and self.stopped is None:
            await self.halt(
                f"its row contradicts the log ({', '.join(rules)}): one of them was restored from a backup; "
                "restore both together, or run doubtless sqlremote extract at the end that is right, "
                "and load it at the other one"
            )
        if self.stopped is not None and awaits_extract(self.stopped):
            does = "only receives" if only_receives(self.stopped) else "stands still"
            extra = {"trigger": f"link:{self.link}"}
            _log.error("link %s %s: %s", self.link, does, self.stopped, extra=extra)
        if not self.begun:
            self.begun = True
            self.hooks.begin(self.link)

    async def check_capture(self) -> None:
        """Return if triggers capture the tables of the link.

        Raises:
            ConfigurationError: they do not: what is written would not be replicated.
        """
        if self.settings.captures:
            await self.history.watermarks.run("checking the triggers", self._check_triggers)

    async def _check_triggers(self, connection: AnyConnection) -> None:
        blocking = cast("Connection", connection)  # links have blocking engines
        refuse_uncaptured(blocking, self.settings.publication, self.settings.tables)

    async def store(self) -> None:
        """Store the changes.

        Raises:
            LinkLostError: another agent has the link now.
        """
        row = self._opened
        outgoing, incoming = self.publisher.columns, self.subscriber.columns
        changed = [
            half
            for half, stored in ((outgoing, row.watermark.outgoing), (incoming, row.watermark.incoming))
            if half != stored
        ]
        if changed:
            await self.history.watermarks.save(self.link, self.token, changed=changed)
            self.note_stored()

    def note_stored(self) -> None:
        """Note that the row matches the states."""
        row = self._opened
        stored = replace(row.watermark, outgoing=self.publisher.columns, incoming=self.subscriber.columns)
        self.row = replace(row, watermark=stored)

    async def put(self, packet: Packet) -> None:
        """Pass a message to the carrier."""
        there = self.settings.outbox
        trailer = trailer_of(packet)
        sealed = self.seal.close(encode(packet), sender=self.settings.inbox, receiver=there, trailer=trailer)
        await settled(self.carrier.put(there, sealed))
        self.hooks.message_sent(self.link, str(packet.header))

    async def say(self) -> LinkReport:
        """Return the report about the other direction for every outgoing message, after storing it."""
        report = sub.report_of(self.subscriber, self.horizon())
        now = self.clock()
        self.subscriber = sub.reported(self.subscriber, report, now=now, settings=self.receiving)
        await self.store()
        return report

    async def halt(self, reason: str) -> None:
        """Stop the link until somebody decides."""
        await self.history.watermarks.halt(self.link, reason)
        self.stopped = reason
        _log.error("link %s stopped: %s", self.link, reason, extra={"trigger": f"link:{self.link}"})
        self.hooks.shutdown(self.link, reason)

    async def look(self) -> None:
        """Renew the lease of this agent, and check whether somebody has stopped or started the link.

        Raises:
            LinkLostError: another agent has the link now, or the link was reset.
        """
        row = await self.history.watermarks.stay(self.link, self.token, LEASE)
        if self.stopped is not None and row.stopped is None:
            self.row = None  # begin again: the cause of the alarm is gone
        self.stopped = row.stopped

    async def close(self) -> None:
        """Leave the link."""
        if self.begun:
            self.begun, self.row = False, None
            self.hooks.end(self.link, 0 if self.stopped is None else 1)
            await self.history.watermarks.leave(self.link, self.token)

    @property
    def stands_still(self) -> bool:
        """Whether the link is stopped, and does not even receive."""
        return self.stopped is not None and not only_receives(self.stopped)

    @property
    def _opened(self) -> LinkRow:
        if self.row is None:
            raise ConfigurationError("link", f"{self.link} is not open", "call open first")
        return self.row


def _is_dead(agent: str) -> bool:
    """Whether an agent is known to be dead: its process on this host does not exist any more."""
    host, _, rest = agent.partition(":")
    process = rest.partition(":")[0]
    if host != socket.gethostname() or not process.isdigit():
        return False
    if int(process) == os.getpid():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
