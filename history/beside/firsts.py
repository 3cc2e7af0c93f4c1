"""The first messages of activations: one record for each activation, until its time-out."""

from datetime import timedelta
from uuid import uuid4

from history.entry import digest
from history.store.records import Expects, Kind, Put, Record, Records

#: The key is the digest of the activation. The value is the digest of the uuid, and a random token: without
#: the token, a repeat by the first message would begin its time-out again.
FIRSTS = Kind("first")


class Firsts:
    """First messages in the records of a store; as safe as the records, and shared in the same way."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def first(self, trigger: str, activation: str, uuid: str, *, time_out: timedelta | None) -> bool:
        """Return whether this message is the first of its activation."""
        mine = digest(uuid)
        record = Record(digest(activation), mine + uuid4().bytes)
        (stored,) = await self._records.apply(trigger, [Put(FIRSTS, record, Expects.FOLLOWS, time_out)])
        return stored is not None and stored.value.startswith(mine)
