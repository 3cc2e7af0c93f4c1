"""What an agent does for the sending half: hear reports, let time pass, send what may go."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from triggers.providers.sqlremote import publisher as pub
from triggers.providers.sqlremote.alarms import Alarm
from triggers.providers.sqlremote.end import End
from triggers.providers.sqlremote.log import Log
from triggers.providers.sqlremote.packet import Report

#: How many pages of the log are sent before the inbox is read again.
PAGES: Final = 4


@dataclass(slots=True)
class Sending:
    """Serves the peer from the log."""

    end: End
    log: Log = field(init=False)
    _opened: datetime | None = None

    def __post_init__(self) -> None:
        self.log = Log(self.end.history.watermarks, self.end.settings.publication, self.end.link)

    async def hear(self, report: Report) -> None:
        """Take a report of the peer's."""
        end = self.end
        await self._carry_out(
            pub.hear(end.publisher, report, log_end=end.log_end, now=end.clock(), settings=end.publishing)
        )

    async def tick(self) -> None:
        """Honour a request that has waited; probe where confirmations fail to come."""
        await self._carry_out(
            pub.tick(self.end.publisher, now=self.end.clock(), settings=self.end.publishing)
        )

    async def send(self) -> bool:
        """Send what may go, a few pages of it; return whether there is more."""
        end = self.end
        if end.settings.direction == "receive" or end.publisher.alarm is not None:
            return False
        end.hooks.send_begin(end.link)
        await self._open_gate()
        await end.store()
        for _ in range(PAGES):
            if not end.publisher.may_send:
                break
            columns = end.publisher.columns
            page = await self.log.read(columns.log_sent, columns.log_send)
            if not page:
                break
            for packet in pub.packets(end.publisher, page, end.publishing):
                await end.put(replace(packet, report=await end.say()))
                end.publisher = pub.sent(
                    end.publisher, packet.header, now=end.clock(), settings=end.publishing
                )
            # Once a page: what was sent and not stored is sent again, and thrown away there.
            await end.store()
        else:
            return end.publisher.may_send
        end.hooks.send_end(end.link)
        return False

    async def _open_gate(self) -> None:
        end, now = self.end, self.end.clock()
        schedule = end.settings.schedule
        last = end.publisher.columns.time_sent
        if self._opened is not None:
            last = self._opened if last is None else max(last, self._opened)
        if schedule.frequency == "D" and last is None:
            last = self._opened = now
        others: list[datetime | None] = []
        if schedule.frequency == "P":
            others = [
                row.watermark.outgoing.time_sent
                for row in await end.history.watermarks.read_all()
                if (row.frequency, row.send_time) == ("P", schedule.send_time) and row.link != end.link
            ]
            others = [one for one in others if one is not None and (last is None or one < last)]
        if schedule.due(last, now=now, others=others):
            self._opened = now
            end.publisher = pub.let_send(end.publisher, end.log_end)

    async def _carry_out(self, turn: pub.Turn) -> None:
        end = self.end
        end.publisher = turn.state
        await end.store()
        for action in turn.actions:
            if isinstance(action, Alarm):
                await end.halt(str(action))
            else:
                packet = pub.announcement(end.publisher, probe=action.probe, report=await end.say())
                await end.put(packet)
