"""The state of a receiving end, its settings, and the actions that it may ask of its runner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from history.errors import ConfigurationError
from history.store.watermark import ORIGIN, Incoming, Offset
from triggers.providers.sqlremote.protocol.alarms import Alarm
from triggers.providers.sqlremote.protocol.header import Header
from triggers.providers.sqlremote.protocol.packet import DEFAULT_MESSAGE_SIZE, LinkReport, Packet, capacity
from triggers.providers.sqlremote.protocol.parts import Transaction
from triggers.providers.sqlremote.protocol.verdicts import Verdict, has_hole


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberSettings:
    """How a subscriber receives.

    Args:
        message_size: bytes of a message at most, the same at both ends; a longer one counts as garbled.
        patience: polls in a row without anything new before missing messages are requested again.
        poll: from the end of one poll to the start of the next.
        max_gap_age: how long a gap may last, however much else arrives; also how long the next part of a
            transaction may take.
        max_gap_messages: how many messages are kept behind a gap.
        repeat_after: how often a request is repeated until something arrives.
        group: how many small transactions are applied in one database transaction at most.

    Raises:
        ConfigurationError: a number or a duration is not positive.
    """

    message_size: int = DEFAULT_MESSAGE_SIZE
    patience: int = 1
    poll: timedelta = timedelta(minutes=1)
    max_gap_age: timedelta = timedelta(hours=1)
    max_gap_messages: int = 200
    repeat_after: timedelta = timedelta(minutes=1)
    group: int = 20

    def __post_init__(self) -> None:
        capacity(self.message_size)
        for setting in ("patience", "max_gap_messages", "group"):
            if getattr(self, setting) < 1:
                raise ConfigurationError(setting, "must be 1 or more", "give 1 or more")
        for setting in ("poll", "max_gap_age", "repeat_after"):
            if getattr(self, setting) <= timedelta(0):
                raise ConfigurationError(setting, "is not positive", "give a time to wait")


class Held(NamedTuple):
    """A message that waits, and the carrier's name for it."""

    packet: Packet
    handle: str


class Tally(NamedTuple):
    """The number of discarded messages since the process started; the original counts none of it."""

    stale: int = 0
    duplicate: int = 0
    garbled: int = 0
    retired: int = 0
    overflow: int = 0

    def counting(self, verdict: Verdict) -> "Tally":
        """Return it with one more of ``verdict``."""
        counter = verdict.name.lower()
        return self._replace(**{counter: getattr(self, counter) + 1})


#: For a process that has just started.
NOTHING_THROWN_AWAY = Tally()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberState:
    """A subscriber to one publisher. Only ``columns`` survives its process.

    ``cache`` holds waiting messages, ``announced`` is how far the publisher says it has sent. ``patience`` is
    how many polls are left, None without a gap. ``waiting_since`` is the time of the gap, or of the last
    part.
    """

    columns: Incoming
    cache: Mapping[Header, Held] = field(default_factory=dict[Header, Held])
    announced: Offset = ORIGIN
    patience: int | None = None
    waiting_since: datetime | None = None
    fresh: bool = False
    report_due: bool = True
    asking: bool = False
    repeat_due: datetime | None = None
    alarm: Alarm | None = None
    tally: Tally = NOTHING_THROWN_AWAY

    @property
    def gap(self) -> bool:
        """Whether something is missing before what was seen.

        Contiguous parts that have not all arrived are not a gap until something behind them is seen. The
        original leaves that open, and this saves a request.
        """
        received = self.columns.log_received
        return self.announced > received or has_hole(self.cache, received)


class Apply(NamedTuple):
    """Action: in one database transaction, run these and store these columns.

    ``chain`` is that of what was applied before, None if it is not known.
    """

    transactions: tuple[Transaction, ...]
    columns: Incoming
    chain: bytes | None = None

    @property
    def after(self) -> Offset:
        """The offset of the last transaction applied."""
        return self.columns.log_received


class DeleteMessages(NamedTuple):
    """Action: delete these messages from the inbox."""

    handles: tuple[str, ...]


class SendReport(NamedTuple):
    """Action: send this report, in a separate message or in one that goes out anyhow."""

    report: LinkReport


Action = Apply | DeleteMessages | SendReport | Alarm


class SubscriberStep(NamedTuple):
    """The new state of a subscriber, and its actions, in order. An alarm is reported once."""

    state: SubscriberState
    actions: tuple[Action, ...] = ()
    verdict: Verdict | None = None
