"""The document history in Redis: the production default.

Each verb is one Lua script and one round trip per 200 uuids; ``lua/common.lua`` describes the keys. Runs in
flight stand in one small hash; completed entries are packed into buckets of about 64, which cost about 30
bytes an entry and expire by themselves.
"""

import logging
import struct
import uuid as uuids_of_python
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Self, cast

import redis

from history.entry import (
    DEFAULT_TIME_TO_LIVE,
    Claim,
    Entry,
    EntryOutcome,
    Fence,
    Settlement,
    State,
    digest,
)
from history.errors import ConfigurationError
from history.parking import Parking
from history.redis_client import TRIGGERS_KEY, RedisClient, keys_of
from history.redis_parking import RedisParking
from history.store import (
    CLAIM_BATCH,
    BatchOwner,
    HistoryStats,
    HistoryStore,
    Owner,
    Page,
    ScannedEntry,
    SingleVerbs,
    instant,
    milliseconds,
)

_log = logging.getLogger(__name__)

_CODES = {EntryOutcome.OK: "O", EntryOutcome.FAILED: "F", None: "R"}
_OUTCOMES = {b"O": EntryOutcome.OK, b"F": EntryOutcome.FAILED, b"S": None}

#: Fence, started, lease, expires: what common.lua packs as RECORD.
_RECORD = struct.Struct(">QQQQ")


