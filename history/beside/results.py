"""Kept results: one record for each uuid. Its version is the fence of the run that stored it."""

from datetime import timedelta

from history.beside.fingerprints import FINGERPRINTS
from history.entry import digest
from history.store.records import Expects, Kind, Put, Record, Records, is_done
from history.store.results import KeptResult
from history.store.sealing import opened_result, sealed_result
from history.support.encryption import Cipher

RESULTS = Kind("result")

#: The kinds that have the digest of a uuid as key: they are forgotten with its entry.
OF_ENTRIES = (RESULTS, FINGERPRINTS)


class RecordedResults:
    """Results in the records of a store; as safe as the records, and shared in the same way."""

    def __init__(self, records: Records, cipher: Cipher | None = None) -> None:
        self._records, self._cipher = records, cipher

    async def put(self, trigger: str, uuid: str, kept: KeptResult, time_to_live: timedelta) -> bool:
        """Replace the stored result."""
        sealed = sealed_result(trigger, uuid, kept, self._cipher)
        record = Record(digest(uuid), sealed.data, sealed.fence)
        puts = [Put(RESULTS, record, Expects.NOT_NEWER, time_to_live)]
        return is_done(puts, await self._records.apply(trigger, puts))

    async def get(self, trigger: str, uuid: str) -> KeptResult | None:
        """Return the stored result."""
        (stored,) = await self._records.get(trigger, RESULTS, [digest(uuid)])
        if stored is None:
            return None
        return opened_result(trigger, uuid, KeptResult(stored.version, stored.value), self._cipher)
