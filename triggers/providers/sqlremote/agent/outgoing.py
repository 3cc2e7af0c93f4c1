"""The sending half of an agent: receive reports, let time pass, send what may go."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Final

from history.store.watermark import Epoch, Offset, Outgoing, began
from triggers.providers.sqlremote.agent.end import AgentState
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol.alarms import Alarm
from triggers.providers.sqlremote.protocol.chain import roll
from triggers.providers.sqlremote.protocol.packet import LinkReport
from triggers.providers.sqlremote.protocol.parts import checksum
from triggers.providers.sqlremote.publication.log import LinkLog

#: How many pages of the log are sent before the inbox is read again.
PAGES: Final = 4

#: How many chains of sent and unconfirmed transactions are kept.
MOST_TAILS: Final = 10_000


@dataclass(slots=True)
class OutgoingHalf:
    """Serves the peer from the log."""

    end: AgentState
    log: LinkLog = field(init=False)
    _opened: datetime | None = None
    #: The known chains of the log up to offsets that the peer has not confirmed.
    _tails: dict[Offset, bytes] = field(default_factory=dict[Offset, bytes])
    _epoch: Epoch | None = None

    def __post_init__(self) -> None:
        self.log = LinkLog(self.end.history.watermarks, self.end.settings.publication, self.end.link)

    async def hear(self, report: LinkReport) -> None:
        """Process a report of the peer."""
        end = self.end
        asked = pub.questioned(end.publisher, report, end.log_end)
        tail = None if asked is None else await self.tail(asked)
        log_end, now, settings = end.log_end, end.clock(), end.publishing
        heard = pub.hear(end.publisher, report, log_end=log_end, now=now, settings=settings, tail=tail)
        await self._carry_out(heard)

    async def tail(self, offset: Offset | None = None) -> bytes | None:
        """Return the chain of the log up to an offset, by default up to what was sent; None if unknown.

        It is unknown if the peer's subscription has changed since.
        """
        if self.end.stopped is not None:
            return None
        columns = self.end.publisher.columns
        offset = columns.log_sent if offset is None else offset
        if columns.chain is None or offset < columns.confirm_sent:
            return None
        self._keep_tails(columns)
        if offset not in self._tails:
            await self._follow(max(start for start in self._tails if start < offset), offset)
        return self._tails[offset]

    def _keep_tails(self, columns: Outgoing) -> None:
        """Keep chains that may be needed soon, and the place to continue; the others are read again."""
        tails, confirmed = self._tails, columns.confirm_sent
        if tails.get(confirmed) != columns.chain or self._epoch != columns.epoch:
            tails, self._epoch = {confirmed: columns.chain or b""}, columns.epoch
        if next(iter(tails)) != confirmed or len(tails) > MOST_TAILS:
            kept = islice(
                ((start, tail) for start, tail in tails.items() if start >= confirmed), MOST_TAILS // 2
            )
            last = {columns.log_sent: tails[columns.log_sent]} if columns.log_sent in tails else {}
            tails = {**dict(kept), **last}
        self._tails = tails

    async def _follow(self, after: Offset, upto: Offset) -> None:
        tail = self._tails[after]
        while page := await self.log.read(after, upto):
            for transaction in page:
                tail = roll(tail, checksum(transaction.data))
            after = page[-1].offset
        self._tails[upto] = tail

    async def tick(self) -> None:
        """Serve a request that has waited; probe if confirmations do not come."""
        await self._carry_out(
            pub.tick(self.end.publisher, now=self.end.clock(), settings=self.end.publishing)
        )

    async def send(self) -> bool:
        """Send what may go, a few pages of it; return whether there is more."""
        end = self.end
        if end.settings.direction == "receive" or end.publisher.alarm is not None:
            return False
        end.hooks.send_begin(end.link)
        collected = await self.log.collect()
        if collected is not None:
            end.log_end = Offset(collected)
        await self._open_gate()
        await end.store()
        for _ in range(PAGES):
            if not end.publisher.may_send:
                break
            columns = end.publisher.columns
            page = await self.log.read(columns.log_sent, columns.log_send)
            if not page:
                break
            tails = self._tails if await self.tail() is not None else None
            for packet in pub.packets(end.publisher, page, end.publishing, tails=tails):
                await end.put(replace(packet, report=await end.say()))
                end.publisher = pub.sent(
                    end.publisher, packet.header, now=end.clock(), settings=end.publishing
                )
            # Once a page: what was sent and not stored is sent again, and the peer discards it.
            await end.store()
        else:
            return end.publisher.may_send
        end.hooks.send_end(end.link)
        return False

    async def _open_gate(self) -> None:
        end, now = self.end, self.end.clock()
        schedule = end.settings.schedule
        last = end.publisher.columns.time_sent
        if self._opened is not None and self._opened <= now:  # else the clock was set back
            last = self._opened if last is None else max(last, self._opened)
        if schedule.frequency == "D" and last is None:
            # Also a program that runs only once a day comes to this time.
            last = self._opened = min(now, began(end.publisher.columns.epoch) or now)
        others: list[datetime | None] = []
        if schedule.frequency == "P":
            others = [
                row.watermark.outgoing.time_sent
                for row in await end.history.watermarks.read_all()
                if (row.frequency, row.send_time) == ("P", schedule.send_time) and row.link != end.link
            ]
        if schedule.due(last, now=now, others=others):
            self._opened = now
            end.publisher = pub.let_send(end.publisher, end.log_end)

    async def _carry_out(self, step: pub.PublisherStep) -> None:
        end = self.end
        end.publisher = step.state
        await end.store()
        for action in step.actions:
            if isinstance(action, Alarm):
                await end.halt(str(action))
            else:
                said, tail = await end.say(), await self.tail()
                packet = pub.announcement(end.publisher, probe=action.probe, report=said, tail=tail)
                await end.put(packet)
