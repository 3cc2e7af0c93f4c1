"""The receiving end of a link: the events, the next state, and the actions.

Pure: the time (aware UTC) and the messages are handed in. The runner, at each poll,

1. calls :func:`receive` for each message in the inbox, or :func:`garbled` for one that cannot be read;
2. calls :func:`advance` after each. For an :class:`Apply` it runs the transactions and stores ``columns`` in
   ONE database transaction, calls :func:`applied`, and advances again, until there is nothing to apply;
3. calls :func:`polled` at the end;
4. stores ``columns`` whenever they changed, before it carries out a :class:`DeleteMessages` or
   :class:`~triggers.providers.sqlremote.protocol.inbox.SendReport`.

All but ``columns`` may be lost: a message is deleted from the inbox only once it is applied or not wanted,
and so is read again. ``verdicts.py`` judges messages, ``patience.py`` says when to ask again.
"""

from dataclasses import replace
from datetime import datetime

from history.store import watermark
from history.store.watermark import ORIGIN, Incoming, Offset
from triggers.providers.sqlremote.protocol import alarms
from triggers.providers.sqlremote.protocol.chain import roll
from triggers.providers.sqlremote.protocol.header import PacketKind
from triggers.providers.sqlremote.protocol.inbox import (
    Action,
    Apply,
    DeleteMessages,
    Held,
    SendReport,
    SubscriberSettings,
    SubscriberState,
    SubscriberStep,
)
from triggers.providers.sqlremote.protocol.packet import LinkReport, Packet
from triggers.providers.sqlremote.protocol.parts import DIGEST_SIZE, MangledError, Transaction, checksum, join
from triggers.providers.sqlremote.protocol.patience import dropped, loses_patience, losses, tired, watched
from triggers.providers.sqlremote.protocol.verdicts import Verdict, classify, contiguous


def opened(columns: Incoming) -> SubscriberState:
    """Begin a run with the stored columns.

    Whether a request was answered is not stored, so an open one is repeated.
    """
    return SubscriberState(columns=columns, asking=columns.rereceive_count > 0)


def garbled(state: SubscriberState, handle: str) -> SubscriberStep:
    """Discard an unreadable message: it counts as never arrived."""
    return _thrown_away(state, handle, Verdict.GARBLED)


def receive(
    state: SubscriberState, packet: Packet, handle: str, *, now: datetime, settings: SubscriberSettings
) -> SubscriberStep:
    """Judge one message, and keep or discard it; ``handle`` is the carrier's name for it.

    A message of an earlier epoch is late, and discarded; a message of a later epoch stops the link. A probe
    of an earlier epoch gets an answer: its sender may have been restored, and then learns of the later epoch.
    """
    if state.alarm is not None:
        return SubscriberStep(state, (), Verdict.HALTED)
    if packet.epoch < state.columns.epoch:
        asked = replace(state, report_due=state.report_due or packet.probe)
        return _thrown_away(asked, handle, Verdict.RETIRED)
    if packet.epoch > state.columns.epoch:
        alarm = alarms.epoch_mismatch(packet.epoch, state.columns.epoch)
        return SubscriberStep(replace(state, alarm=alarm), (alarm,), Verdict.HALTED)
    if packet.header.resend_count < state.columns.rereceive_count:
        return _thrown_away(state, handle, Verdict.STALE)
    if differs(packet, state.columns):
        return _halted(state)
    state, purged = _adopted(state, packet.header.resend_count)
    take = _controlled if packet.is_control else _judged
    taken = take(state, packet, handle, now=now, settings=settings)
    return taken._replace(actions=(*purged, *taken.actions))


def advance(state: SubscriberState, *, now: datetime, settings: SubscriberSettings) -> SubscriberStep:
    """Find what may be applied next: one :class:`Apply`, or a :class:`DeleteMessages` for mangled parts."""
    if state.alarm is not None:
        return SubscriberStep(state)
    received = state.columns.log_received
    for header, cached in state.cache.items():
        verdict = classify(cached.packet, received)
        if verdict.keeps and differs(cached.packet, state.columns):
            return _halted(state)
        if verdict in {Verdict.READY, Verdict.OVERLAP}:
            return SubscriberStep(state, (_apply(state, cached.packet, settings),))
        if verdict is Verdict.STAGED and header.kind is PacketKind.LAST:
            run = contiguous(state.cache, header)
            if run is not None:
                return _assembled(state, [state.cache[header].packet for header in run], now, settings)
    return SubscriberStep(state)


