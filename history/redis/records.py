"""Records and logs in Redis; ``lua/shared/records.lua`` describes the keys."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, assert_never

from history.entry import digest
from history.redis.connection.client import PAGE, TRIGGERS_KEY, RedisClient, keys_of
from history.redis.replies import asked_of, failing
from history.redis.scripts import ScriptsOfTriggers
from history.store import CLAIM_BATCH
from history.store.records import (
    Append,
    Change,
    Delete,
    Expects,
    Fail,
    Get,
    Kind,
    Log,
    LogLine,
    LogPage,
    Now,
    Put,
    Record,
    Settle,
    View,
    end_of,
    wrong_cursor,
)
from history.store.times import instant, milliseconds, milliseconds_of
from history.support.paging import pieces_of

#: How many records one call forgets.
PIECE = 500

#: The form of the names of stream entries.
_ENTRY = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")

#: The beginning of a record: its version, and for a listed kind the time when it was written.
_TEXT = re.compile(rb"([0-9]{1,19})(?:\.([0-9]{1,14}))? ")

#: No version is greater.
_GREATEST = b"%d" % (2**63)


class RedisRecords:
    """Records in strings or hashes, and logs in streams; it can be shared like its client.

    Guarantee: as safe as any write in Redis. If ``durability`` is set, a write waits for replicas, except
    when it only adds lines to logs.
    """

    def __init__(self, client: RedisClient) -> None:
        self._redis = client
        self._scripts = ScriptsOfTriggers(client)

    async def apply(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        """Make changes in one script, or lines in one round trip; see the protocol."""
        lines = [change for change in changes if isinstance(change, Append)]
        if len(lines) == len(changes):
            await self._append(trigger, lines)
            return [None] * len(lines)
        if any(isinstance(change, Put) and change.kind.lasting for change in changes):
            await self._redis.call(
                "naming the trigger", partial(self._redis.client.sadd, TRIGGERS_KEY, trigger)
            )
        if any(isinstance(change, Settle | Fail) for change in changes):
            return await self._settle(trigger, changes)
        answers: list[Record | None] = []
        for piece in pieces_of(changes, CLAIM_BATCH) if each else [changes]:
            reply = await self._scripts[trigger].run("records/apply", arguments_of(piece, each=each))
            answers += map(_answer, piece, reply)
        return answers

    async def _settle(self, trigger: str, changes: Sequence[Change]) -> Sequence[Record | None]:
        asked = [word for change in changes for word in _asked(change)]
        count = len(asked) // 2
        arguments = [b"%d" % count, *asked, *arguments_of(changes)]
        reply: Sequence[int | bytes] = await self._scripts[trigger].run("records/settle", arguments)
        settled, others = iter(reply[:count]), iter(reply[count:])
        return [
            (Record(b"", b"") if next(settled) else None)
            if isinstance(change, Settle | Fail)
            else _answer(change, next(others))
            for change in changes
        ]

    async def _append(self, trigger: str, lines: Sequence[Append]) -> None:
        def add() -> Any:
            pipeline = self._redis.client.pipeline(transaction=False)
            for change in lines:
                fields, most = {b"about": change.about, b"line": change.line}, change.log.most
                (key,) = keys_of(trigger, change.log.name)
                pipeline.xadd(key, fields, maxlen=most, approximate=most is not None)
            return pipeline.execute()

        await self._redis.call("writing a log", add)

    async def get(self, trigger: str, kind: Kind, keys: Sequence[bytes]) -> Sequence[Record | None]:
        """Return the record of each key, with one command."""
        if not keys:
            return []
        client: Any = self._redis.client
        if kind.listed:
            read = partial(client.hmget, *keys_of(trigger, kind.name), keys)
        else:
            read = partial(client.mget, keys_of(trigger, *(_place(kind, key) for key in keys)))
        texts: Sequence[bytes | None] = await self._redis.call(f"reading records ({kind.name})", read)
        return [_record(key, text or b"") for key, text in zip(keys, texts, strict=True)]

    async def page(
        self, trigger: str, kind: Kind, *, prefix: bytes = b"", before: bytes | None = None, limit: int = 100
    ) -> Sequence[Record]:
        """Return some records, the greatest key first: read their keys, then their values.

        A record that is deleted between the two reads does not shorten the page: a short page ends a walk.
        """
        (names,), end = keys_of(trigger, f"{kind.name}:keys"), b"(" + (before or end_of(prefix))
        records: list[Record] = []
        while (left := limit - len(records)) > 0:
            read = partial(self._redis.client.zrevrangebylex, names, end, b"[" + prefix, start=0, num=left)
            keys: Sequence[bytes] = await self._redis.call(f"reading records ({kind.name})", read)
            records += [record for record in await self.get(trigger, kind, keys) if record is not None]
            if len(keys) < left:
                break
            end = b"(" + keys[-1]
        return records

    async def view(self, trigger: str, kinds: Sequence[Kind]) -> View:
        """Return all records of some kinds, with one script."""
        names = [kind.name.encode() for kind in kinds]
        now, *hashes = await self._scripts[trigger].run("records/view", names)
        return View(instant(now), [_newest_first(pairs) for pairs in hashes])

    async def count(self, trigger: str, kind: Kind) -> int:
        """Count the records of a kind, with one command."""
        count = partial(self._redis.client.hlen, *keys_of(trigger, kind.name))
        return int(await self._redis.call(f"counting records ({kind.name})", count))

    async def log(
        self,
        trigger: str,
        log: Log,
        *,
        about: bytes | None = None,
        before: datetime | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> LogPage:
        """Return some lines, from the end of the stream. The cursor is the entry of the last line."""
        last = "+" if before is None else str(milliseconds_of(before) - 1)
        if cursor is not None:
            if _ENTRY.fullmatch(cursor) is None:
                raise wrong_cursor()
            last = f"({cursor}"
        lines: list[LogLine] = []
        while len(lines) < limit:
            size = limit - len(lines) if about is None else PAGE
            page = await self._latest(trigger, log, last, size)
            mine = [(name, fields) for name, fields in page if about in {None, fields.get(b"about")}]
            lines += [LogLine(fields.get(b"line", b""), _at(name), name.decode()) for name, fields in mine]
            if len(page) < size and len(lines) <= limit:
                return LogPage(lines, None)
            last = f"({page[-1][0].decode()}"
        return LogPage(lines[:limit], lines[limit - 1].cursor)

    async def _latest(
        self, trigger: str, log: Log, last: str, limit: int
    ) -> Sequence[tuple[bytes, dict[bytes, bytes]]]:
        read = partial(self._redis.client.xrevrange, *keys_of(trigger, log.name), last, "-", count=limit)
        entries: Sequence[tuple[bytes, dict[bytes, bytes]]] = await self._redis.call("reading a log", read)
        return entries

    async def forget(self, trigger: str, kind: Kind | Log, age: timedelta) -> int:
        """Delete some records, or all old lines; a log's newest line shows the server's time."""
        if isinstance(kind, Kind):
            arguments = [kind.name.encode(), b"%d" % milliseconds(age), b"%d" % PIECE]
            return int(await self._scripts[trigger].run("records/forget", arguments))
        newest = await self._latest(trigger, kind, "+", 1)
        if not newest:
            return 0
        oldest = milliseconds_of(_at(newest[0][0]) - age)
        cut = partial(self._redis.client.xtrim, *keys_of(trigger, kind.name), minid=oldest, approximate=False)
        return int(await self._redis.call("deleting old lines of a log", cut))


def arguments_of(changes: Sequence[Change], *, each: bool = False) -> list[bytes]:
    """Return changes as ``lua/shared/records.lua`` takes them, without settlements."""
    arguments = [b"each" if each else b"all"]
    for change in changes:
        match change:
            case Put(kind, record, expects, time_to_live):
                version = b"next" if expects is Expects.COUNTED else b"%d" % record.version
                least, most = {
                    Expects.ANY: (b"0", _GREATEST),
                    Expects.COUNTED: (b"0", _GREATEST),
                    Expects.NOT_NEWER: (b"0", version),
                    Expects.FOLLOWS: (b"%d" % (record.version - 1),) * 2,
                }[expects]
                lasts = b"" if time_to_live is None else b"%d" % milliseconds(time_to_live)
                place = (
                    [b"last" if kind.lasting else b"list", kind.name.encode(), record.key]
                    if kind.listed
                    else [b"put", _place(kind, record.key).encode(), b""]
                )
                arguments += [*place, version, least, most, record.value, lasts]
            case Delete(kind, key, last) if kind.listed:
                arguments += _filled(b"unlist", kind.name.encode(), key, last or key)
            case Delete(kind, key):
                arguments += _filled(b"drop", _place(kind, key).encode())
            case Get(kind, key) if kind.listed:
                arguments += _filled(b"look", kind.name.encode(), key, _required(change))
            case Get(kind, key):
                arguments += _filled(b"get", _place(kind, key).encode(), b"", _required(change))
            case Now():
                arguments += _filled(b"now")
            case Settle() | Fail():
                pass
            case Append(log, _, line, about):
                most = b"" if log.most is None else b"%d" % log.most
                arguments += _filled(b"add", log.name.encode(), about, line.encode(), most)
            case _:
                assert_never(change)
    return arguments


def _asked(change: Change) -> Sequence[bytes]:
    """Return the wish for an entry, and its digest."""
    match change:
        case Settle(settlement, once):
            return asked_of(settlement, once=once), digest(settlement.uuid)
        case Fail(key, fence):
            return failing(fence), key
        case _:
            return ()


def _required(change: Get) -> bytes:
    if not change.required:
        return b""
    return b"any" if change.version is None else b"%d" % change.version


def _filled(*arguments: bytes) -> Sequence[bytes]:
    return [*arguments, *[b""] * (8 - len(arguments))]


def _answer(change: Change, reply: int | bytes) -> Record | None:
    if isinstance(change, Get):
        return _record(change.key, reply) if isinstance(reply, bytes) else None
    if isinstance(change, Now) and isinstance(reply, int):
        return Record(b"", b"", at=instant(reply))
    if not isinstance(change, Put):
        return None
    if isinstance(reply, int):
        return replace(change.record, at=instant(reply))
    return _record(change.record.key, reply)


def _newest_first(pairs: Sequence[bytes]) -> Sequence[Record]:
    """Return the records of a hash, the greatest key first."""
    records = map(_record, pairs[::2], pairs[1::2])
    return sorted((record for record in records if record is not None), key=attrgetter("key"), reverse=True)


def _record(key: bytes, text: bytes) -> Record | None:
    if not text:
        return None
    head = _TEXT.match(text)
    if head is None:
        return Record(key, text, 0)
    return Record(key, text[head.end() :], int(head[1]), instant(int(head[2] or 0)))


def _at(name: bytes) -> datetime:
    """Return when an entry was added; its name has the time."""
    return instant(int(name.partition(b"-")[0]))


def _place(kind: Kind, key: bytes) -> str:
    return f"{kind.name}:{key.hex()}"
