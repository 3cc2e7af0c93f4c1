"""The parking lot in Redis: per trigger a hash of parked messages and their order by time."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from history.parking import Parked
from history.redis_client import TRIGGERS_KEY, RedisClient, keys_of

#: How many messages one command takes.
PIECE = 200


class RedisParking:
    """Parked messages of each trigger in ``...:parked`` (id -> JSON) and ``...:parked:order`` (by time)."""

    def __init__(self, client: RedisClient) -> None:
        self._redis = client

    async def park(self, parked: Sequence[Parked]) -> None:
        """Keep messages; an id without its message, left by a crash between the two, is not shown."""
        client = self._redis.client
        for name in dict.fromkeys(one.trigger_name for one in parked):
            messages, order = keys_of(name, "parked", "parked:order")
            mine = [one for one in parked if one.trigger_name == name]
            await self._call(client.sadd, TRIGGERS_KEY, name)
            for start in range(0, len(mine), PIECE):
                some = mine[start : start + PIECE]
                await self._call(client.zadd, order, {one.id: one.parked_at.timestamp() for one in some})
                texts = {one.id: one.model_dump_json() for one in some}
                await self._call(partial(client.hset, messages, mapping=texts))

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return the one parked message whose id begins so."""
        found: list[Parked] = []
        for name in await self._triggers(trigger):
            messages, order = keys_of(name, "parked", "parked:order")
            ids: Sequence[bytes] = await self._call(self._redis.client.zrange, order, 0, -1)
            begins = [one for one in ids if one.decode().startswith(parked_id)]
            found += await self._read(messages, begins)
        return found[0] if len(found) == 1 else None

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages, oldest first."""
        found: list[Parked] = []
        for name in await self._triggers(trigger):
            messages, order = keys_of(name, "parked", "parked:order")
            found += await self._read(
                messages, await self._call(self._redis.client.zrange, order, 0, limit - 1)
            )
        return sorted(found, key=lambda one: (one.parked_at, one.id))[:limit]

    async def remove(self, parked: Parked) -> bool:
        """Take one message out."""
        messages, order = keys_of(parked.trigger_name, "parked", "parked:order")
        await self._call(self._redis.client.zrem, order, parked.id)
        return bool(await self._call(self._redis.client.hdel, messages, parked.id))

    async def count(self, *, trigger: str | None = None) -> int:
        """Count what is parked."""
        counts = [
            await self._call(self._redis.client.hlen, *keys_of(name, "parked"))
            for name in await self._triggers(trigger)
        ]
        return sum(counts)

    async def _triggers(self, trigger: str | None) -> Sequence[str]:
        if trigger is not None:
            return [trigger]
        names: Iterable[bytes] = await self._call(self._redis.client.smembers, TRIGGERS_KEY)
        return sorted(name.decode() for name in names)

    async def _read(self, messages: str, ids: Sequence[bytes]) -> Sequence[Parked]:
        if not ids:
            return []
        texts: Sequence[bytes | None] = await self._call(self._redis.client.hmget, messages, ids)
        return [Parked.model_validate_json(text) for text in texts if text is not None]

    async def _call(self, command: Any, *arguments: Any) -> Any:
        return await self._redis.call("using the parking lot", lambda: command(*arguments))
