"""The journal in Redis: one stream for each trigger, cut to its youngest entries; and the security log."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from history.entry import digest
from history.redis.connection.client import PAGE, RedisClient, keys_of
from history.store.journal import JOURNAL_LENGTH, JournalLine, told_once
from history.store.security import SecurityPage, SecurityRecord, recorded_once, wrong_cursor
from history.store.times import milliseconds_of
from history.support.spoilt import readable

#: The stream of the security log, which is of no trigger.
SECURITY_KEY = "doubtless:security"

#: How the name of an entry looks.
_ENTRY = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")


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
    return JournalLine.from_json(fields[b"line"], _at(name))


def _at(name: bytes) -> datetime:
    """Return when an entry was added, which its name says."""
    return datetime.fromtimestamp(int(name.partition(b"-")[0]) / 1000, UTC)


def _key(trigger: str) -> str:
    return keys_of(trigger, "journal")[0]


class RedisSecurityLog:
    """Records as entries of one stream, which nothing but their age cuts; safe to share as the client is.

    Guarantee: as safe as Redis keeps a write; no replica is waited for. One whose reply was lost may stand
    there twice, and is read once.
    """

    def __init__(self, client: RedisClient) -> None:
        self._redis = client

    async def append(self, records: Sequence[SecurityRecord]) -> None:
        """Add records, in one round trip."""

        def add() -> Any:
            pipeline = self._redis.client.pipeline(transaction=False)
            for record in records:
                pipeline.xadd(SECURITY_KEY, {b"record": record.to_json()})
            return pipeline.execute()

        await self._redis.call("writing the security log", add)

    async def read(
        self, *, before: datetime | None = None, cursor: str | None = None, limit: int = 100
    ) -> SecurityPage:
        """Return some records, the newest first; the cursor is the entry of the last one."""
        last = "+" if before is None else str(milliseconds_of(before) - 1)
        if cursor is not None:
            if _ENTRY.fullmatch(cursor) is None:
                raise wrong_cursor()
            last = f"({cursor}"
        found = await self._latest(last, limit)
        named = ((f"security record {name.decode()}", fields) for name, fields in found)
        records = readable(
            "security record", named, lambda fields: SecurityRecord.from_json(fields[b"record"])
        )
        return SecurityPage(recorded_once(records), found[-1][0].decode() if len(found) == limit else None)

    async def delete_older(self, age: timedelta) -> None:
        """Cut the stream by the age of its entries; the newest one tells the time of the server."""
        newest = await self._latest("+", 1)
        if newest:
            oldest = _at(newest[0][0]) - age
            trim = partial(
                self._redis.client.xtrim, SECURITY_KEY, minid=milliseconds_of(oldest), approximate=False
            )
            await self._redis.call("deleting old records of the security log", trim)

    async def _latest(self, last: str, limit: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        read = partial(self._redis.client.xrevrange, SECURITY_KEY, last, "-", count=limit)
        found: list[tuple[bytes, dict[bytes, bytes]]] = await self._redis.call(
            "reading the security log", read
        )
        return found
