"""Park a delivery that is not a message: whole, or, if no store can take that, a piece of limited size."""

import logging
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from history.store.parking import Parked, ParkedKind, raw_fields
from triggers.pipeline.parking.lot import ParkingLot
from triggers.providers.provider import Unreadable

_log = logging.getLogger(__name__)

#: A larger delivery may be too large for a store, in bytes.
LARGE = 1024 * 1024

#: How many of its fields are kept then, and how much of each, in bytes.
MOST_FIELDS, MOST_BYTES = 100, 2048


async def park_raw(lot: ParkingLot, unreadable: Unreadable, *, trigger: str, destination: str) -> bool:
    """Park a delivery that is not a message; False if nothing could, so that it must not be acknowledged."""
    for copy in _copies(unreadable):
        try:
            parked = Parked(
                id=_id(unreadable, trigger, destination),
                trigger_name=trigger,
                kind=ParkedKind.UNREADABLE,
                reason=unreadable.problem,
                destination=destination,
                raw=raw_fields(dict(copy)),
            )
        except MemoryError as error:
            _log.warning("an unreadable delivery is too large: %r", error, extra={"trigger": trigger})
            continue
        if await lot.park([parked]):
            return True
    return False


def _copies(unreadable: Unreadable) -> Iterator[Mapping[bytes, bytes]]:
    fields = unreadable.fields
    yield fields
    if sum(len(name) + len(value) for name, value in fields.items()) > LARGE:
        yield {_piece(name): _piece(value) for name, value in list(fields.items())[:MOST_FIELDS]}


def _piece(value: bytes) -> bytes:
    """Return the beginning of a long value, and what distinguishes it from others."""
    if len(value) <= MOST_BYTES:
        return value
    digest = blake2b(value, digest_size=16).hexdigest()
    return b"%s ... (%d bytes in all, blake2b %s)" % (value[:MOST_BYTES], len(value), digest.encode())


def _id(unreadable: Unreadable, trigger: str, destination: str) -> str:
    """Return the id of the copy: the same for each redelivery, and different for any other delivery."""
    digest = blake2b(digest_size=12)
    for word in (trigger, "unreadable", destination):
        _add(digest, word.encode("utf-8", "surrogatepass"))
    if unreadable.delivery_id is not None:
        _add(digest, unreadable.delivery_id.encode("utf-8", "surrogatepass"))
    else:
        for name, value in sorted(unreadable.fields.items()):
            _add(digest, name)
            _add(digest, value)
    return digest.hexdigest()


def _add(digest: blake2b, part: bytes) -> None:
    digest.update(b"%d:" % len(part))
    digest.update(part)
