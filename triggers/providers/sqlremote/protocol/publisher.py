"""The sending end of a link: the events, the next state, and the actions.

Pure: the time (aware UTC), the end of the log and the transactions are handed in. The runner

1. stores ``columns`` whenever they changed, before it carries out actions;
2. opens the gate when the schedule says so: :func:`let_send`;
3. hands the messages of :func:`packets` to the carrier, calls :func:`sent` after each, and begins again from
   the log once :func:`hear` or :func:`tick` has changed ``columns.resend_count``;
4. calls :func:`hear` for the report in every message that comes in, and :func:`tick` now and then.

All but ``columns`` may be lost: the peer repeats its requests, and the rest is only patience. The original
leaves some cases open (a lost request, a lost last message, a confirmation after a reset, restored
databases). The docstrings say what we do there.
"""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import NamedTuple

from history.errors import ConfigurationError
from history.store import watermark
from history.store.watermark import ORIGIN, Offset, Outgoing
from triggers.providers.sqlremote.protocol import alarms, chain
from triggers.providers.sqlremote.protocol.alarms import Alarm
from triggers.providers.sqlremote.protocol.header import Header
from triggers.providers.sqlremote.protocol.packet import DEFAULT_MESSAGE_SIZE, LinkReport, Packet, capacity
from triggers.providers.sqlremote.protocol.parts import Transaction, checksum, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherSettings:
    """How a publisher sends.

    Args:
        message_size: bytes of a message at most; the same at both ends.
        resend_urgency: how long a request waits, so that several share one reading of the log.
        probe_after: how long confirmations may be missing before the peer gets a message about what was sent.

    Raises:
        ConfigurationError: a message has no room for work, or a duration is negative.
    """

    message_size: int = DEFAULT_MESSAGE_SIZE
    resend_urgency: timedelta = timedelta(0)
    probe_after: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        capacity(self.message_size)
        if self.resend_urgency < timedelta(0):
            raise ConfigurationError("resend_urgency", "is negative", "give zero to answer immediately")
        if self.probe_after <= timedelta(0):
            raise ConfigurationError("probe_after", "is not positive", "give a time to wait")


class Resend(NamedTuple):
    """A request that waits: its resend count, and when it is served."""

    resend_count: int
    due: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherState:
    """A publisher towards one peer. Only ``columns`` survives its process.

    With ``greets`` it asks the peer what the peer has, until the peer has answered. Otherwise a restored
    publisher with nothing to send would not learn that the peer has more.
    """

    columns: Outgoing
    greets: bool = False
    greeting_due: datetime | None = None
    resend: Resend | None = None
    probe_due: datetime | None = None
    alarm: Alarm | None = None

    @property
    def may_send(self) -> bool:
        """Whether there may be something to build messages from."""
        return self.alarm is None and self.resend is None and self.columns.log_send > self.columns.log_sent


class Announce(NamedTuple):
    """Action: send a control message; a ``probe`` asks for a report."""

    probe: bool


class PublisherStep(NamedTuple):
    """The new state of a publisher, and its actions, in order. An alarm is reported once."""

    state: PublisherState
    actions: tuple[Announce | Alarm, ...] = ()


def opened(columns: Outgoing, settings: PublisherSettings, *, greets: bool = True) -> PublisherState:
    """Begin a run with the stored columns; one that never sends need not greet.

    Another message size cuts the transactions differently. Then everything unconfirmed is sent again under a
    greater resend count: parts of two cuts must not meet in one transaction.
    """
    if columns.chain is None and columns.confirm_sent == ORIGIN:
        columns = replace(columns, chain=chain.first(ORIGIN))
    if columns.message_size in {None, settings.message_size}:
        return PublisherState(columns=columns, greets=greets)
    resized = watermark.rewind(columns, columns.resend_count + 1)
    return PublisherState(columns=replace(resized, message_size=settings.message_size), greets=greets)


