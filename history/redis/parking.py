"""The parking lot in Redis: for each trigger the parked messages, their labels, and their order by time.

``lua/parking/label.lua`` describes the keys.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from history.entry import Settlement, digest
from history.redis.connection.client import TRIGGERS_KEY, RedisClient, keys_of
from history.redis.replies import asked_of
from history.redis.scripts import ScriptsOfTriggers
from history.store.decisions import (
    Decided,
    DecisionKind,
    DecisionPage,
    DecisionRecord,
    OperatorDecision,
    message_text,
    record_of,
)
from history.store.parking import (
    LabelPage,
    Parked,
    ParkedLabel,
    all_labels,
    encodable,
    oldest_first,
)
from history.store.sealing import document_of, label_of, read_document, read_label
from history.support.encryption import Cipher
from history.support.spoilt import readable

#: How many messages one command writes.
PIECE = 200

#: How many messages, of up to a megabyte each, one command reads.
READ = 20

#: How many ids one command reads.
PAGE = 1000


class RedisParking:
    """Parked messages of each trigger in ``...:parked`` (id -> JSON) and ``...:parked:order`` (by time)."""

    def __init__(self, client: RedisClient, cipher: Cipher | None = None) -> None:
        self.cipher = cipher
        self._redis = client
        self._scripts = ScriptsOfTriggers(client)

    async def park(self, parked: Sequence[Parked]) -> None:
        """Park messages; if a crash between two steps leaves an id without its message, it is not shown."""
        client = self._redis.client
        for name in dict.fromkeys(message.trigger_name for message in parked):
            (messages,) = keys_of(name, "parked")
            mine = [message for message in parked if message.trigger_name == name]
            await self._call(client.sadd, TRIGGERS_KEY, name)
            for start in range(0, len(mine), PIECE):
                some = mine[start : start + PIECE]
                await self._scripts[name].run(
                    "parking/label", [word for one in some for word in _label(one, self.cipher)]
                )
                texts = {message.id: document_of(message, self.cipher) for message in some}
                # After the others, so a replica that has this write has all of them.
                keep = partial(_keep, messages, texts)
                await self._redis.write("using the parking lot", keep)

    async def get(self, parked_id: str, *, trigger: str | None = None) -> Parked | None:
        """Return the parked message with this beginning of an id, if only one has it."""
        found: list[Parked] = []
        for name in await self._triggers(trigger):
            (order,) = keys_of(name, "parked:order")
            beginning = parked_id.encode()
            whole = await self._read(name, [beginning])
            if whole:
                found += whole
                continue
            ids = {id_ async for id_ in self._ids(order) if id_.startswith(beginning)}
            found += await self._read(name, sorted(ids)[:2])
        return found[0] if len(found) == 1 else None

    async def _ids(self, order: str) -> AsyncIterator[bytes]:
        """Yield the ids of all messages, page by page; an id may come twice."""
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
            (order,) = keys_of(name, "parked:order")
            for first in range(0, limit, PAGE):
                last = min(first + PAGE, limit) - 1
                ids = await self._call(self._redis.client.zrange, order, first, last)
                found += await self._read(name, ids)
                if len(ids) < PAGE:
                    break
        return sorted(found, key=lambda message: (message.parked_at, message.id))[:limit]

    async def labels(
        self, *, trigger: str | None = None, cursor: str | None = None, limit: int = 200
    ) -> LabelPage:
        """Return some labels; the cursor is Redis's, and the trigger at which the walk is."""
        names = await self._triggers(trigger)
        at, _, current = (cursor or "0 ").partition(" ")
        here = names if cursor is None else [name for name in names if name >= current]
        if not here:
            return LabelPage([], None)
        # Where the trigger of the cursor is gone, the next one begins at its own beginning.
        place = int(at) if here[0] == current else 0
        (order,) = keys_of(here[0], "parked:order")
        place, pairs = await self._call(partial(self._redis.client.zscan, order, place, count=limit))
        labels = await self._labels(here[0], pairs)
        if place:
            return LabelPage(labels, f"{place} {here[0]}")
        return LabelPage(labels, f"0 {here[1]}" if len(here) > 1 else None)

    async def of_uuid(self, uuid: str, *, trigger: str | None = None) -> Sequence[ParkedLabel]:
        """Return the labels of the messages with one uuid, by its digest."""
        wanted = encodable(uuid)
        labels: list[ParkedLabel] = []
        for name in await self._triggers(trigger):
            order, uuids = keys_of(name, "parked:order", "parked:uuids")
            first = digest(wanted)
            members = await self._call(
                self._redis.client.zrangebylex, uuids, b"[" + first, b"[" + first + b"\xff"
            )
            ids = [member[len(first) :] for member in members]
            scores = [(id_, await self._call(self._redis.client.zscore, order, id_)) for id_ in ids]
            labels += await self._labels(name, [(id_, score) for id_, score in scores if score is not None])
            if await self._call(self._redis.client.zcard, order) > await self._call(
                self._redis.client.zcard, uuids
            ):
                labels += await all_labels(self, name)  # an older version has parked some
        return oldest_first(label for label in labels if label.uuid == wanted)

    async def _labels(self, trigger: str, pairs: Sequence[tuple[bytes, float]]) -> Sequence[ParkedLabel]:
        """Return labels; messages that an older version parked or replaced have no valid label."""
        if not pairs:
            return []
        ids = [id_ for id_, _ in pairs]
        labels, copies = keys_of(trigger, "parked:labels", "parked:copies")
        texts = await self._call(self._redis.client.hmget, labels, ids)
        counts = await self._call(self._redis.client.hmget, copies, ids)
        found: list[ParkedLabel] = []
        others: list[bytes] = []
        for (id_, score), text, count in zip(pairs, texts, counts, strict=True):
            label = None if text is None else self._read_label(text)
            if label is None or label.id.encode() != id_ or label.parked_at.timestamp() != score:
                others.append(id_)
            else:
                found.append(label.model_copy(update={"copies": int(count or 1)}))
        return [*found, *(ParkedLabel.of(message) for message in await self._read(trigger, others))]

    async def remove(self, parked: Parked | ParkedLabel) -> bool:
        """Remove one message."""
        words = [parked.id.encode(), _member(parked)]
        return bool(await self._scripts[parked.trigger_name].run("parking/remove", words))

    async def count(self, *, trigger: str | None = None) -> int:
        """Count the parked messages."""
        counts = [
            await self._call(self._redis.client.hlen, *keys_of(name, "parked"))
            for name in await self._triggers(trigger)
        ]
        return sum(counts)

    async def decide(
        self, trigger: str, decision: OperatorDecision, chosen: Sequence[Decided]
    ) -> Sequence[bool]:
        """Carry out a decision, and record it, in one script."""
        todo = b"note" if decision.kind is DecisionKind.RUN else b"take"
        todo = b"add" if decision.ended else todo
        words = [decision.token.encode(), decision.model_dump_json().encode(), todo]
        for one in chosen:
            words += [one.id.encode(), message_text(one).encode(), *_ending(one.settlement), _member(one)]
        answers: bytes = await self._scripts[trigger].run("parking/decide", words)
        return [answer == ord("1") for answer in answers]

    async def decisions(self, trigger: str, *, cursor: str | None = None, limit: int = 100) -> DecisionPage:
        """Return records, the newest first; the cursor is the id of the last one."""
        (key,) = keys_of(trigger, "decisions")
        before = "+" if cursor is None else f"({cursor}"
        read = partial(self._redis.client.xrevrange, key, before, "-", count=limit)
        found = await self._call(read)
        named = ((f"{entry[0].decode()} about {trigger}", entry) for entry in found)
        records = list(readable("decision", named, lambda entry: _record(trigger, *entry)))
        return DecisionPage(records, found[-1][0].decode() if len(found) == limit else None)

    async def _triggers(self, trigger: str | None) -> Sequence[str]:
        return await self._redis.triggers() if trigger is None else [trigger]

    async def _read(self, trigger: str, ids: Sequence[bytes]) -> Sequence[Parked]:
        messages, order, copies = keys_of(trigger, "parked", "parked:order", "parked:copies")
        found: list[Parked] = []
        for first in range(0, len(ids), READ):
            some = ids[first : first + READ]
            texts: Sequence[bytes | None] = await self._call(self._redis.client.hmget, messages, some)
            counts: Sequence[bytes | None] = await self._call(self._redis.client.hmget, copies, some)
            for id_, text, count in zip(some, texts, counts, strict=True):
                if text is None:
                    continue
                name, many = id_.decode(errors="replace"), int(count or 1)
                parked = read_document(text, cipher=self.cipher, trigger=trigger, parked_id=name, copies=many)
                if parked.parked_at.timestamp() == 0:  # its own record does not have the time
                    at = await self._call(self._redis.client.zscore, order, id_)
                    parked = parked.model_copy(update={"parked_at": datetime.fromtimestamp(at or 0, UTC)})
                found.append(parked)
        return found

    async def _call(self, command: Any, *arguments: Any) -> Any:
        return await self._redis.call("using the parking lot", lambda: command(*arguments))

    def _read_label(self, text: bytes) -> ParkedLabel | None:
        try:
            return read_label(text, self.cipher)
        except ValidationError:
            return None


def _label(parked: Parked, cipher: Cipher | None) -> list[bytes]:
    at = repr(parked.parked_at.timestamp()).encode()
    return [parked.id.encode(), at, label_of(parked, cipher).encode(), _member(parked)]


def _member(parked: Parked | ParkedLabel | Decided) -> bytes:
    """Return the member that finds a message by its uuid; without a uuid, by that of the empty text."""
    return digest(encodable(parked.uuid or "")) + parked.id.encode()


def _ending(settlement: Settlement | None) -> tuple[bytes, bytes]:
    return (b"", b"") if settlement is None else (digest(settlement.uuid), asked_of(settlement))


def _record(trigger: str, id_: bytes, fields: dict[bytes, bytes]) -> DecisionRecord:
    at = datetime.fromtimestamp(int(id_.partition(b"-")[0]) / 1000, UTC)
    return record_of(trigger, at, fields[b"decision"], fields[b"messages"])


def _keep(messages: str, texts: dict[str, str], client: Any) -> Any:
    return client.hset(messages, mapping=texts)
