"""The history of a link in 16 bytes: a checksum over every transaction up to an offset, in their order.

Both ends compute it from the same work. After a restore from a backup, other work may be committed under the
same offsets. Then the chains differ from there on, whatever is sent, lost or confirmed later. The chain
travels behind the message, in the envelope, where a peer that does not know it never looks. So an end that
was upgraded first still works with the other one.
"""

from dataclasses import replace
from typing import Final

from history.store.watermark import Offset
from triggers.providers.sqlremote.protocol.packet import Packet
from triggers.providers.sqlremote.protocol.parts import DIGEST_SIZE, MangledError, checksum

#: Means that a subscriber knows of chains and does not know its own: nothing was compared so far.
NO_CHAIN: Final = b""

_SENT, _RECEIVED = 1, 2


def first(offset: Offset) -> bytes:
    """Return the chain of a publisher that begins it at an offset."""
    return checksum(b"from %d" % offset)


def roll(chain: bytes, seal: bytes) -> bytes:
    """Return the chain after one more transaction, from the checksum of its bytes."""
    return checksum(chain + seal)


def trailer_of(packet: Packet) -> bytes:
    """Write the chains of a message."""
    sent = packet.chain or NO_CHAIN
    received = NO_CHAIN if packet.report is None else packet.report.chain or NO_CHAIN
    return bytes([bool(sent) * _SENT | bool(received) * _RECEIVED]) + sent + received


def with_chains(packet: Packet, trailer: bytes) -> Packet:
    """Return a message with the chains from its trailer; unchanged without a trailer.

    Raises:
        MangledError: it is not what :func:`trailer_of` wrote.
    """
    if not trailer:
        return packet
    which, rest = trailer[0], trailer[1:]
    if which > _SENT | _RECEIVED or len(rest) != DIGEST_SIZE * which.bit_count():
        raise MangledError("the chains in its trailer cannot be read")
    sent = rest[:DIGEST_SIZE] if which & _SENT else None
    received = rest[-DIGEST_SIZE:] if which & _RECEIVED else NO_CHAIN
    report = None if packet.report is None else replace(packet.report, chain=received)
    return replace(packet, chain=sent, report=report)
