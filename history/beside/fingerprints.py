"""Fingerprints of first bodies: one record for each uuid, written once; each copy prolongs its life."""

from collections.abc import Sequence
from datetime import timedelta

from history.entry import digest
from history.store.records import Expects, Kind, Put, Record, Records

#: How many bytes a fingerprint has.
FINGERPRINT_SIZE = 8

#: In the evidence of a parked message: the entry of its uuid belongs to another body, never to its own.
NO_FENCE = 0

FINGERPRINTS = Kind("fingerprint")

#: A uuid, and the fingerprint of a body that came with it.
BodyOf = tuple[str, bytes]


class Fingerprints:
    """Keeps one fingerprint for each uuid of a trigger, in the records of a store.

    Every call may be sent twice. The store's ``forget`` deletes a fingerprint with the entry.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        """Store each fingerprint if its uuid has none yet, and return the stored fingerprints, in order.

        Each is one atomic step; if a uuid occurs twice, both are processed in order. The first fingerprint
        stays until its time to live is over. That begins again whenever the same fingerprint comes, and never
        gets shorter by this.
        """
        keys = [digest(uuid) for uuid, _ in bodies]
        firsts: dict[bytes, Record] = {}
        for key, (_, fingerprint) in zip(keys, bodies, strict=True):
            firsts.setdefault(key, Record(key, fingerprint))
        puts = [Put(FINGERPRINTS, record, Expects.FOLLOWS, time_to_live) for record in firsts.values()]
        for stored in await self._records.apply(trigger, puts, each=True):
            if stored is not None:
                firsts[stored.key] = stored
        return [firsts[key].value for key in keys]


async def first_of(
    kept: Fingerprints, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta
) -> bytes:
    """Do the same as :meth:`Fingerprints.first_of_each`, for one body."""
    (first,) = await kept.first_of_each(trigger, [(uuid, fingerprint)], time_to_live)
    return first
