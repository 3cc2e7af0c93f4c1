"""Transactions cut into messages of a limited size, and put together again.

A transaction that fits travels whole, together with as many of its successors as fit. A larger one gets its
checksum at its end and is cut into parts of equal size. The cut depends only on the bytes of the transaction
and the size, so parts of two sendings fit together. After a change of the size the resend count is raised.

A record is an offset of 8 bytes, a length of 4 and the bytes. Every part names the COMMIT of its transaction,
although the header of a part does not: parts of different transactions cannot be confused.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from history.store.watermark import MAX_OFFSET, Offset

#: Bytes of a checksum.
DIGEST_SIZE: Final = 16

_PREFIX = struct.Struct(">QI")


class MangledError(ValueError):
    """The bytes are not the ones that were sent; they count as never arrived."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One committed transaction: the offset of its COMMIT and its operations, as bytes."""

    offset: Offset
    data: bytes


class PacketRecord(NamedTuple):
    """A transaction or a part of one, inside a message; ``offset`` belongs to its COMMIT."""

    offset: Offset
    data: bytes


class Draft(NamedTuple):
    """The contents of a future message, before it has a resend count."""

    previous_offset: Offset
    last_offset: Offset
    sequence: int
    records: tuple[PacketRecord, ...]


def checksum(data: bytes) -> bytes:
    """Return the checksum of a transaction or of a message."""
    return blake2b(data, digest_size=DIGEST_SIZE).digest()


def cut(previous: Offset, transactions: Iterable[Transaction], capacity: int) -> Iterator[Draft]:
    """Cut transactions, in the order of their offsets, into messages with ``capacity`` bytes for records.

    ``previous`` is the last COMMIT of the previous message. Lazy: one message's worth is held at a time.
    """
    group: list[PacketRecord] = []
    free = capacity
    for transaction in transactions:
        need = _PREFIX.size + len(transaction.data)
        if group and need > free:
            yield _whole(previous, group)
            previous, group, free = group[-1].offset, [], capacity
        if need > capacity:
            yield from _parts(previous, transaction, capacity)
            previous = transaction.offset
            continue
        group.append(PacketRecord(transaction.offset, transaction.data))
        free -= need
    if group:
        yield _whole(previous, group)


def split(data: bytes, room: int) -> tuple[bytes, ...]:
    """Cut a transaction, with its checksum behind it, into parts of ``room`` bytes, the last maybe less."""
    sealed = data + checksum(data)
    return tuple(sealed[start : start + room] for start in range(0, len(sealed), room))


def join(parts: Sequence[bytes]) -> bytes:
    """Put together what :func:`split` cut.

    Raises:
        MangledError: the checksum differs: a part is missing, or comes from another cut.
    """
    sealed = b"".join(parts)
    data, seal = sealed[:-DIGEST_SIZE], sealed[-DIGEST_SIZE:]
    if checksum(data) != seal:
        raise MangledError("the parts do not make up one transaction")
    return data


def pack(records: Iterable[PacketRecord]) -> bytes:
    """Write records one behind the other."""
    return b"".join(_PREFIX.pack(offset, len(data)) + data for offset, data in records)


def unpack(body: bytes) -> tuple[PacketRecord, ...]:
    """Read what :func:`pack` wrote.

    Raises:
        MangledError: it does not end with a record, or an offset is too great.
    """
    records: list[PacketRecord] = []
    start = 0
    while start < len(body):
        if start + _PREFIX.size > len(body):
            raise MangledError("a record is cut off")
        offset, length = _PREFIX.unpack_from(body, start)
        start += _PREFIX.size + length
        if start > len(body) or offset > MAX_OFFSET:
            raise MangledError("a record is cut off, or its offset is too great")
        records.append(PacketRecord(Offset(offset), body[start - length : start]))
    return tuple(records)


def _whole(previous: Offset, group: Sequence[PacketRecord]) -> Draft:
    return Draft(previous, group[-1].offset, 0, tuple(group))


def _parts(previous: Offset, transaction: Transaction, capacity: int) -> Iterator[Draft]:
    # The checksum makes at least two parts: a transaction that needs no cut does not get here.
    parts = split(transaction.data, capacity - _PREFIX.size)
    for sequence, part in enumerate(parts):
        last = transaction.offset if sequence == len(parts) - 1 else previous
        yield Draft(previous, last, sequence, (PacketRecord(transaction.offset, part),))
