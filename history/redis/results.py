"""Kept results in Redis: one string for each uuid, which expires by itself."""

from datetime import timedelta

from history.entry import digest
from history.redis.connection.client import RedisClient, keys_of
from history.redis.scripts import text_of
from history.store import milliseconds
from history.store.results import KeptResult
from history.store.sealing import opened_result, sealed_result
from history.support.encryption import Cipher

_PUT = "results/put"


class RedisResults:
    """Results in keys of their own; safe to share as the client is.

    Guarantee: as safe as Redis keeps a write; replicas are waited for where ``durability`` says so.
    """

    def __init__(self, client: RedisClient, cipher: Cipher | None = None) -> None:
        self._redis, self._cipher = client, cipher

    async def put(self, trigger: str, uuid: str, kept: KeptResult, time_to_live: timedelta) -> bool:
        """Keep this in the place of what was kept before."""
        kept = sealed_result(trigger, uuid, kept, self._cipher)
        words = (_key(trigger, uuid), str(kept.fence), kept.data, milliseconds(time_to_live))
        answer = await self._redis.write(
            f"running {_PUT}.lua", lambda client: client.eval(text_of(_PUT), 1, *words)
        )
        return bool(answer)

    async def get(self, trigger: str, uuid: str) -> KeptResult | None:
        """Return what is kept."""
        key = _key(trigger, uuid)
        found: bytes | None = await self._redis.call("reading a result", lambda: self._redis.client.get(key))
        if found is None:
            return None
        fence, _, data = found.partition(b" ")
        return opened_result(trigger, uuid, KeptResult(int(fence), data), self._cipher)


def _key(trigger: str, uuid: str) -> str:
    return keys_of(trigger, f"result:{digest(uuid).hex()}")[0]
