"""The journal in Redis: one stream for each trigger, cut to its youngest entries."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from history.entry import digest
from history.redis.connection.client import PAGE, RedisClient, keys_of
from history.store.journal import JOURNAL_LENGTH, JournalLine, told_once
from history.support.spoilt import readable


class RedisJournal:
    """Lines as entries of a stream; safe to share as the client is.

    Guarantee: as safe as Redis keeps a write; no replica is waited for. One whose reply was lost may stand
    there twice, and is read once.
    """

    def __init__(self, client: RedisClient) -> None:
        self._redis = client

    async def append(self, trigger: str, lines: list[JournalLine]) -> None:
        """Add lines, in one round trip."""
        key = _key(trigger)

        def add() -> Any:
            pipeline = self._redis.client.pipeline(transaction=False)
            for line in lines:
                named = b"" if line.uuid is None else digest(line.uuid)
                fields = {b"digest": named, b"line": line.to_json()}
                pipeline.xadd(key, fields, maxlen=JOURNAL_LENGTH, approximate=True)
            return pipeline.execute()

        await self._redis.call("writing the journal", add)

    async def read(self, trigger: str, uuid: str | None = None, *, limit: int = 100) -> list[JournalLine]:
        """Return the last lines, about a uuid or all; the stream is read from its end, a page at a time."""
        key, last = _key(trigger), b"+"
        wanted = None if uuid is None else digest(uuid)
        found: list[JournalLine] = []
        while len(found) < limit:
            page = await self._page(key, last)
            mine = [(name, fields) for name, fields in page if wanted in {None, fields.get(b"digest")}]
            found = told_once([*found, *_lines(trigger, mine)])
            if len(page) < PAGE:
                break
            last = b"(" + page[-1][0]
        return found[:limit][::-1]

    async def _page(self, key: str, last: bytes) -> list[tuple[bytes, dict[bytes, bytes]]]:
        client = self._redis.client
        read: list[tuple[bytes, dict[bytes, bytes]]] = await self._redis.call(
            "reading the journal", lambda: client.xrevrange(key, last, b"-", count=PAGE)
        )
        return read


def _lines(trigger: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> Iterator[JournalLine]:
    named = ((f"of the trigger {trigger} ({name.decode()})", (name, fields)) for name, fields in entries)
    return readable("the journal's line", named, lambda entry: _line(*entry))


def _line(name: bytes, fields: dict[bytes, bytes]) -> JournalLine:
    at = datetime.fromtimestamp(int(name.partition(b"-")[0]) / 1000, UTC)
    return JournalLine.from_json(fields[b"line"], at)


def _key(trigger: str) -> str:
    return keys_of(trigger, "journal")[0]
