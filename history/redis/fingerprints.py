"""Fingerprints in Redis: one string for each uuid, which expires by itself."""

from datetime import timedelta

from history.entry import digest
from history.redis.connection.client import RedisClient, keys_of
from history.redis.scripts import text_of
from history.store import milliseconds

_FIRST = "fingerprints/first"


class RedisFingerprints:
    """Fingerprints in keys of their own; safe to share as the client is.

    Guarantee: as safe as Redis keeps a write; replicas are waited for where ``durability`` says so.
    """

    def __init__(self, client: RedisClient) -> None:
        self._redis = client

    async def first(self, trigger: str, uuid: str, fingerprint: bytes, time_to_live: timedelta) -> bytes:
        """Keep this where none is kept, and return the one that is kept."""
        (key,) = keys_of(trigger, f"fingerprint:{digest(uuid).hex()}")
        words = (key, fingerprint, milliseconds(time_to_live))
        kept: bytes = await self._redis.write(
            f"running {_FIRST}.lua", lambda client: client.eval(text_of(_FIRST), 1, *words)
        )
        return bytes(kept)
