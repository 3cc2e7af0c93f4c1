"""Fingerprints in Redis: one string for each uuid, which expires by itself."""

from collections.abc import Sequence
from datetime import timedelta

from history.entry import digest
from history.redis.connection.client import RedisClient, keys_of
from history.redis.scripts import text_of
from history.store import CLAIM_BATCH, milliseconds
from history.store.fingerprints import BodyOf

_FIRST = "fingerprints/first"


class RedisFingerprints:
    """Fingerprints in keys of their own; safe to share as the client is.

    Guarantee: as safe as Redis keeps a write; replicas are waited for where ``durability`` says so.
    """

    def __init__(self, client: RedisClient) -> None:
        self._redis = client

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        """Keep each where none is kept for its uuid, and return those that are kept."""
        pieces = [bodies[start : start + CLAIM_BATCH] for start in range(0, len(bodies), CLAIM_BATCH)]
        return [kept for piece in pieces for kept in await self._first(trigger, piece, time_to_live)]

    async def _first(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        keys = keys_of(trigger, *(f"fingerprint:{digest(uuid).hex()}" for uuid, _ in bodies))
        words = (*keys, milliseconds(time_to_live), *(fingerprint for _, fingerprint in bodies))
        kept: list[bytes] = await self._redis.write(
            f"running {_FIRST}.lua", lambda client: client.eval(text_of(_FIRST), len(keys), *words)
        )
        return kept
