"""The parking lot in Redis: per trigger a hash of parked messages and their order by time."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from history.redis.client import TRIGGERS_KEY, RedisClient, keys_of
from history.store.parking import Parked

#: How many messages one command takes.
PIECE = 200

#: How many messages, of up to a megabyte each, one command reads.
READ = 20

#: How many ids one command reads.
PAGE = 1000


class RedisParking:
    """Parked messages of each trigger in ``...:parked`` (id -> JSON) and ``...:parked:order`` (by time)."""

    def __init__(self, client: RedisClient) -> None:
        self._redis = client

    async def park(self, parked: Sequence[Parked]) -> None:
        """Keep messages; an id without its message, left by a crash between the two, is not shown."""
        client = self._redis.client
        for name in dict.fromkeys(message.trigger_name for message in parked):
            messages, order = keys_of(name, "parked", "parked:order")
            mine = [message for message in parked if message.trigger_name == name]
            await self._call(client.sadd, TRIGGERS_KEY, name)
            for start in range(0, len(mine), PIECE):
                some = mine[start : start + PIECE]
                await self._call(
                    client.zadd, order, {message.id: message.parked_at.timestamp() for message in some}
                )
                texts = {message.id: message.model_dump_json() for message in some}
                await self._call(partial(client.hset, messages, mapping=texts))

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return the one parked message whose id begins so."""
        found: list[Parked] = []
        for name in await self._triggers(trigger):
            messages, order = keys_of(name, "parked", "parked:order")
            beginning = parked_id.encode()
            whole = await self._read(messages, [beginning])
            if whole:
                found += whole
                continue
            ids = {id_ async for id_ in self._ids(order) if id_.startswith(beginning)}
            found += await self._read(messages, sorted(ids)[:2])
        return found[0] if len(found) == 1 else None

    async def _ids(self, order: str) -> AsyncIterator[bytes]:
        """Yield the ids of all messages, a page at a time; one may come twice."""
        cursor = 0
        while True:
            cursor, page = await self._call(partial(self._redis.client.zscan, order, cursor, count=PAGE))
            for id_, _ in page:
                yield id_
            if cursor == 0:
                return

    async def list(self, *, trigger: str | None = None, limit: int = 1000) -> Sequence[Parked]:
        """Return parked messages, oldest first."""
        found: list[Parked] = []
        for name in await self._triggers(trigger):
            messages, order = keys_of(name, "parked", "parked:order")
            for first in range(0, limit, PAGE):
                last = min(first + PAGE, limit) - 1
                ids = await self._call(self._redis.client.zrange, order, first, last)
                found += await self._read(messages, ids)
                if len(ids) < PAGE:
                    break
        return sorted(found, key=lambda message: (message.parked_at, message.id))[:limit]

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
        return await self._redis.triggers() if trigger is None else [trigger]

    async def _read(self, messages: str, ids: Sequence[bytes]) -> Sequence[Parked]:
        found: list[Parked] = []
        for first in range(0, len(ids), READ):
            some = ids[first : first + READ]
            texts: Sequence[bytes | None] = await self._call(self._redis.client.hmget, messages, some)
            found += [Parked.model_validate_json(text) for text in texts if text is not None]
        return found

    async def _call(self, command: Any, *arguments: Any) -> Any:
        return await self._redis.call("using the parking lot", lambda: command(*arguments))
