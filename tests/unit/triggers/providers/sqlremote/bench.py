"""One direction of a link: a log, a publisher, a subscriber, and a test that carries the messages."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TypeVar

from history.store.watermark import Epoch, Incoming, Offset, Outgoing
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol import subscriber as sub
from triggers.providers.sqlremote.protocol.alarms import Alarm
from triggers.providers.sqlremote.protocol.header import Header
from triggers.providers.sqlremote.protocol.inbox import (
    Apply,
    DeleteMessages,
    SendReport,
    SubscriberSettings,
    SubscriberState,
    SubscriberStep,
)
from triggers.providers.sqlremote.protocol.packet import LinkReport, Packet
from triggers.providers.sqlremote.protocol.parts import PacketRecord, Transaction
from triggers.providers.sqlremote.protocol.publisher import PublisherSettings, PublisherState
from triggers.providers.sqlremote.protocol.verdicts import Verdict

#: The offsets of the seed's examples.
A, B, C, D = (Offset(one) for one in (923200, 923357, 942712, 1119170))

NOW = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EPOCH = Epoch("20240101T000000000000-a")
LATER_EPOCH = Epoch("20240501T000000000000-a")

#: D is a transaction of four parts at the default message size.
CONTENTS = {B: b"at B", C: b"at C", D: b"at D"}
LONG_D = b"at D" + bytes(190_000)

Some = TypeVar("Some")


def only(things: Iterable[object], kind: type[Some]) -> list[Some]:
    return [one for one in things if isinstance(one, kind)]


def message(text: str, *offsets: Offset, data: bytes | None = None, epoch: Epoch = EPOCH) -> Packet:
    """A message with the transactions of ``offsets``, or with the last one in its header."""
    header = Header.parse(text)
    records = [
        PacketRecord(one, CONTENTS.get(one, b"work") if data is None else data)
        for one in offsets or (header.last_offset,)
    ]
    return Packet(header, epoch, tuple(records))


#: The messages between the offsets, one transaction each.
AB, BC, CD = (
    message("(0-0000923200-0000923357-0)"),
    message("(0-0000923357-0000942712-0)"),
    message("(0-0000942712-0001119170-0)"),
)


class Bench:
    """Both ends begin at ``start``: P(start, start, 0) and S(start, 0)."""

    def __init__(
        self,
        start: Offset = A,
        *,
        patience: int = 1,
        long: bool = False,
        publishing: PublisherSettings | None = None,
        receiving: SubscriberSettings | None = None,
    ) -> None:
        self.now = NOW
        self.publishing = publishing or PublisherSettings()
        self.receiving = receiving or SubscriberSettings(patience=patience)
        self.publisher = PublisherState(
            columns=Outgoing(epoch=EPOCH, log_send=start, log_sent=start, confirm_sent=start)
        )
        self.subscriber = SubscriberState(
            columns=Incoming(epoch=EPOCH, log_received=start, confirm_received=start), report_due=False
        )
        data = {**CONTENTS, D: LONG_D} if long else CONTENTS
        self.log = [Transaction(offset, data[offset]) for offset in (B, C, D)]
        self.applied: list[Offset] = []
        self.deleted: list[str] = []
        self.alarms: list[Alarm] = []
        self.handles = count()

    @property
    def p(self) -> tuple[Offset, Offset, int]:
        columns = self.publisher.columns
        return columns.log_sent, columns.confirm_sent, columns.resend_count

    @property
    def s(self) -> tuple[Offset, int]:
        return self.subscriber.columns.log_received, self.subscriber.columns.rereceive_count

    def send(self, *ends: Offset) -> list[Packet]:
        """Open the gate up to each of ``ends`` in turn, and send everything that may be sent."""
        gone: list[Packet] = []
        for end in ends:
            self.publisher = pub.let_send(self.publisher, end)
            for packet in list(pub.packets(self.publisher, self.log, self.publishing)):
                self.publisher = pub.sent(
                    self.publisher, packet.header, now=self.now, settings=self.publishing
                )
                gone.append(packet)
        return gone

    def read(self, *packets: Packet, apply: int | None = None) -> list[Verdict | None]:
        """Let the subscriber read messages and apply what it can; with ``apply``, so many times at most."""
        verdicts: list[Verdict | None] = []
        for packet in packets:
            handle = f"m{next(self.handles)}"
            turn = sub.receive(self.subscriber, packet, handle, now=self.now, settings=self.receiving)
            verdicts.append(turn.verdict)
            self._take(turn)
            self._advance(apply)
        return verdicts

    def garble(self) -> None:
        self._take(sub.garbled(self.subscriber, f"m{next(self.handles)}"))

    def _advance(self, apply: int | None) -> None:
        while apply is None or apply > 0:
            turn = sub.advance(self.subscriber, now=self.now, settings=self.receiving)
            self._take(turn)
            todo = only(turn.actions, Apply)
            if not todo:
                return
            for one in todo:
                self.applied += [transaction.offset for transaction in one.transactions]
                self._take(sub.applied(self.subscriber, one, now=self.now, settings=self.receiving))
            apply = None if apply is None else apply - 1

    def _take(self, turn: SubscriberStep) -> None:
        self.subscriber = turn.state
        for gone in only(turn.actions, DeleteMessages):
            self.deleted += gone.handles
        self.alarms += only(turn.actions, Alarm)

    def poll(self, *packets: Packet, horizon: Offset | None = None, final: bool = False) -> list[LinkReport]:
        """Poll once and receive ``packets``; return the subscriber's reports at the end."""
        self.read(*packets)
        turn = sub.polled(
            self.subscriber, now=self.now, settings=self.receiving, horizon=horizon, final=final
        )
        self._take(turn)
        return [answer.report for answer in only(turn.actions, SendReport)]

    def hear(self, *reports: LinkReport, log_end: Offset = D) -> pub.PublisherStep:
        """Give reports to the publisher; return its step after the last one."""
        turn = pub.PublisherStep(self.publisher)
        for report in reports:
            turn = pub.hear(self.publisher, report, log_end=log_end, now=self.now, settings=self.publishing)
            self.publisher = turn.state
            self.alarms += only(turn.actions, Alarm)
        return turn

    def confirm(self, offset: Offset, count: int | None = None, *, log_end: Offset = D) -> pub.PublisherStep:
        """Confirm ``offset`` to the publisher, with its own resend count or with ``count``."""
        known = self.publisher.columns.resend_count
        return self.hear(LinkReport(EPOCH, offset, known if count is None else count), log_end=log_end)

    def restart_subscriber(self) -> None:
        self.subscriber = sub.opened(self.subscriber.columns)

    def restart_publisher(self, **columns: object) -> None:
        """Start the publisher again; ``columns`` are as they were stored before."""
        stored = replace(self.publisher.columns, **columns)  # type: ignore[arg-type]
        self.publisher = pub.opened(stored, self.publishing)


def headers(packets: Iterable[Packet]) -> list[str]:
    return [str(packet.header) for packet in packets]
