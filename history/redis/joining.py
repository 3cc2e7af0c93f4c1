"""Joins in Redis, in the slot of the document history; ``lua/joining/head.lua`` describes the keys."""

import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from history.beside.firsts import RecordedFirsts
from history.entry import Fence, digest
from history.redis.connection.client import RedisClient
from history.redis.records import RedisRecords
from history.redis.scripts import ScriptsOfTriggers
from history.store import instant, milliseconds
from history.store.joining import Added, Addition, Hold, JoinPart, JoinTerms, Period, PeriodState
from history.store.sealing import document_of_part, opened_part
from history.support.encryption import Cipher

#: The digest and the fence before each message.
_PART = struct.Struct(">16sQ")

#: The beginning of a part's field; its destination follows.
_PLACE = b"p "

#: How many periods one script hands out or shows: each may hold several messages of a megabyte.
PIECE = 20


class RedisJoining(RecordedFirsts):
    """Joins in Redis; each method is one or a few scripts. One script adds a part and completes its entry.

    Guarantee: a part that ``add`` has stored is as safe as the history in Redis. Redis runs a script
    completely or not at all.
    """

    def __init__(self, client: RedisClient, cipher: Cipher | None = None) -> None:
        super().__init__(RedisRecords(client))
        self._scripts = ScriptsOfTriggers(client)
        self._cipher = cipher

    async def add(self, trigger: str, part: JoinPart, terms: JoinTerms, hold: Hold) -> Added:
        """Store a part and complete its entry, or do neither; see :class:`~history.store.joining.Joining`."""
        words = [
            digest(part.uuid),
            b"%d" % part.fence,
            _encoded(part.activation),
            _encoded(part.destination),
            document_of_part(trigger, part, self._cipher).encode(),
            _duration(terms.time_out),
            hold.owner.encode(),
            _duration(hold.duration),
            *map(_encoded, terms.destinations),
        ]
        answer, *period = await self._run(trigger, "joining/add", words)
        return Added(Addition(answer.decode()), self._period(trigger, *period[0]) if period else None)

    async def due(self, trigger: str, hold: Hold, *, limit: int = 10) -> Sequence[Period]:
        """Hand out periods that nobody holds; see :class:`~history.store.joining.Joining`."""
        words = [hold.owner.encode(), _duration(hold.duration), b"%d" % min(limit, PIECE)]
        return [self._period(trigger, *shown) for shown in await self._run(trigger, "joining/due", words)]

    async def keep(self, trigger: str, numbers: Sequence[int], hold: Hold) -> None:
        """Hold periods for longer."""
        words = [hold.owner.encode(), _duration(hold.duration), *(b"%d" % number for number in numbers)]
        await self._run(trigger, "joining/keep", words)

    async def finish(self, trigger: str, number: int) -> bool:
        """Forget a period."""
        return bool(await self._run(trigger, "joining/finish", [b"%d" % number]))

    async def waiting(self, trigger: str, *, limit: int = 100) -> Sequence[Period]:
        """Return the periods that are not finished, in the order in which they are due."""
        found: dict[int, Period] = {}
        for first in range(0, limit, PIECE):
            words = [b"%d" % first, b"%d" % min(PIECE, limit - first)]
            shown = await self._run(trigger, "joining/waiting", words)
            some = [self._period(trigger, *one) for one in shown]
            found |= {period.number: period for period in some}
            if len(some) < PIECE:
                break
        return list(found.values())

    async def _run(self, trigger: str, name: str, words: Sequence[bytes]) -> Any:
        return await self._scripts[trigger].run(name, words)

    def _period(self, trigger: str, number: bytes, fields: Sequence[bytes]) -> Period:
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        activation = _decoded(values[b"activation"])
        stored = [(name, value) for name, value in values.items() if name.startswith(_PLACE)]
        parts = [self._part(trigger, activation, name, value) for name, value in stored]
        return Period(
            number=int(number),
            activation=activation,
            state=PeriodState(values[b"state"].decode()),
            started_at=instant(int(values[b"started"])),
            parts={part.destination: part for part in parts},
            taken=int(values[b"taken"]),
        )

    def _part(self, trigger: str, activation: str, name: bytes, value: bytes) -> JoinPart:
        _, fence = _PART.unpack_from(value)
        destination, document = _decoded(name[len(_PLACE) :]), value[_PART.size :].decode()
        return opened_part(
            trigger, activation, destination, Fence(fence), document=document, cipher=self._cipher
        )


def _duration(duration: timedelta | None) -> bytes:
    return b"-1" if duration is None else b"%d" % milliseconds(duration)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogatepass")