def applied(
    state: SubscriberState, done: Apply, *, now: datetime, settings: SubscriberSettings
) -> SubscriberStep:
    """Note that the database committed an :class:`Apply`; used messages may be deleted."""
    state = replace(state, columns=done.columns)
    used = [header for header, cached in state.cache.items() if not classify(cached.packet, done.after).keeps]
    state, actions = dropped(state, used)
    return SubscriberStep(watched(state, now, settings, new=False), actions)


def polled(
    state: SubscriberState,
    *,
    now: datetime,
    settings: SubscriberSettings,
    horizon: Offset | None = None,
    final: bool = False,
) -> SubscriberStep:
    """End one reading of the inbox: lose patience, ask again, report.

    ``horizon`` is the offset of the peer up to which work applied here is backed up; None means all of it.
    ``final`` says that no poll follows (batch mode): missing messages are requested immediately.
    """
    if state.alarm is not None:
        return SubscriberStep(state)
    state = tired(state)
    actions: tuple[Action, ...] = ()
    if loses_patience(state, now, settings, final=final):
        state, actions = losses(state)
    state = replace(state, fresh=False)
    repeat = state.asking and (state.repeat_due is None or now >= state.repeat_due)
    confirmable = report_of(state, horizon).log_received > (state.columns.confirm_received or ORIGIN)
    if not (state.report_due or repeat or confirmable):
        return SubscriberStep(state, actions)
    report = report_of(state, horizon)
    return SubscriberStep(reported(state, report, now=now, settings=settings), (*actions, SendReport(report)))


def report_of(state: SubscriberState, horizon: Offset | None = None) -> LinkReport:
    """Return the report about this direction now; with a ``horizon``, only about backed-up work."""
    columns = state.columns
    confirmed = columns.log_received if horizon is None else min(columns.log_received, horizon)
    confirmed = max(confirmed, columns.confirm_received or ORIGIN)
    is_current = columns.chain is not None and confirmed == columns.log_received
    chain = columns.chain if is_current else None
    return LinkReport(columns.epoch, confirmed, columns.rereceive_count, state.asking, chain)


def reported(
    state: SubscriberState, report: LinkReport, *, now: datetime, settings: SubscriberSettings
) -> SubscriberState:
    """Note that a report goes out. ``columns`` must be stored before that."""
    return replace(
        state,
        columns=watermark.note_confirmed(state.columns, report.log_received),
        report_due=False,
        repeat_due=now + settings.repeat_after if state.asking else None,
    )


def next_poll(finished: datetime, settings: SubscriberSettings) -> datetime:
    """Return when the next poll begins, after a poll that ended at ``finished``."""
    return finished + settings.poll


def _thrown_away(state: SubscriberState, handle: str, verdict: Verdict) -> SubscriberStep:
    tally = state.tally.counting(verdict)
    # A stale message may mean that a request was lost, and a duplicate that a confirmation was lost.
    due = state.report_due or verdict in {Verdict.STALE, Verdict.DUPLICATE}
    return SubscriberStep(replace(state, tally=tally, report_due=due), (DeleteMessages((handle,)),), verdict)


def _adopted(state: SubscriberState, resend_count: int) -> tuple[SubscriberState, tuple[Action, ...]]:
    """Adopt the publisher's count, which also answers a request, and purge messages that are stale by it."""
    state = replace(state, asking=False, columns=watermark.adopt_count(state.columns, resend_count))
    return dropped(state, [header for header in state.cache if header.resend_count < resend_count])


def _controlled(
    state: SubscriberState, packet: Packet, handle: str, *, now: datetime, settings: SubscriberSettings
) -> SubscriberStep:
    """Process a control message: what the publisher has sent shows whether its end is missing."""
    announced = max(state.announced, packet.header.last_offset)
    state = replace(state, announced=announced, report_due=state.report_due or packet.probe)
    return SubscriberStep(
        watched(state, now, settings, new=False), (DeleteMessages((handle,)),), Verdict.CONTROL
    )


