"""The memory of an ordered link for each direction: the columns of ``sysremoteuser``, and their legal moves.

A publisher numbers its commits, so one offset for each peer says forever what that peer has: single messages
need no memory. A link has two directions, and each end keeps one row with two halves: :class:`Outgoing` holds
offsets of the local log, :class:`Incoming` offsets of the peer's log.

The functions are pure. Each returns the row to store; its docstring says what must be stored when. Source:
SQL Anywhere's guaranteed message delivery. Two columns are ours. ``epoch``, because four numbers in a header
cannot show that a publisher was restored and commits other work under old offsets. ``message_size``, because
a transaction that is cut in another way must not be mixed with its earlier parts. ``peer`` corresponds to
``user_id``; a peer's address, message type and schedule are settings of the link.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NewType

#: A place in a transaction log: the place of a COMMIT. It grows in the order of commits, and starts above 0.
Offset = NewType("Offset", int)

#: One incarnation of a transaction log. Epochs compare as text: a later one sorts after an earlier one.
Epoch = NewType("Epoch", str)

#: The offset before every commit.
ORIGIN = Offset(0)

#: The greatest offset that the columns hold: a signed 64-bit integer in SQLite and PostgreSQL.
MAX_OFFSET = Offset(2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """The publisher's half: how far a peer was served. Offsets are of the local log; counts are of messages.

    ``log_send`` is only a gate, and may be less than ``log_sent``. ``message_size`` is in bytes, and None
    until something was sent. ``resend_count`` is how often the peer reported a loss, and is in every header.
    ``chain`` is a checksum of all work up to ``confirm_sent``, None while it is unknown.
    """

    epoch: Epoch
    log_send: Offset = ORIGIN
    log_sent: Offset = ORIGIN
    confirm_sent: Offset = ORIGIN
    send_count: int = 0
    resend_count: int = 0
    time_sent: datetime | None = None
    message_size: int | None = None
    chain: bytes | None = None

    @property
    def outstanding(self) -> bool:
        """Whether something was sent that the peer has not confirmed."""
        return self.confirm_sent < self.log_sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """The subscriber's half: how much of the peer's log was applied here. Offsets are of the peer's log.

    ``log_received`` is stored in the transaction of the work it counts. ``confirm_received`` is None until
    something was confirmed. ``receive_count`` counts applied messages, not discarded ones.
    ``rereceive_count`` is how often messages were declared lost. ``chain`` is a checksum of all work up to
    ``log_received``, None while it is unknown.
    """

    epoch: Epoch
    log_received: Offset = ORIGIN
    confirm_received: Offset | None = None
    receive_count: int = 0
    rereceive_count: int = 0
    time_received: datetime | None = None
    chain: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """One row: the whole memory of one end of a link about ``peer``, however much they exchanged."""

    peer: str
    outgoing: Outgoing
    incoming: Incoming


def new_epoch(now: datetime, token: str) -> Epoch:
    """Return the epoch of a log that begins, or begins again, at ``now`` (aware UTC).

    ``token`` distinguishes two that begin in the same microsecond; letters and digits, at most 20.
    """
    return Epoch(f"{now:%Y%m%dT%H%M%S%f}-{token}")


def let_send(row: Outgoing, log_end: Offset) -> Outgoing:
    """Open the gate: the schedule allows what is committed (or only backed up) up to ``log_end``."""
    return replace(row, log_send=max(row.log_send, log_end))


def note_sent(row: Outgoing, previous: Offset, last: Offset, *, size: int, now: datetime) -> Outgoing:
    """Count a message that the carrier took.

    ``log_sent`` moves on only for a message that follows it. A message that was built before the peer asked
    for a resend may still go out, and must not undo the reset.
    """
    log_sent = last if previous == row.log_sent else row.log_sent
    return replace(row, log_sent=log_sent, send_count=row.send_count + 1, time_sent=now, message_size=size)


def confirm(row: Outgoing, offset: Offset, chain: bytes | None = None) -> Outgoing:
    """Take a confirmation. It is cumulative: a late or repeated one changes nothing.

    A confirmation may come after a reset pulled ``log_sent`` back, and raises it: confirmed work is not sent
    again. ``chain`` is that of the local log up to the offset.
    """
    if offset <= row.confirm_sent:
        return row
    return replace(row, confirm_sent=offset, log_sent=max(row.log_sent, offset), chain=chain)


def rewind(row: Outgoing, resend_count: int) -> Outgoing:
    """Send everything unconfirmed again, under ``resend_count``. Store it before anything is sent."""
    return replace(row, resend_count=resend_count, log_sent=row.confirm_sent)


def reset_outgoing(row: Outgoing, log_end: Offset, epoch: Epoch) -> Outgoing:
    """Start again at the end of the log, as REMOTE RESET does. It takes effect with the caller's commit.

    The original does not define the counters then. Here a reset begins an epoch, and they begin at 0.
    """
    return replace(
        row,
        epoch=epoch,
        log_send=log_end,
        log_sent=log_end,
        confirm_sent=log_end,
        send_count=0,
        resend_count=0,
        chain=None,
    )


def reset_incoming(row: Incoming, log_received: Offset, epoch: Epoch) -> Incoming:
    """Start again from an extract that holds the peer's work up to ``log_received``, and its epoch."""
    return replace(
        row,
        epoch=epoch,
        log_received=log_received,
        confirm_received=log_received,
        receive_count=0,
        rereceive_count=0,
        chain=None,
    )


def note_applied(row: Incoming, offset: Offset, *, messages: int, chain: bytes | None = None) -> Incoming:
    """Count applied work. Store it in the same transaction that applies the work."""
    count = row.receive_count + messages
    return replace(row, log_received=offset, receive_count=count, chain=chain)


def count_loss(row: Incoming) -> Incoming:
    """Declare messages lost. Store it before the request goes out: the count must never go back."""
    return replace(row, rereceive_count=row.rereceive_count + 1)


def adopt_count(row: Incoming, resend_count: int) -> Incoming:
    """Adopt the publisher's count if it is greater."""
    return replace(row, rereceive_count=max(row.rereceive_count, resend_count))


def note_confirmed(row: Incoming, offset: Offset) -> Incoming:
    """Note that a confirmation of ``offset`` goes out."""
    return replace(row, confirm_received=max(offset, row.confirm_received or ORIGIN))


def broken_rules(outgoing: Outgoing, incoming: Incoming, *, log_end: Offset) -> tuple[str, ...]:
    """Return what is wrong with the two halves of one row; nothing, unless somebody edited it by hand."""
    counts = (outgoing.send_count, outgoing.resend_count, incoming.receive_count, incoming.rereceive_count)
    rules = {
        "confirm_sent <= log_sent": outgoing.confirm_sent <= outgoing.log_sent,
        "log_sent <= end of log": outgoing.log_sent <= log_end,
        "log_send <= end of log": outgoing.log_send <= log_end,
        "confirm_received <= log_received": (incoming.confirm_received or ORIGIN) <= incoming.log_received,
        "counts are not negative": min(counts) >= 0,
    }
    return tuple(rule for rule, holds in rules.items() if not holds)
