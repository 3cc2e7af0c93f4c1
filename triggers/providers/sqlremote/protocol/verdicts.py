"""The rules by which a subscriber judges each message, in their order.

L is ``log_received``, R is ``rereceive_count``, and a header is (r, p, c, s).

====  ======================================================================  =========
rule  test                                                                    verdict
====  ======================================================================  =========
1     too long, wrong checksum, malformed                                     GARBLED
2     r < R                                                                   STALE
3     r > R: R becomes r, older messages are purged, and the rules go on
4     first or middle part: p < L; otherwise: c <= L                          DUPLICATE
5     whole, p = L                                                            READY
6     whole or last part, p < L < c                                           OVERLAP
7     part, p = L                                                             STAGED
8     p > L                                                                   EARLY
====  ======================================================================  =========

A first or middle part correctly has c = L, so the test of whole messages would discard it. Offsets alone give
order and exactly-once as long as cuts are stable; r keeps parts of different cuts from being mixed.
"""

from collections.abc import Collection, Container, Sequence
from enum import Enum

from history.store.watermark import Offset
from triggers.providers.sqlremote.protocol.header import Header, PacketKind
from triggers.providers.sqlremote.protocol.packet import Packet


class Verdict(Enum):
    """The result of judging a message."""

    GARBLED = "not as it was sent: discarded, as if it never arrived"
    RETIRED = "of an earlier epoch: discarded"
    HALTED = "not read: the link is stopped"
    STALE = "sent before its loss was reported: discarded"
    CONTROL = "no work: what its sender has sent"
    HELD = "read again while it waits"
    DUPLICATE = "applied already, or waits under another name: discarded"
    READY = "next"
    OVERLAP = "next, but for the transactions that were applied already"
    STAGED = "part of the next transaction"
    EARLY = "beyond a gap"
    OVERFLOW = "beyond a gap with enough messages behind it: discarded, to be sent again"

    @property
    def keeps(self) -> bool:
        """Whether the message is kept until it is applied."""
        return self in {Verdict.READY, Verdict.OVERLAP, Verdict.STAGED, Verdict.EARLY}


def classify(packet: Packet, received: Offset) -> Verdict:
    """Judge a message with work by rules 4 to 8."""
    header = packet.header
    if is_used_up(header, received):
        return Verdict.DUPLICATE
    if header.previous_offset > received:
        return Verdict.EARLY
    if header.previous_offset == received:
        return Verdict.STAGED if header.is_part else Verdict.READY
    if header.kind is PacketKind.LAST and packet.records[0].offset > received:
        # A transaction cannot have a commit between its start and its end, so the header is wrong.
        return Verdict.GARBLED
    return Verdict.OVERLAP


def is_used_up(header: Header, received: Offset) -> bool:
    """Whether everything in a message was applied: rule 4."""
    if header.kind in {PacketKind.FIRST, PacketKind.MIDDLE}:
        return header.previous_offset < received
    return header.last_offset <= received


def has_hole(cache: Collection[Header], received: Offset) -> bool:
    """Whether something is missing before a waiting message."""
    if any(header.previous_offset > received for header in cache):
        return True
    parts = {header.sequence for header in cache if header.is_part and header.previous_offset == received}
    return len(parts) != max(parts, default=-1) + 1


def contiguous(cache: Container[Header], last: Header) -> Sequence[Header] | None:
    """Return the headers of all parts up to the last one, in order; None while one is missing."""
    count, previous = last.resend_count, last.previous_offset
    run = [Header(count, previous, previous, sequence) for sequence in range(last.sequence)]
    return [*run, last] if all(header in cache for header in run) else None
