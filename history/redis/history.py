"""The document history in Redis: the production default.

Each verb is one Lua script and one round trip per 200 uuids; ``lua/shared/head.lua`` describes the keys. One
small hash has the runs in flight. Completed entries are in buckets of about 64, at about 24 bytes per entry.
When their slice of time has ended, :meth:`RedisHistory.purge_some` packs the buckets, at about 20 bytes per
entry. The buckets expire by themselves.
"""

import logging
import struct
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self

import redis

from history.beside.kept import KeepsBeside
from history.entry import (
    DEFAULT_TIME_TO_LIVE,
    DIGEST_SIZE,
    Claim,
    Entry,
    EntryOutcome,
    Fence,
    Renewal,
    Settlement,
    check_held,
    digest,
)
from history.errors import NotPermittedError
from history.redis.connection.checks import refuse_eviction, remarks_on, servers_of, warnings_about
from history.redis.connection.client import TRIGGERS_KEY, RedisClient
from history.redis.connection.probe import pool_of
from history.redis.connection.wires import AnotherServerError
from history.redis.records import RedisRecords, arguments_of
from history.redis.replies import (
    BATCH_CLAIMS,
    CLAIMS,
    CODES,
    asked_of,
    in_one_round,
    read_claim,
    read_entry,
    read_packed_claims,
    read_turn,
    rounds,
)
from history.redis.scripts import Scripts
from history.store import (
    CLAIM_BATCH,
    WHOLE,
    BatchOwner,
    FoundInPiece,
    HistoryStats,
    Owner,
    Page,
    Purged,
    ScannedEntry,
    ScanPart,
    SingleVerbs,
    milliseconds,
)
from history.store.inspection import Capability, Refusal
from history.store.turning import NextClaim, Place, Turned
from history.support.encryption import SETTING, Cipher, cipher_of
from history.support.forks import forkable_lock
from history.support.paging import pieces_of
from history.support.urls import split_option

if TYPE_CHECKING:
    from history.store.progress import BatchRecord

_log = logging.getLogger(__name__)

#: A scan's script shows at most so many entries.
LOOKED_AT = 5000

#: Lease and time to live in milliseconds, as the scripts unpack them; the greatest known fence and the
#: owner's token follow.
_DURATIONS = struct.Struct(">qq")

#: The cursor of a purge that has deleted what has expired, and now packs buckets.
_PACKING = "packing"

#: The replies to a settlement.
_YES, _UNDECIDED = b"1?"

#: The usual reply to the settlement of one message.
_SETTLED = b"1"

#: A fence, as the scripts unpack it.
_FENCE = struct.Struct(">Q")

#: What is logged about data that came back older.
_OLDER = "is older than it was: messages processed since"


