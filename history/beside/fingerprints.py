"""Fingerprints of first bodies: one record for each uuid, written once; each copy prolongs its life."""

from collections.abc import Sequence
from datetime import timedelta

from history.entry import digest
from history.store.fingerprints import BodyOf
from history.store.records import Expects, Kind, Put, Record, Records

FINGERPRINTS = Kind("fingerprint")


class RecordedFingerprints:
    """Fingerprints in the records of a store; as safe as the records, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        """Store each fingerprint if its uuid has none yet, and return the stored fingerprints."""
        keys = [digest(uuid) for uuid, _ in bodies]
        firsts: dict[bytes, Record] = {}
        for key, (_, fingerprint) in zip(keys, bodies, strict=True):
            firsts.setdefault(key, Record(key, fingerprint))
        puts = [Put(FINGERPRINTS, record, Expects.FOLLOWS, time_to_live) for record in firsts.values()]
        for stored in await self._records.apply(trigger, puts, each=True):
            if stored is not None:
                firsts[stored.key] = stored
        return [firsts[key].value for key in keys]
