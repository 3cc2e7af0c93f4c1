"""Kept results and failures: one record for each uuid. Its version is the fence of the run that stored it."""

from datetime import timedelta
from typing import NamedTuple

from history.beside.fingerprints import FINGERPRINTS
from history.entry import digest
from history.store.records import Expects, Kind, Put, Record, Records, is_done
from history.support.encryption import Cipher, decrypted

RESULTS, FAILURES = Kind("result"), Kind("failure")

#: The kinds that have the digest of a uuid as key: they are forgotten with its entry.
OF_ENTRIES = (RESULTS, FAILURES, FINGERPRINTS)


class KeptResult(NamedTuple):
    """Some bytes, and the fence of the run that stored them.

    They are the result of a completed entry only if that entry has the same fence: another run may have
    stored something and lost its entry before it completed.
    """

    fence: int
    data: bytes


class Results:
    """Keeps some bytes for each uuid of a trigger, in records of one kind. Every call may be sent twice.

    The store's ``forget`` deletes them with the entry.
    """

    def __init__(self, records: Records, cipher: Cipher | None = None, kind: Kind = RESULTS) -> None:
        self._records, self._cipher, self._kind = records, cipher, kind

    async def put(self, trigger: str, uuid: str, kept: KeptResult, time_to_live: timedelta) -> bool:
        """Replace the stored bytes with these; False, without a change, if those have a greater fence."""
        data = kept.data
        if self._cipher is not None:
            data = self._cipher.encrypt(data, about=self._about(trigger, uuid, kept.fence))
        puts = [Put(self._kind, Record(digest(uuid), data, kept.fence), Expects.NOT_NEWER, time_to_live)]
        return is_done(puts, await self._records.apply(trigger, puts))

    async def get(self, trigger: str, uuid: str) -> KeptResult | None:
        """Return the stored bytes; None if there are none, or after their time to live.

        Raises:
            DecryptionError: they cannot be decrypted.
        """
        (stored,) = await self._records.get(trigger, self._kind, [digest(uuid)])
        if stored is None:
            return None
        about = self._about(trigger, uuid, stored.version)
        return KeptResult(stored.version, decrypted(self._cipher, stored.value, about=about))

    def _about(self, trigger: str, uuid: str, fence: int) -> list[str]:
        return [self._kind.name, trigger, uuid, str(fence)]
