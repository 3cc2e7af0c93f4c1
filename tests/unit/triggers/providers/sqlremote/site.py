"""One end of a link in the simulation: durable state, lost state, and a runner that may die.

The decisions come from the package. The simulation adds the runner around them. It can die between any two
effects that are visible from outside: its ``fuse`` says after how many effects.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from history.store.watermark import Incoming, Offset, Outgoing, Watermark, broken_rules, new_epoch
from tests.unit.helpers.lossy import LossyCarrier
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol import subscriber as sub
from triggers.providers.sqlremote.protocol.alarms import Alarm
from triggers.providers.sqlremote.protocol.chain import roll, trailer_of, with_chains
from triggers.providers.sqlremote.protocol.inbox import (
    Action,
    Apply,
    DeleteMessages,
    SendReport,
    SubscriberSettings,
    SubscriberStep,
)
from triggers.providers.sqlremote.protocol.packet import LinkReport, Packet, decode, encode
from triggers.providers.sqlremote.protocol.parts import MangledError, Transaction, checksum
from triggers.providers.sqlremote.protocol.publisher import Announce, PublisherSettings
from triggers.providers.sqlremote.protocol.sealing import Seal

SEAL = Seal(message_size=2000, compression=1)
START = datetime(2024, 5, 1, tzinfo=UTC)


class DiedError(Exception):
    """The process has died, and everything that it had not stored is lost."""


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
    #: By which peer a transaction came; None if it is the application's own.
    origins: dict[Offset, str | None] = field(default_factory=dict[Offset, str | None])
    applied: list[bytes] = field(default_factory=list[bytes])
    messages: int = 0
    deaths: int = 0
    fuse: int | None = None
    #: Whether this end sends chains; an older version does not.
    chains: bool = True

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.fuse = None
        self.publisher = pub.opened(self.row.outgoing, self.publishing)
        self.subscriber = sub.opened(self.row.incoming)

    def commit(self, data: bytes, step: int = 1, origin: str | None = None) -> None:
        self.log.append(Transaction(Offset(self.log_end + step), data))
        self.origins[self.log_end] = origin

    @property
    def log_end(self) -> Offset:
        return self.log[-1].offset if self.log else Offset(0)

    @property
    def committed(self) -> list[bytes]:
        """The transactions that the application wrote here, without those from the peer."""
        return [one.data for one in self.log if self.origins[one.offset] is None]

    @property
    def eligible(self) -> list[Transaction]:
        """The transactions that the peer gets: all but its own."""
        return [one for one in self.log if self.origins[one.offset] != self.peer]

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
        told = trailer_of(packet) if self.chains else b""
        self.carrier.put(self.peer, SEAL.close(encode(packet), sender="", receiver="", trailer=told))
        self.burn()

    def _send(self) -> None:
        self.publisher = pub.let_send(self.publisher, self.log_end)
        self._store()
        tail = self.tail(self.publisher.columns.log_sent)
        tails = {} if tail is None else {self.publisher.columns.log_sent: tail}
        for packet in pub.packets(self.publisher, self.eligible, self.publishing, tails=tails):
            said = self._say()
            self._put(replace(packet, report=said))
            self.publisher = pub.sent(
                self.publisher, packet.header, now=self.clock.now, settings=self.publishing
            )
            self._store()

    def _say(self) -> LinkReport:
        report = sub.report_of(self.subscriber)
        self.subscriber = sub.reported(self.subscriber, report, now=self.clock.now, settings=self.receiving)
        self._store()
        return report

    def _tick(self) -> None:
        self._carry_out(pub.tick(self.publisher, now=self.clock.now, settings=self.publishing))

    def _poll(self) -> None:
        for handle in self.carrier.list(self.name):
            try:
                data, told = SEAL.unwrap(self.carrier.get(self.name, handle), sender="", receiver="")
                packet = decode(data, self.receiving.message_size)
                packet = with_chains(packet, told) if self.chains else packet
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

    def _hear(self, report: LinkReport) -> None:
        end, now = self.log_end, self.clock.now
        asked = pub.questioned(self.publisher, report, end)
        tail = None if asked is None else self.tail(asked)
        self._carry_out(
            pub.hear(self.publisher, report, log_end=end, now=now, settings=self.publishing, tail=tail)
        )

    def tail(self, offset: Offset) -> bytes | None:
        """The chain of the log up to an offset."""
        columns = self.publisher.columns
        tail = columns.chain
        for one in self.eligible:
            if tail is not None and columns.confirm_sent < one.offset <= offset:
                tail = roll(tail, checksum(one.data))
        return tail if offset >= columns.confirm_sent else None

    def _carry_out(self, turn: pub.PublisherStep) -> None:
        self.publisher = turn.state
        self._store()
        for action in turn.actions:
            if isinstance(action, Announce):
                said, tail = self._say(), self.tail(self.publisher.columns.log_sent)
                self._put(pub.announcement(self.publisher, probe=action.probe, report=said, tail=tail))

    def _advance(self) -> None:
        while True:
            turn = sub.advance(self.subscriber, now=self.clock.now, settings=self.receiving)
            self._take(turn)
            if not any(isinstance(action, Apply) for action in turn.actions):
                return

    def _take(self, turn: SubscriberStep) -> None:
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
            case DeleteMessages(handles):
                self.burn()
                self.carrier.delete(self.name, handles)
            case SendReport(report):
                tail = self.tail(self.publisher.columns.log_sent)
                self._put(pub.announcement(self.publisher, probe=False, report=report, tail=tail))
            case Alarm():
                pass

    def commit_applied(self, action: Apply) -> None:
        """Store the work and its offset in one database transaction."""
        self.applied += [one.data for one in action.transactions]
        for one in action.transactions:
            self.commit(one.data, origin=self.peer)
        self.row = replace(self.row, incoming=action.columns)

    @property
    def is_alarmed(self) -> bool:
        return self.publisher.alarm is not None or self.subscriber.alarm is not None

    def forget_chains(self) -> None:
        """Change the row to the form that an older version wrote."""
        outgoing, incoming = replace(self.row.outgoing, chain=None), replace(self.row.incoming, chain=None)
        self.row = replace(self.row, outgoing=outgoing, incoming=incoming)
        self.restart()

    def back_up(self) -> tuple[Watermark, int, int]:
        return self.row, len(self.log), len(self.applied)

    def restore(self, backup: tuple[Watermark, int, int]) -> None:
        """Restore the database from the backup, and start the process again."""
        self.row, logged, applied = backup
        del self.log[logged:], self.applied[applied:]
        self.restart()

    def check(self, other: "Site") -> None:
        """Check everything that must be true at any time, with or without faults."""
        assert self.applied == other.committed[: len(self.applied)], "not a prefix of what was committed"
        rules = broken_rules(self.row.outgoing, self.row.incoming, log_end=self.log_end)
        assert not rules, rules
        assert self.row.outgoing.confirm_sent <= other.row.incoming.log_received
        assert self.publisher.alarm is None, self.publisher.alarm
        assert self.subscriber.alarm is None, self.subscriber.alarm


def pair(
    carrier: LossyCarrier, *, publishing: PublisherSettings, receiving: SubscriberSettings
) -> list[Site]:
    """Return the two ends of a link; their logs have different offsets."""
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