class RedisHistory(SingleVerbs):
    """A document history in Redis 6.2 or later, blocking or asyncio.

    Give it a URL (:meth:`from_url`), or a ``redis.Redis``, ``redis.asyncio.Redis`` or ``redis.RedisCluster``
    whose own retries are switched off. At its first use it refuses a server that may silently forget. It
    remembers the epoch of the data it wrote into, and says so, once, at level CRITICAL, when a flushed or
    another server answers instead.

    Guarantee: in doubt; fenced, where the effect's target checks the fence. An asynchronous replica that
    takes over may have lost the last entries.
    """

    def __init__(self, client: Any) -> None:
        self._redis = client if isinstance(client, RedisClient) else RedisClient(client)
        self._parking = RedisParking(self._redis)
        self._checked = False
        self._keys: dict[str, list[str]] = {}
        self._epochs: dict[str, bytes] = {}

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Open ``redis://``, ``rediss://`` or ``unix://``; nothing is connected before the first use."""
        return cls(RedisClient.from_url(url))

    @property
    def parking(self) -> Parking:
        """The parking lot in the same Redis."""
        return self._parking

    def for_asyncio(self) -> HistoryStore:
        """Return the same history through redis.asyncio."""
        return self if self._redis.is_asyncio else RedisHistory(self._redis.for_asyncio())

    async def check(self) -> Sequence[str]:
        """Refuse a server that evicts; warn about one that keeps nothing on disk.

        Raises:
            ConfigurationError: maxmemory-policy is not noeviction.
        """
        try:
            info = cast("dict[str, Any]", await self._redis.call("checking", self._redis.client.info))
        except redis.ResponseError as error:
            return [f"could not ask Redis for its settings ({error}): make sure that it never evicts"]
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise ConfigurationError(
                "maxmemory-policy",
                f"{policy} lets Redis forget history, and a forgotten message runs again",
                "CONFIG SET maxmemory-policy noeviction, or use a Redis of its own for the history",
            )
        return [] if await self._persists(info) else ["Redis keeps nothing on disk: a restart forgets it all"]

    async def _persists(self, info: dict[str, Any]) -> bool:
        if info.get("aof_enabled"):
            return True
        try:
            client = self._redis.client
            found = await self._redis.call("checking", lambda: client.config_get("save"))
        except redis.ResponseError:
            return True
        return bool(cast("dict[str, str]", found).get("save"))

    async def _prepare(self, trigger: str) -> list[str]:
        """Return the trigger's keys; before the first use check the server and note the trigger's name."""
        if not self._checked:
            for warning in await self.check():
                _log.warning("%s", warning)
            self._checked = True
        client = self._redis.client
        await self._redis.call("naming the trigger", lambda: client.sadd(TRIGGERS_KEY, trigger))
        self._keys[trigger] = keys_of(trigger, "meta", "started", "batches", "done")
        return self._keys[trigger]

    async def claim(
        self,
        trigger: str,
        uuids: Sequence[str],
        owner: Owner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[Claim]:
        """Claim each uuid that is absent; see :class:`~history.store.HistoryStore`."""
        keys = self._keys.get(trigger) or await self._prepare(trigger)
        script, token = ("claim_batch", owner.token) if isinstance(owner, BatchOwner) else ("claim", owner)
        epoch = self._epochs.get(trigger) or uuids_of_python.uuid4().hex
        head = [epoch, token, _lease(lease), milliseconds(time_to_live)]
        claims: list[Claim] = []
        for digests in _chunks([digest(uuid) for uuid in uuids]):
            reply = await self._redis.script(script, keys, [*head, *digests])
            self._compare_epoch(trigger, reply[1])
            claims += [_read_claim(text, reply[0]) for text in reply[2:]]
        return claims

    def _compare_epoch(self, trigger: str, epoch: bytes) -> None:
        known = self._epochs.get(trigger)
        if known == epoch:
            return
        self._epochs[trigger] = epoch
        if known is not None:
            _log.critical(
                "the document history of %s was flushed or replaced: messages processed before are NEW again",
                trigger,
                extra={"trigger": trigger},
            )

    async def take_over(
        self,
        trigger: str,
        uuid: str,
        owner: str,
        lease: timedelta | None,
        expected_fence: int,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Claim | None:
        """Compare the fence and become the owner; see :class:`~history.store.HistoryStore`."""
        terms = [_lease(lease), milliseconds(time_to_live)]
        fence = await self._script("take_over", trigger, [digest(uuid), owner, *terms, expected_fence])
        return None if fence < 0 else Claim(None, Fence(fence))

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Complete or release claims whose fence still stands."""
        done: list[bool] = []
        for some in _chunks(settlements):
            words = [word for one in some for word in (digest(one.uuid), one.fence, _CODES[one.outcome])]
            done += [answer == 1 for answer in await self._script("settle", trigger, words)]
        return done

    async def renew(self, trigger: str, uuid: str, fence: int, lease: timedelta) -> bool:
        """Prolong a lease whose fence still stands."""
        return bool(await self._script("renew", trigger, [digest(uuid), fence, milliseconds(lease)]))

    async def settle_batch(self, trigger: str, owner: BatchOwner, outcome: EntryOutcome | None) -> bool:
        """Settle the batch's one ledger record."""
        return bool(await self._script("settle_batch", trigger, [owner.token, _CODES[outcome]]))

    async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Read entries without claiming."""
        found: list[Entry | None] = []
        for digests in _chunks([digest(uuid) for uuid in uuids]):
            reply = await self._script("lookup", trigger, digests)
            found += [_read_entry(text, reply[0]) if text else None for text in reply[1:]]
        return found

    async def scan(self, trigger: str, *, cursor: str | None = None, limit: int = 1000) -> Page:
        """Read a part; an entry may be seen twice when others write meanwhile."""
        reply = await self._script("scan", trigger, [cursor or "", limit])
        pairs = zip(reply[2::2], reply[3::2], strict=True)
        entries = [ScannedEntry(key, _read_entry(text, reply[0])) for key, text in pairs]
        return Page(entries, reply[1].decode() or None)

    async def purge(self, trigger: str) -> int:
        """Delete runs in flight whose time to live is over; completed entries expire by themselves."""
        cursor, deleted = b"0", 0
        while True:
            cursor, some = await self._script("purge", trigger, [cursor])
            deleted += some
            if cursor == b"0":
                return deleted

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Delete one entry whatever its state."""
        return bool(await self._script("forget", trigger, [digest(uuid)]))

    async def stats(self, trigger: str) -> HistoryStats:
        """Count from the counters, without reading entries."""
        started, completed = await self._script("stats", trigger, [])
        return HistoryStats(trigger=trigger, started=started, completed=completed)

    async def triggers(self) -> Sequence[str]:
        """Name the triggers seen so far."""
        client = self._redis.client
        names = await self._redis.call("listing triggers", lambda: client.smembers(TRIGGERS_KEY))
        return sorted(name.decode() for name in names)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.close()

    async def _script(self, name: str, trigger: str, arguments: list[Any]) -> Any:
        keys = self._keys.get(trigger) or keys_of(trigger, "meta", "started", "batches", "done")
        return await self._redis.script(name, keys, arguments)


def _chunks(items: Sequence[Any]) -> Iterator[list[Any]]:
    for first in range(0, len(items), CLAIM_BATCH):
        yield list(items[first : first + CLAIM_BATCH])


def _lease(lease: timedelta | None) -> int:
    return -1 if lease is None else milliseconds(lease)


def _read_claim(shown: int | bytes, now: int) -> Claim:
    if isinstance(shown, int):
        return Claim(None, Fence(shown))
    entry = _read_entry(shown, now)
    return Claim(entry, entry.fence)


def _read_entry(shown: bytes, now: int) -> Entry:
    """Read an entry as common.lua shows it: state, "B" or "-", a record of 32 bytes, owner."""
    code = shown[:1]
    fence, begun, lease, expires = _RECORD.unpack_from(shown, 2)
    return Entry(
        state=State.STARTED if code == b"S" else State.COMPLETED,
        outcome=_OUTCOMES[code],
        fence=Fence(fence),
        started_at=instant(begun),
        expires_at=instant(expires),
        read_at=instant(now),
        owner=shown[2 + _RECORD.size :].decode() or None,
        lease_until=instant(lease) if lease else None,
        batch=shown[1:2] == b"B",
    )