def let_send(state: PublisherState, log_end: Offset) -> PublisherState:
    """Open the gate up to the end of the log, or, if only backed-up work may leave, up to the end of that."""
    return replace(state, columns=watermark.let_send(state.columns, log_end))


def packets(
    state: PublisherState,
    transactions: Iterable[Transaction],
    settings: PublisherSettings,
    tails: MutableMapping[Offset, bytes] | None = None,
) -> Iterator[Packet]:
    """Build the messages that may go now, in order; lazily, so that little is held at a time.

    ``transactions`` are those for the peer after ``log_sent``, in the order of their offsets. ``tails`` are
    the chains of the log up to some offsets. If the chain of ``log_sent`` is among them, the chains of the
    sent transactions are added, and sent.
    """
    columns = state.columns
    tails = {} if tails is None else tails
    if not state.may_send:
        return
    due = takewhile(
        lambda transaction: transaction.offset <= columns.log_send,
        (transaction for transaction in transactions if transaction.offset > columns.log_sent),
    )
    chained = _chained(columns.log_sent, due, tails)
    for draft in cut(columns.log_sent, chained, capacity(settings.message_size)):
        header = Header(columns.resend_count, draft.previous_offset, draft.last_offset, draft.sequence)
        tail = tails.get(draft.previous_offset)
        yield Packet(header, columns.epoch, draft.records, chain=tail)


def _chained(
    start: Offset, transactions: Iterable[Transaction], tails: MutableMapping[Offset, bytes]
) -> Iterator[Transaction]:
    """Note the chain up to each transaction that passes, if the chain at their start is known."""
    tail = tails.get(start)
    for transaction in transactions:
        if tail is not None:
            tails[transaction.offset] = tail = chain.roll(tail, checksum(transaction.data))
        yield transaction


def sent(
    state: PublisherState, header: Header, *, now: datetime, settings: PublisherSettings
) -> PublisherState:
    """Note that the carrier took a message.

    A message that was built before a reset counts, but moves nothing: the peer discards it as stale.
    """
    columns = watermark.note_sent(
        state.columns,
        header.previous_offset,
        header.last_offset,
        size=settings.message_size,
        now=now,
    )
    if header.resend_count != columns.resend_count:
        columns = replace(columns, log_sent=state.columns.log_sent)
    return replace(state, columns=columns, probe_due=state.probe_due or now + settings.probe_after)


def announcement(
    state: PublisherState, *, probe: bool, report: LinkReport | None = None, tail: bytes | None = None
) -> Packet:
    """Return the control message that says how far was sent; ``tail`` is the chain up to there, if known."""
    columns = state.columns
    header = Header(columns.resend_count, columns.log_sent, columns.log_sent, 0)
    return Packet(header, columns.epoch, (), report, probe, tail)


def questioned(state: PublisherState, report: LinkReport, log_end: Offset) -> Offset | None:
    """Return the offset for which :func:`hear` needs the chain of the log here; None for none."""
    columns = state.columns
    is_of_this_log = columns.chain is not None and report.epoch == columns.epoch
    reaches = columns.confirm_sent <= report.log_received <= min(log_end, columns.log_send)
    return report.log_received if is_of_this_log and reaches and state.alarm is None else None


