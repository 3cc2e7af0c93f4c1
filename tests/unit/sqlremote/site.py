"""One end of a link as the simulation knows it: what is durable, what is not, and a runner that may die.

The decisions are those of the package. What is modelled is the runner around them, which dies when its fuse
has burnt down, between any two things that can be seen from outside.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from history.watermark import Incoming, Offset, Outgoing, Watermark, broken_rules, new_epoch
from triggers.providers.sqlremote import publisher as pub
from triggers.providers.sqlremote import subscriber as sub
from triggers.providers.sqlremote.alarms import Alarm
from triggers.providers.sqlremote.carriers.lossy import LossyCarrier
from triggers.providers.sqlremote.inbox import Action, Answer, Apply, Delete, SubscriberSettings, Turn
from triggers.providers.sqlremote.packet import Packet, Report, decode, encode
from triggers.providers.sqlremote.parts import MangledError, Transaction
from triggers.providers.sqlremote.publisher import Announce, PublisherSettings

START = datetime(2024, 5, 1, tzinfo=UTC)


class DiedError(Exception):
    """The process is gone, and with it all that was not stored."""


@dataclass
class Clock:
    now: datetime = START

    def pass_by(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


@dataclass
class Site:
    """One database with its agent. ``row``, ``log`` and ``applied`` are durable."""

    name: str
    peer: str
    carrier: LossyCarrier
    clock: Clock
    row: Watermark
    publishing: PublisherSettings
    receiving: SubscriberSettings
    log: list[Transaction] = field(default_factory=list[Transaction])
    applied: list[bytes] = field(default_factory=list[bytes])
    messages: int = 0
    deaths: int = 0
    fuse: int | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.fuse = None
        self.publisher = pub.opened(self.row.outgoing, self.publishing)
        self.subscriber = sub.opened(self.row.incoming)

    def commit(self, data: bytes, step: int = 1, origin: str | None = None) -> None:
        self.log.append(Transaction(Offset(self.log_end + step), data, origin))

    @property
    def log_end(self) -> Offset:
        return self.log[-1].offset if self.log else Offset(0)

    @property
    def committed(self) -> list[bytes]:
        """What the application wrote here, without what came from the peer."""
        return [one.data for one in self.log if one.origin is None]

    def resize(self, message_size: int) -> None:
        self.publishing = replace(self.publishing, message_size=message_size)
        self.restart()

    def run(self, steps: Iterable[str], fuse: int | None = None) -> None:
        """Take steps of the runner; with a ``fuse``, die after so many effects, and start again."""
        self.fuse = fuse
        try:
            for step in steps:
                {"send": self._send, "poll": self._poll, "tick": self._tick}[step]()
        except DiedError:
            self.deaths += 1
            self.restart()
        self.fuse = None

    def burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                raise DiedError

    def _store(self) -> None:
        row = replace(self.row, outgoing=self.publisher.columns, incoming=self.subscriber.columns)
        if row != self.row:
            self.burn()
            self.row = row
            self.burn()

    def _put(self, packet: Packet) -> None:
        self.burn()
        self.messages += 1
        self.carrier.put(self.peer, encode(packet))
        self.burn()

    def _send(self) -> None:
        self.publisher = pub.let_send(self.publisher, self.log_end)
        self._store()
        work = list(pub.eligible(self.log, self.peer))
        for packet in pub.packets(self.publisher, work, self.publishing):
            said = self._say()
            self._put(replace(packet, report=said))
            self.publisher = pub.sent(
                self.publisher, packet.header, now=self.clock.now, settings=self.publishing
            )
            self._store()

    def _say(self) -> Report:
        report = sub.report_of(self.subscriber)
        self.subscriber = sub.reported(self.subscriber, report, now=self.clock.now, settings=self.receiving)
        self._store()
        return report

    def _tick(self) -> None:
        self._carry_out(pub.tick(self.publisher, now=self.clock.now, settings=self.publishing))

    def _poll(self) -> None:
        for handle in self.carrier.list(self.name):
            try:
                packet = decode(self.carrier.get(self.name, handle), self.receiving.message_size)
            except MangledError:
                self._take(sub.garbled(self.subscriber, handle))
                continue
            except KeyError:
                continue  # deleted earlier in this reading: the cache was emptied
            if packet.report is not None:
                self._hear(packet.report)
            self._take(
                sub.receive(self.subscriber, packet, handle, now=self.clock.now, settings=self.receiving)
            )
            self._advance()
        self._take(sub.polled(self.subscriber, now=self.clock.now, settings=self.receiving))

    def _hear(self, report: Report) -> None:
        end, now = self.log_end, self.clock.now
        self._carry_out(pub.hear(self.publisher, report, log_end=end, now=now, settings=self.publishing))

    def _carry_out(self, turn: pub.Turn) -> None:
        self.publisher = turn.state
        self._store()
        for action in turn.actions:
            if isinstance(action, Announce):
                self._put(pub.announcement(self.publisher, probe=action.probe, report=self._say()))

    def _advance(self) -> None:
        while True:
            turn = sub.advance(self.subscriber, now=self.clock.now, settings=self.receiving)
            self._take(turn)
            if not any(isinstance(action, Apply) for action in turn.actions):
                return

    def _take(self, turn: Turn) -> None:
        self.subscriber = turn.state
        self._store()
        for action in turn.actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Apply():
                self.burn()
                self.commit_applied(action)
                self.burn()
                now, settings = self.clock.now, self.receiving
                self._take(sub.applied(self.subscriber, action, now=now, settings=settings))
            case Delete(handles):
                self.burn()
                self.carrier.delete(self.name, handles)
            case Answer(report):
                self._put(pub.announcement(self.publisher, probe=False, report=report))
            case Alarm():
                pass

    def commit_applied(self, action: Apply) -> None:
        """One database transaction: the work, and how far it went."""
        self.applied += [one.data for one in action.transactions]
        for one in action.transactions:
            self.commit(one.data, origin=self.peer)
        self.row = replace(self.row, incoming=action.columns)

    def check(self, other: "Site") -> None:
        """Hold this end to what must be true at any time, faults or not."""
        assert self.applied == other.committed[: len(self.applied)], "not a prefix of what was committed"
        rules = broken_rules(self.row.outgoing, self.row.incoming, log_end=self.log_end)
        assert not rules, rules
        assert self.row.outgoing.confirm_sent <= other.row.incoming.log_received
        assert self.publisher.alarm is None, self.publisher.alarm
        assert self.subscriber.alarm is None, self.subscriber.alarm


def pair(
    carrier: LossyCarrier, *, publishing: PublisherSettings, receiving: SubscriberSettings
) -> list[Site]:
    """Two ends of a link, whose logs count differently."""
    clock = Clock()
    sites: list[Site] = []
    for name, peer in (("x", "y"), ("y", "x")):
        row = Watermark(
            peer=peer, outgoing=Outgoing(epoch=EPOCHS[name]), incoming=Incoming(epoch=EPOCHS[peer])
        )
        sites.append(Site(name, peer, carrier, clock, row, publishing, receiving))
    sites[1].commit(b"something that y wrote before", step=1000, origin="x")
    return sites


EPOCHS = {"x": new_epoch(START, "x"), "y": new_epoch(START, "y")}
