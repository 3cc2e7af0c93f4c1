"""The receiving half of an agent: read the inbox, judge, and find what to apply next."""

import logging
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from history.bridge import settled
from history.message import Message
from history.shell import ThreadShell
from history.sql.links.history import LinkHistory
from history.sql.links.watermark import UNKNOWN_EPOCH
from history.store.parking import Parked, ParkedKind, encodable, parked_id, raw_fields
from history.store.watermark import ORIGIN
from triggers.events import RetrievalFailureEvent, publish
from triggers.providers.sqlremote.agent.end import AgentState
from triggers.providers.sqlremote.agent.outgoing import OutgoingHalf
from triggers.providers.sqlremote.carriers.carrier import SettingAside, UnreadableMessageError
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol import subscriber as sub
from triggers.providers.sqlremote.protocol.alarms import Alarm, log_differs
from triggers.providers.sqlremote.protocol.chain import with_chains
from triggers.providers.sqlremote.protocol.inbox import (
    Action,
    Apply,
    DeleteMessages,
    SendReport,
    SubscriberStep,
)
from triggers.providers.sqlremote.protocol.packet import Packet, decode
from triggers.providers.sqlremote.protocol.parts import MangledError, checksum
from triggers.providers.sqlremote.protocol.sealing import UntrustedError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class IncomingHalf:
    """Reads the inbox, message by message. Unless it ``applies``, work stays where it is.

    While ``held``, nothing is handed out; ``alone`` hands out one transaction at a time.
    """

    end: AgentState
    outgoing: OutgoingHalf
    applies: bool = True
    held_until: datetime | None = None
    alone: bool = False
    _unread: deque[str] = field(default_factory=deque[str])
    _heard: set[str] = field(default_factory=set[str])

    async def begin(self) -> None:
        """Begin a reading of the inbox."""
        end = self.end
        end.hooks.receive_begin(end.link)
        names = await settled(end.carrier.list(end.settings.inbox))
        waiting = {cached.handle for cached in end.subscriber.cache.values()}
        self._heard &= set(names)
        self._unread = deque(name for name in names if name not in waiting)

    async def go_on(self) -> Apply | None:
        """Read until there is something to apply; None at the end of the inbox."""
        while not self.end.stands_still:
            if not self._is_held():
                settings = self.end.receiving
                if self.alone:
                    settings = replace(settings, group=1)
                advanced = sub.advance(self.end.subscriber, now=self.end.clock(), settings=settings)
                apply = await self._take(advanced)
                if apply is not None:
                    return apply
            if not self._unread:
                return None
            await self._read(self._unread.popleft())
        return None

    async def finish(self, *, final: bool) -> None:
        """End the reading: lose patience, ask again, report."""
        end = self.end
        lost = end.subscriber.columns.rereceive_count
        polled = sub.polled(
            end.subscriber,
            now=end.clock(),
            settings=end.receiving,
            horizon=end.horizon(),
            final=final and self.applies,
        )
        await self._take(polled)
        if end.subscriber.columns.rereceive_count > lost:
            end.hooks.message_missing(end.link)
        end.hooks.receive_end(end.link)

    async def applied(self, done: Apply) -> None:
        """Continue after what the database has committed."""
        end = self.end
        applied = sub.applied(end.subscriber, done, now=end.clock(), settings=end.receiving)
        end.subscriber, end.digest = applied.state, checksum(done.transactions[-1].data)
        end.note_stored()
        await self._carry_out(applied.actions)

    def _is_held(self) -> bool:
        if self.held_until is not None and self.end.clock() >= self.held_until:
            self.held_until = None
        return self.held_until is not None

    async def _read(self, name: str) -> None:
        end, settings = self.end, self.end.settings
        try:
            data = await settled(end.carrier.get(settings.inbox, name))
        except KeyError:
            return  # deleted earlier in this reading: the cache was emptied
        except UnreadableMessageError as error:
            await self._set_aside(name, str(error))
            return
        try:
            opened, trailer = end.seal.unwrap(data, sender=settings.outbox, receiver=settings.inbox)
            packet = with_chains(decode(opened, settings.message_size), trailer)
        except UntrustedError as error:
            await Quarantine(end.history, end.link).keep(name, data, str(error))
            await self._take(sub.garbled(end.subscriber, name))
        except MangledError as error:
            # Also the only trace of ends with different settings: the peer would send it again and again.
            _log.warning(
                "link %s: a message is damaged and discarded: %s",
                end.link,
                error,
                extra={"trigger": f"link:{end.link}"},
            )
            await self._take(sub.garbled(end.subscriber, name))
        else:
            await self._judge(packet, name)

    async def _set_aside(self, name: str, problem: str) -> None:
        """Move an unreadable message to where nobody reads it again; it counts as never arrived."""
        end, kept = self.end, name
        if isinstance(end.carrier, SettingAside):
            kept = await settled(end.carrier.set_aside(end.settings.inbox, name))
        await Quarantine(end.history, end.link).keep_name(name, kept, problem)
        await self._take(sub.garbled(end.subscriber, name))

    async def _judge(self, packet: Packet, name: str) -> None:
        end = self.end
        if packet.report is not None and name not in self._heard:
            await self.outgoing.hear(packet.report)
        if end.stands_still:
            return
        if not self.applies:
            await self._leave(packet, name)
            return
        self._meet(packet)
        if self._differs(packet):
            alarm = log_differs(end.subscriber.columns.log_received)
            end.subscriber = replace(end.subscriber, alarm=alarm)
            await end.halt(str(alarm))
            return
        await self._take(sub.receive(end.subscriber, packet, name, now=end.clock(), settings=end.receiving))

    async def _leave(self, packet: Packet, name: str) -> None:
        """Leave work to an agent that applies it; answer a probe anyway."""
        end = self.end
        if packet.is_control:
            due = end.subscriber.report_due or packet.probe
            end.subscriber = replace(end.subscriber, report_due=due)
            await settled(end.carrier.delete(end.settings.inbox, [name]))
        else:
            self._heard.add(name)

    def _meet(self, packet: Packet) -> None:
        """Learn the epoch of an unknown peer that begins at the beginning.

        If it does not, this end requests the earlier work, and then stops with an alarm.
        """
        columns = self.end.subscriber.columns
        if columns.epoch == UNKNOWN_EPOCH and columns.log_received == ORIGIN:
            self.end.subscriber = replace(
                self.end.subscriber, columns=replace(columns, epoch=packet.epoch), report_due=True
            )

    def _differs(self, packet: Packet) -> bool:
        """Whether a message has other work under the offset that was applied last.

        Nothing else shows that a publisher was restored and has committed the same amount again since.
        """
        columns, digest = self.end.subscriber.columns, self.end.digest
        if digest is None or packet.epoch != columns.epoch or packet.header.is_part:
            return False
        return any(
            record.offset == columns.log_received and checksum(record.data) != digest
            for record in packet.records
        )

    async def _take(self, step: SubscriberStep) -> Apply | None:
        self.end.subscriber = step.state
        await self.end.store()
        return await self._carry_out(step.actions)

    async def _carry_out(self, actions: Iterable[Action]) -> Apply | None:
        end, apply = self.end, None
        for action in actions:
            match action:
                case Apply():
                    apply = action
                case DeleteMessages(handles):
                    await settled(end.carrier.delete(end.settings.inbox, handles))
                case SendReport(report):
                    tail = await self.outgoing.tail()
                    await end.put(pub.announcement(end.publisher, probe=False, report=report, tail=tail))
                case Alarm():
                    await end.halt(str(action))
        return apply


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Parks messages without a valid signature of the link, whole, with an event; they are never applied.

    Each is in the link's database once: the carrier's name distinguishes equal messages.
    """

    history: LinkHistory
    link: str

    async def keep(self, name: str, data: bytes, problem: str) -> None:
        """Keep a message, and raise an event; when this returns it may be deleted from the carrier."""
        await self._keep({b"message": data, b"name": os.fsencode(name)}, problem)

    async def keep_name(self, name: str, kept: str, problem: str) -> None:
        """Note an unreadable message, by its name and the place where it is kept, and raise an event."""
        fields = {b"name": os.fsencode(name), b"kept": os.fsencode(kept)}
        await self._keep(fields, problem)

    async def _keep(self, raw: dict[bytes, bytes], problem: str) -> None:
        name = f"link:{self.link}"
        fields = raw_fields(raw)
        stand_in, problem = Message(body=dict(fields)), encodable(problem)
        parked = Parked(
            id=parked_id(name, stand_in),
            trigger_name=name,
            kind=ParkedKind.UNREADABLE,
            reason=problem,
            destination=name,
            raw=fields,
        )
        await publish(RetrievalFailureEvent.of_unreadable(name, name, problem), ThreadShell())
        await self.history.parking.park([parked])
        _log.error(
            "link %s: a message was not accepted and is parked: %s",
            self.link,
            problem,
            extra={"trigger": name},
        )