def hear(
    state: PublisherState,
    report: LinkReport,
    *,
    log_end: Offset,
    now: datetime,
    settings: PublisherSettings,
    tail: bytes | None = None,
) -> PublisherStep:
    """Take a report: first its offset as a confirmation, then its count as a request for all that follows.

    The original adds one to ``resend_count`` for each request. Here a greater count in the report replaces
    ours, so that a request may be repeated until it arrives. A served request is answered again while the
    peer still asks. A report of an earlier epoch is late, and ignored.

    ``log_end`` is the greatest offset that was ever given out, however much of the log was deleted since. It
    limits a confirmation, and so does the gate, which was stored before anything went through it. A
    high-water mark of what was sent would not do: it would be lost in the very crash after which it is
    needed. If a restored log has grown to the same length again, the chains show it: ``tail`` is the chain of
    the log here, see :func:`questioned`.
    """
    if state.alarm is not None or report.epoch < state.columns.epoch:
        return PublisherStep(state)
    alarm = _alarm(state.columns, report, log_end, tail)
    if alarm is not None:
        return PublisherStep(replace(state, alarm=alarm), (alarm,))
    # A report that was on its way before the greeting does not show what a restored publisher has forgotten.
    greets = state.greets and state.greeting_due is None
    state = replace(_confirmed(state, report, tail, now, settings), greets=greets)
    if report.rereceive_count > state.columns.resend_count:
        return _honour_if_due(_requested(state, report.rereceive_count, now + settings.resend_urgency), now)
    return PublisherStep(state, (Announce(probe=False),) if report.asking else ())


def tick(state: PublisherState, *, now: datetime, settings: PublisherSettings) -> PublisherStep:
    """Let time pass: serve a request that has waited, or probe for the end of what was sent.

    The original finds a lost last message only when another one follows. Here, when confirmations do not
    come, the publisher tells the peer what was sent, and the peer sees the gap.
    """
    if state.alarm is not None:
        return PublisherStep(state)
    if state.resend is not None:
        return _honour_if_due(state, now)
    if state.greets and (state.greeting_due is None or now >= state.greeting_due):
        # A greeting, or its answer, may be lost.
        return PublisherStep(replace(state, greeting_due=now + settings.probe_after), (Announce(probe=True),))
    if not state.columns.outstanding:
        return PublisherStep(replace(state, probe_due=None))
    if state.probe_due is not None and now < state.probe_due:
        return PublisherStep(state)
    probe: tuple[Announce, ...] = () if state.probe_due is None else (Announce(probe=True),)
    return PublisherStep(replace(state, probe_due=now + settings.probe_after), probe)


def _alarm(columns: Outgoing, report: LinkReport, log_end: Offset, tail: bytes | None) -> Alarm | None:
    if report.epoch != columns.epoch:
        return alarms.epoch_mismatch(report.epoch, columns.epoch)
    let_out = max(columns.log_send, columns.log_sent)
    if report.log_received > min(log_end, let_out):
        return alarms.ahead_of_log(report.log_received, log_end, let_out)
    if tail is not None and report.chain and report.chain != tail:
        return alarms.peer_differs(report.log_received)
    # Both numbers only grow: a new count with an old offset comes from an end that went back in time.
    if report.rereceive_count > columns.resend_count and report.log_received < columns.confirm_sent:
        return alarms.regressed(report.log_received, columns.confirm_sent)
    return None


def _confirmed(
    state: PublisherState, report: LinkReport, tail: bytes | None, now: datetime, settings: PublisherSettings
) -> PublisherState:
    columns = watermark.confirm(state.columns, report.log_received, tail)
    if columns.chain is None and columns.confirm_sent == report.log_received and report.chain is not None:
        # Perhaps neither end knows how it began: then the chain begins here.
        columns = replace(columns, chain=report.chain or chain.first(columns.confirm_sent))
    if columns == state.columns:
        return state
    probe_due = now + settings.probe_after if columns.outstanding else None
    return replace(state, columns=columns, probe_due=probe_due)


def _requested(state: PublisherState, count: int, due: datetime) -> PublisherState:
    waiting = state.resend
    if waiting is not None:
        # The first request sets the time; otherwise a peer that asks often would never be served.
        count, due = max(count, waiting.resend_count), waiting.due
    return replace(state, resend=Resend(count, due))


def _honour_if_due(state: PublisherState, now: datetime) -> PublisherStep:
    if state.resend is None or now < state.resend.due:
        return PublisherStep(state)
    columns = watermark.rewind(state.columns, state.resend.resend_count)
    return PublisherStep(
        replace(state, columns=columns, resend=None, probe_due=None), (Announce(probe=False),)
    )