def _judged(
    state: SubscriberState, packet: Packet, handle: str, *, now: datetime, settings: SubscriberSettings
) -> SubscriberStep:
    """Process a message with work that is neither stale nor of another epoch."""
    cached = state.cache.get(packet.header)
    if cached is not None and cached.handle == handle:
        return SubscriberStep(state, (), Verdict.HELD)
    verdict = Verdict.DUPLICATE if cached is not None else classify(packet, state.columns.log_received)
    if verdict is Verdict.EARLY and len(state.cache) >= settings.max_gap_messages:
        verdict = Verdict.OVERFLOW
    if not verdict.keeps:
        return _thrown_away(state, handle, verdict)
    kept = replace(
        state,
        cache={**state.cache, packet.header: Held(packet, handle)},
        columns=replace(state.columns, time_received=now),
    )
    return SubscriberStep(watched(kept, now, settings, new=True), (), verdict)


def _apply(state: SubscriberState, packet: Packet, settings: SubscriberSettings) -> Apply:
    """Apply the work of a message, except what was applied already."""
    received = state.columns.log_received
    new = [Transaction(*record) for record in packet.records if record.offset > received][: settings.group]
    return _applying(state, new, packet, others=0)


def _assembled(
    state: SubscriberState, run: list[Packet], now: datetime, settings: SubscriberSettings
) -> SubscriberStep:
    """Apply a transaction with all its parts here; if the parts do not fit, discard and miss them."""
    offset = run[-1].records[0].offset
    try:
        data = join([packet.records[0].data for packet in run if packet.records[0].offset == offset])
    except MangledError:
        state, actions = dropped(state, [packet.header for packet in run])
        announced = max(state.announced, offset)
        state = replace(state, announced=announced, tally=state.tally.counting(Verdict.GARBLED))
        return SubscriberStep(watched(state, now, settings, new=False), actions)
    whole = [Transaction(offset, data), *(Transaction(*record) for record in run[-1].records[1:])]
    return SubscriberStep(state, (_applying(state, whole[: settings.group], run[-1], others=len(run) - 1),))


def _applying(state: SubscriberState, new: list[Transaction], packet: Packet, *, others: int) -> Apply:
    """Apply transactions; if the beginning of the history is unknown, learn it from what follows next."""
    after, columns = new[-1].offset, state.columns
    messages = others + (after == packet.header.last_offset)
    begin = columns.chain
    if begin is None and packet.header.previous_offset == columns.log_received:
        begin = packet.chain
    chain = begin
    for transaction in new:
        chain = None if chain is None else roll(chain, checksum(transaction.data))
    noted = watermark.note_applied(columns, after, messages=messages, chain=chain)
    return Apply(tuple(new), noted, begin)


def differs(packet: Packet, columns: Incoming) -> bool:
    """Whether a message follows another history than what was applied here, as far as it can be seen.

    The message names the chain up to its previous offset. If that lies before ``log_received``, its work
    leads the chain there. The work ends with the checksum of a cut transaction, unless that was cut too.
    """
    received, mine = columns.log_received, columns.chain
    previous, theirs = packet.header.previous_offset, packet.chain
    if mine is None or theirs is None or previous > received:
        return False
    if previous == received:
        return theirs != mine
    if packet.is_control or packet.header.kind in {PacketKind.FIRST, PacketKind.MIDDLE}:
        return False
    is_cut = packet.header.kind is PacketKind.LAST
    seals = [
        (record.offset, record.data[-DIGEST_SIZE:] if is_cut and index == 0 else checksum(record.data))
        for index, record in enumerate(packet.records)
        if record.offset <= received
    ]
    if any(len(seal) < DIGEST_SIZE for _, seal in seals):
        return False
    for _, seal in seals:
        theirs = roll(theirs, seal)
    reached = seals[-1][0] if seals else previous
    # The message goes beyond the offset that was applied last here, and has no commit there.
    return theirs != mine if reached == received else packet.header.last_offset > received


def _halted(state: SubscriberState) -> SubscriberStep:
    alarm = alarms.log_differs(state.columns.log_received)
    return SubscriberStep(replace(state, alarm=alarm), (alarm,), Verdict.HALTED)