class RedisHistory(SingleVerbs, KeepsBeside):
    """A document history in Redis 6.2 or later, blocking or asyncio.

    Give it a URL (:meth:`from_url`), or a ``redis.Redis``, ``redis.asyncio.Redis`` or ``redis.RedisCluster``
    with its own retries switched off. While the server does not answer, calls fail immediately, unless
    ``circuit`` is false, or the URL has ``?circuit=off``. At its first use it refuses a server that may
    silently forget. It remembers the epoch of its data and the greatest fence that it was given. If a flushed
    server, another server or a server with older data answers instead, it logs this once, at level CRITICAL.
    Even then no fence is granted twice. If a part of the history is missing, or moving to another node of a
    Cluster, the history counts as unavailable: its entries there do not count as absent.

    With ``durability="replicas:1"``, or ``?durability=replicas:1`` in the URL, the writes that decide whether
    a message runs, and parked messages, count only when so many replicas have them; else the history counts
    as unavailable. A Cluster does not support this.

    With ``encrypt="file:/run/secrets/key"`` or ``"env:NAME"``, or with ``?encrypt=...`` in the URL, parked
    messages and kept results are encrypted; see :class:`~history.support.encryption.Cipher`.

    Raises:
        ConfigurationError: ``durability`` has another form, or is set for a Cluster; or ``encrypt`` does not
            name a key.

    Guarantee: in doubt; fenced, if the effect's target checks the fence. A replica that takes over may have
    lost the last entries, unless ``durability`` waits for it.
    """

    def __init__(
        self,
        client: Any,
        *,
        circuit: bool = True,
        durability: str | None = None,
        encrypt: str | Cipher | None = None,
    ) -> None:
        own = isinstance(client, RedisClient)
        self._cipher = cipher_of(encrypt)
        self._redis = client if own else RedisClient(client, circuit=circuit, durability=durability)
        self.keep_beside(
            RedisRecords(self._redis),
            self._cipher,
            triggers=self.triggers,
            lookup=self.lookup,
            address=self._redis.address,
        )
        self._checked = False
        self._prepared: dict[str, Scripts] = {}
        self._epochs: dict[str, int] = {}
        self._fences: dict[str, int] = {}
        self._lock = forkable_lock()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Open ``redis://``, ``rediss://`` or ``unix://``; it does not connect before the first use."""
        rest, encrypt = split_option(url, SETTING)
        return cls(RedisClient.from_url(rest, options=(SETTING,)), encrypt=encrypt)

    def for_asyncio(self) -> KeepsBeside:
        """Return the same history through redis.asyncio."""
        if self.is_for_asyncio:
            return self
        return RedisHistory(self._redis.for_asyncio(), encrypt=self._cipher)

    @property
    def is_for_asyncio(self) -> bool:
        """Whether its calls are awaited."""
        return self._redis.is_asyncio

    async def check(self) -> Sequence[str]:
        """Refuse a server that evicts; warn about a server that stores nothing on disk.

        Raises:
            ConfigurationError: maxmemory-policy is not noeviction.
        """
        try:
            servers = await servers_of(self._redis)
        except (redis.ResponseError, NotPermittedError) as error:
            return [f"could not ask Redis for its settings ({error}): make sure that it never evicts"]
        return [*refuse_eviction(servers), *await warnings_about(self._redis, servers)]

    async def remarks(self) -> Sequence[str]:
        """Return remarks on usual settings that can still lose the last writes."""
        return await remarks_on(self._redis)

    async def refusals(self, trigger: str, capabilities: Collection[Capability]) -> Sequence[Refusal]:
        """Return what the account may not do; see :class:`~history.store.inspection.TellingRefusals`."""
        from history.redis.permissions import refusals_in  # noqa: PLC0415  (no consumer asks)

        return await refusals_in(self._redis, trigger, capabilities)

    async def _prepare(self, trigger: str) -> Scripts:
        """Before the first claim, check the server and note the trigger's name; return its scripts."""
        if not self._checked:
            for warning in await self.check():
                _log.warning("%s", warning)
            self._checked = True
        client = self._redis.client
        await self._redis.call("naming the trigger", lambda: client.sadd(TRIGGERS_KEY, trigger))
        note_loaded = partial(self._note_loaded, trigger)
        scripts = self._prepared[trigger] = Scripts(self._redis, trigger, note_loaded)
        self._fences.setdefault(trigger, 0)
        return scripts

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
        if not uuids:
            return []
        scripts = self._prepared.get(trigger) or await self._prepare(trigger)
        terms = self._terms(trigger, owner, lease, time_to_live)
        if len(uuids) == 1 and isinstance(owner, str):
            reply = await scripts.run(CLAIMS.script, [terms, digest(uuids[0])])
            return [self._read_only_claim(trigger, reply, owner)]
        digests = [digest(uuid) for uuid in uuids]
        form = BATCH_CLAIMS if isinstance(owner, BatchOwner) else CLAIMS
        if in_one_round(digests):
            reply = await scripts.run(form.script, form.arguments(terms, digests))
            self._check_epoch(trigger, reply[1])
            return self._note_fences(trigger, form.read(reply, owner))
        claims: dict[int, Claim] = {}
        cut = list(rounds(digests))
        calls = (form.arguments(terms, [digests[index] for index in indexes]) for _, indexes in cut)
        trips = iter(cut)
        async with aclosing(scripts.run_each(form.script, calls)) as replies:
            async for reply in replies:
                self._check_epoch(trigger, reply[1])
                first, indexes = next(trips)
                # Only the first index of a uuid may find its own claim and succeed.
                answers = form.read(reply, owner if first else None)
                claims.update(zip(indexes, answers, strict=True))
        return self._note_fences(trigger, [claims[index] for index in range(len(digests))])

    async def claim_packed(
        self,
        trigger: str,
        digests: bytes,
        owner: BatchOwner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[FoundInPiece]:
        """Claim for a batch by digests; see :class:`~history.store.PackedClaims`."""
        scripts = self._prepared.get(trigger) or await self._prepare(trigger)
        terms, size = self._terms(trigger, owner, lease, time_to_live), CLAIM_BATCH * DIGEST_SIZE
        calls = ([terms, digests[start : start + size]] for start in range(0, len(digests), size))
        answers: list[FoundInPiece] = []
        async with aclosing(scripts.run_each(BATCH_CLAIMS.script, calls)) as replies:
            async for reply in replies:
                self._check_epoch(trigger, reply[1])
                claims = self._note_fences(trigger, read_packed_claims(reply, owner))
                answers.append(FoundInPiece(reply[3], [claim.found for claim in claims]))
        return answers

    def _read_only_claim(self, trigger: str, reply: Sequence[Any], owner: str) -> Claim:
        """Read a reply to the claim of one uuid: as for many, with fewer calls."""
        now, epoch, shown = reply
        self._check_epoch(trigger, epoch)
        claim = read_claim(shown, now, owner)
        if claim.fence > self._fences.get(trigger, 0):
            self._fences[trigger] = claim.fence
        return claim

    def _note_fences(self, trigger: str, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Remember the greatest fence: a server that knows only smaller fences has lost data."""
        greatest = max(claim.fence for claim in claims)
        if greatest > self._fences.get(trigger, 0):
            self._fences[trigger] = greatest
        return claims

    def _check_epoch(self, trigger: str, epoch: int) -> None:
        if epoch != self._epochs.get(trigger):
            self._note_epoch(trigger, epoch)

    def _note_epoch(self, trigger: str, reported: int) -> None:
        """Remember which data set this is, and log it if it has forgotten something.

        A new data set has forgotten everything. A negative epoch means that this data set did not grant the
        fences that this client has.
        """
        epoch = abs(reported)
        with self._lock:
            before, self._epochs[trigger] = self._epochs.get(trigger), epoch
            if reported > 0 and before in {None, epoch}:
                return
        if before not in {None, epoch}:
            self._note_loss(trigger, "was flushed or replaced: messages processed before")
        else:
            self._note_loss(trigger, _OLDER)

    def _note_loaded(self, trigger: str, server: str, loaded: bytes) -> None:
        """Log it if a server began with older data: it had not granted a fence that this client has.

        Other clients may have got fences there meanwhile. ``loaded`` is the reply of step.lua: the last fence
        that was granted before this server began, and the fence to which it stepped.
        """
        parts = loaded.decode().split()
        if parts[:1] == [server] and int(parts[1]) < self._fences.get(trigger, 0) <= int(parts[2]):
            self._note_loss(trigger, _OLDER)

    def _note_loss(self, trigger: str, what: str) -> None:
        with self._lock:
            # It may be another server, and the trigger's name may be missing there as well.
            self._checked = False
            self._prepared.pop(trigger, None)
        _log.critical(
            "the document history of %s %s are NEW again", trigger, what, extra={"trigger": trigger}
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
        expected_owner: str | None = None,
        failed: bool = False,
    ) -> Claim | None:
        """Compare the fence and become the owner; see :class:`~history.store.HistoryStore`."""
        arguments = [self._terms(trigger, owner, lease, time_to_live), b"%d" % expected_fence]
        previous = (expected_owner or "").encode()
        also = [b"failed"] if failed else []
        fence = await self._scripts(trigger).run(
            "entries/take_over", [*arguments, digest(uuid), previous, *also]
        )
        if fence < 0:
            return None
        (taken,) = self._note_fences(trigger, [Claim(None, Fence(fence))])
        return taken

    async def adopt(
        self,
        trigger: str,
        expected: Sequence[tuple[str, int]],
        owner: BatchOwner,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[bool]:
        """Move STARTED entries into a batch; see :class:`~history.store.HistoryStore`."""
        terms = self._terms(trigger, owner, None, time_to_live)

        def arguments(piece: Sequence[tuple[str, int]]) -> list[bytes]:
            fences, digests = [_FENCE.pack(fence) for _, fence in piece], [digest(uuid) for uuid, _ in piece]
            return [terms, *fences, *digests]

        calls = map(arguments, pieces_of(expected, CLAIM_BATCH))
        async with aclosing(self._scripts(trigger).run_each("entries/adopt", calls)) as replies:
            return [fence >= 0 async for reply in replies for fence in reply]

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Complete or release claims that still have their fence."""
        digests = [digest(settlement.uuid) for settlement in settlements]
        asked = [asked_of(settlement) for settlement in settlements]
        if in_one_round(digests):
            return await self._settle(trigger, asked, digests)
        done: dict[int, bool] = {}
        for _, indexes in rounds(digests):
            some = [asked[index] for index in indexes], [digests[index] for index in indexes]
            done.update(zip(indexes, await self._settle(trigger, *some), strict=True))
        return [done[index] for index in range(len(digests))]

    @property
    def turns(self) -> bool:
        """Whether one call can do everything: not in a Cluster, because that is not proved there."""
        return not self._redis.is_cluster

    async def turn(
        self, trigger: str, done: Settlement | None, following: NextClaim | None, place: Place | None
    ) -> Turned:
        """Settle, acknowledge and claim in one script; see :class:`~history.store.turning.Turning`."""
        scripts = self._prepared.get(trigger) or await self._prepare(trigger)
        settling = [b"", b""] if done is None else [asked_of(done), digest(done.uuid)]
        claiming = [b"", b""]
        if following is not None:
            terms = self._terms(trigger, following.owner, following.lease, following.time_to_live)
            claiming = [terms, digest(following.uuid)]
        answer = await scripts.run("turning/turn", [*settling, *claiming, *(place or ())])
        settled, acknowledged, reply = read_turn(answer)
        claim = None if following is None else self._read_only_claim(trigger, reply, following.owner)
        return Turned(settled, acknowledged, claim)

    async def server(self) -> tuple[bytes, int] | None:
        """Return the run id of the server, and the number of the database; None if they are unknown."""
        wires = self._redis.wires
        if wires is None:
            return None
        try:
            name = await self._redis.call("asking the server for its name", wires.name)
        except AnotherServerError:
            return None
        database = pool_of(self._redis.client).connection_kwargs.get("db")
        return (name, int(database or 0)) if name else None

    async def _settle(self, trigger: str, asked: list[bytes], digests: list[bytes]) -> Sequence[bool]:
        """Settle runs in flight in one round trip, and all others in one more."""
        answers = await self._scripts(trigger).run("entries/settle", asked + digests)
        if answers == _SETTLED:
            return [True]
        done = [answer == _YES for answer in answers]
        if b"?" in answers:
            rest = [index for index, answer in enumerate(answers) if answer == _UNDECIDED]
            arguments = [arguments[index] for arguments in (asked, digests) for index in rest]
            for index, answer in zip(
                rest, await self._scripts(trigger).run("entries/settle_any", arguments), strict=True
            ):
                done[index] = answer == _YES
        return done

    async def renew_many(self, trigger: str, renewals: Sequence[Renewal], lease: timedelta) -> Sequence[bool]:
        """Prolong leases that still have their fence; see :class:`~history.store.ManyLeases`."""
        check_held("lease", lease)
        in_force = b"%d" % milliseconds(lease)

        def arguments(piece: Sequence[Renewal]) -> list[bytes]:
            holders = [_FENCE.pack(renewal.fence) + (renewal.owner or "").encode() for renewal in piece]
            return [in_force, *holders, *(digest(renewal.uuid) for renewal in piece)]

        calls = map(arguments, pieces_of(renewals, CLAIM_BATCH))
        async with aclosing(self._scripts(trigger).run_each("entries/renew", calls)) as replies:
            return [answer == _YES async for reply in replies for answer in reply]

    async def renew_batch(self, trigger: str, owner: BatchOwner, lease: timedelta) -> bool:
        """Prolong the lease in the one ledger record of a batch; see :class:`~history.store.BatchLeases`."""
        check_held("lease", lease)
        arguments = [b"%d" % milliseconds(lease), owner.token.encode()]
        return bool(await self._scripts(trigger).run("entries/renew_batch", arguments))

    async def settle_batches(
        self,
        trigger: str,
        owners: Sequence[BatchOwner],
        outcome: EntryOutcome | None,
        *,
        record: "BatchRecord | None" = None,
    ) -> bool:
        """Settle the one ledger record of each batch, and store the record, in one script."""
        tokens = [owner.token.encode() for owner in owners]
        noted = list[bytes]() if record is None else _noted(record)
        arguments = [CODES[outcome], b"%d" % len(tokens), *tokens, *noted]
        return bool(await self._scripts(trigger).run("entries/settle_batches", arguments))

    async def lookup(self, trigger: str, uuids: Sequence[str]) -> Sequence[Entry | None]:
        """Read entries without claiming."""
        calls = ([digest(uuid) for uuid in piece] for piece in pieces_of(uuids, CLAIM_BATCH))
        async with aclosing(self._scripts(trigger).run_each("entries/lookup", calls)) as replies:
            return [
                read_entry(shown, reply[0]) if shown else None
                async for reply in replies
                for shown in reply[1:]
            ]

    async def scan(
        self, trigger: str, *, cursor: str | None = None, limit: int = 1000, part: ScanPart = WHOLE
    ) -> Page:
        """Read a part; an entry may come twice if others write meanwhile."""
        numbers = (min(limit, LOOKED_AT), part.number, part.of)
        arguments = [(cursor or "").encode(), *(b"%d" % number for number in numbers)]
        reply = await self._scripts(trigger).run("entries/scan", arguments)
        pairs = zip(reply[2::2], reply[3::2], strict=True)
        entries = [ScannedEntry(key, read_entry(shown, reply[0])) for key, shown in pairs]
        return Page(entries, reply[1].decode() or None)

    async def purge_some(self, trigger: str, cursor: str | None = None) -> Purged:
        """Delete some expired entries, and at the end pack completed ones.

        Without this call, completed entries expire later by themselves, and need more memory until then.
        """
        if cursor == _PACKING:
            more = await self._scripts(trigger).run("entries/pack", [])
            return Purged(0, _PACKING if more else None)
        further, deleted = await self._scripts(trigger).run("entries/purge", [(cursor or "").encode()])
        return Purged(int(deleted), further.decode() or _PACKING)

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Delete one entry in any state, and the fingerprint, result and failure beside it."""
        return bool(await self._scripts(trigger).run("entries/forget", [digest(uuid)]))

    async def stats(self, trigger: str) -> HistoryStats:
        """Count by buckets, without reading entries."""
        cursor, started, completed = await self._scripts(trigger).run("entries/stats", [b""])
        while cursor:
            cursor, more, others = await self._scripts(trigger).run("entries/stats", [cursor])
            started, completed = started + more, completed + others
        return HistoryStats(trigger=trigger, started=started, completed=max(0, completed))

    async def triggers(self) -> Sequence[str]:
        """Name the triggers seen so far."""
        return await self._redis.triggers()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.close()

    def _scripts(self, trigger: str) -> Scripts:
        return self._prepared.get(trigger) or Scripts(self._redis, trigger)

    def _terms(self, trigger: str, owner: Owner, lease: timedelta | None, time_to_live: timedelta) -> bytes:
        token = owner.token if isinstance(owner, BatchOwner) else owner
        last_fence = _FENCE.pack(self._fences.get(trigger, 0))
        return _durations(lease, time_to_live) + last_fence + token.encode()


@lru_cache(maxsize=256)
def _durations(lease: timedelta | None, time_to_live: timedelta) -> bytes:
    """Check and pack the part that is equal in every claim of a trigger."""
    check_held("time_to_live", time_to_live)
    check_held("lease", lease)
    return _DURATIONS.pack(-1 if lease is None else milliseconds(lease), milliseconds(time_to_live))


def _noted(record: "BatchRecord") -> list[bytes]:
    """Return the changes that store a record, as the script takes them."""
    from history.beside.progress import changes_of  # noqa: PLC0415  (only the driver of a batch ends it)

    return arguments_of(changes_of(record))
