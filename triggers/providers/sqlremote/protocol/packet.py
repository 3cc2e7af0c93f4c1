"""A message of a link as bytes: one line of text, the records, a checksum of all.

The original does not define control traffic at the level of headers. Here every message of either kind may
carry a :class:`LinkReport` about the other direction, which is both the confirmation and the resend request.
Apart from that, a control message only says how far its sender has sent, as the header
``(resend_count-log_sent-log_sent-0)``. Control messages take no offset and no sequence number.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from history.errors import ConfigurationError
from history.store.watermark import MAX_OFFSET, Epoch, Offset
from triggers.providers.sqlremote.protocol.header import MAX_COUNT, Header, HeaderError, PacketKind
from triggers.providers.sqlremote.protocol.parts import (
    DIGEST_SIZE,
    MangledError,
    PacketRecord,
    checksum,
    pack,
    unpack,
)

#: Bytes of a message at most, all included.
DEFAULT_MESSAGE_SIZE: Final = 50_000

#: Bytes of a message that are not records, at most; fixed, so that a cut does not depend on counters.
ENVELOPE_SIZE: Final = 320

#: Below this the envelope would be most of the message.
MIN_MESSAGE_SIZE: Final = 512

#: The column of ``sysremoteuser`` holds no larger one, and a message is built in memory.
MAX_MESSAGE_SIZE: Final = 2**31 - 1

_MARK: Final = "doubtless-link-1"
_EPOCH = re.compile(r"[0-9A-Za-z._-]{1,48}")
_ABSENT: Final = "none"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class LinkReport:
    """The report of a subscriber about the other direction, in every message that it sends.

    ``log_received`` confirms the publisher's log up to there. If ``rereceive_count`` is greater than the
    publisher's ``resend_count``, it asks for everything after. Both only grow, so repeating it is harmless.
    With ``asking``, nothing arrived since messages were declared lost. ``chain`` covers all work up to
    ``log_received`` (see :mod:`chain`), None if it is not known. In a received report it is empty if the peer
    does not know it yet, and None if the peer knows nothing of chains.
    """

    epoch: Epoch
    log_received: Offset
    rereceive_count: int
    asking: bool = False
    chain: bytes | None = None


@dataclass(frozen=True, slots=True)
class Packet:
    """One message of a link.

    ``epoch`` is that of the sender's log. Without records it is a control message, with a header that says
    how far its sender has sent; ``probe`` asks for a report. ``chain`` covers all work up to the header's
    previous offset, None if the sender does not tell.
    """

    header: Header
    epoch: Epoch
    records: tuple[PacketRecord, ...] = ()
    report: LinkReport | None = None
    probe: bool = False
    chain: bytes | None = None

    @property
    def is_control(self) -> bool:
        """Whether the message carries no work."""
        return not self.records


def capacity(message_size: int) -> int:
    """Return how many bytes of records fit into a message of ``message_size`` bytes.

    Raises:
        ConfigurationError: none fit, or the size is too large to store.
    """
    if message_size > MAX_MESSAGE_SIZE:
        problem = f"{message_size} bytes are too many"
        raise ConfigurationError("message_size", problem, f"give at most {MAX_MESSAGE_SIZE}")
    if message_size < MIN_MESSAGE_SIZE:
        problem = f"{message_size} bytes leave no room for work"
        raise ConfigurationError("message_size", problem, f"give at least {MIN_MESSAGE_SIZE}")
    return message_size - ENVELOPE_SIZE


def encode(packet: Packet) -> bytes:
    """Write a message."""
    purpose = "data" if packet.records else "probe" if packet.probe else "control"
    report = packet.report
    about = (
        (_ABSENT,)
        if report is None
        else (report.epoch, str(report.log_received), str(report.rereceive_count), str(int(report.asking)))
    )
    line = " ".join((_MARK, purpose, str(packet.header), packet.epoch, *about))
    sealed = line.encode("ascii") + b"\n" + pack(packet.records)
    return sealed + checksum(sealed)


def decode(data: bytes, limit: int = DEFAULT_MESSAGE_SIZE) -> Packet:
    """Read a message of at most ``limit`` bytes; the size must be the same at both ends.

    Raises:
        MangledError: it is longer, or not as it was sent. It counts as never arrived.
    """
    if len(data) > limit:
        raise MangledError(f"{len(data)} bytes are more than message_size={limit}; give both ends the same")
    sealed, seal = data[:-DIGEST_SIZE], data[-DIGEST_SIZE:]
    if checksum(sealed) != seal:
        raise MangledError("the checksum does not match")
    line, newline, body = sealed.partition(b"\n")
    if not newline:
        raise MangledError("the line of text is missing")
    return _checked(_read(line, unpack(body)))


def _read(line: bytes, records: tuple[PacketRecord, ...]) -> Packet:
    try:
        mark, purpose, header, epoch, *about = line.decode("ascii").split(" ")
        parsed = Header.parse(header)
    except (HeaderError, ValueError) as error:
        raise MangledError("the line of text does not belong to a message") from error
    if mark != _MARK or purpose not in {"data", "probe", "control"} or (purpose == "data") != bool(records):
        raise MangledError("the kind of the message is unknown here")
    return Packet(parsed, _epoch(epoch), records, _report(about), probe=purpose == "probe")


def _report(about: list[str]) -> LinkReport | None:
    match about:
        case ["none"]:
            return None
        case [epoch, log_received, rereceive_count, "0" | "1" as asking]:
            offset = _number(log_received, MAX_OFFSET)
            count = _number(rereceive_count, MAX_COUNT)
            return LinkReport(_epoch(epoch), Offset(offset), count, asking == "1")
        case _:
            raise MangledError("the report about the other direction cannot be read")


def is_epoch(text: str) -> bool:
    """Whether a message can carry a text as an epoch: 1 to 48 ASCII letters, digits, dots, ``_`` or ``-``."""
    return _EPOCH.fullmatch(text) is not None


def _epoch(text: str) -> Epoch:
    if not is_epoch(text):
        raise MangledError("the epoch is missing")
    return Epoch(text)


def _number(text: str, most: int) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > most:
        raise MangledError("a number is missing")
    return int(text)


def _checked(packet: Packet) -> Packet:
    """Check the records against the header.

    Raises:
        MangledError: they contradict each other.
    """
    header, offsets = packet.header, [record.offset for record in packet.records]
    if packet.is_control:
        fits = header.kind is PacketKind.FIRST
    elif header.kind in {PacketKind.FIRST, PacketKind.MIDDLE}:
        fits = len(offsets) == 1 and offsets[0] > header.previous_offset
    else:
        ascending = all(first < other for first, other in pairwise(offsets))
        fits = ascending and offsets[0] > header.previous_offset and offsets[-1] == header.last_offset
    if not fits:
        raise MangledError("the records do not match the header")
    return packet
