"""Commands, states and statistics in Redis: one small hash; ``lua/control/head.lua`` describes it."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from history.redis.connection.client import RedisClient
from history.redis.connection.deployments import LateCluster
from history.redis.scripts import text_of
from history.store import instant, milliseconds
from history.store.control import (
    FORGOTTEN_AFTER,
    GONE_AFTER,
    REPORTED,
    Beat,
    Counts,
    Heard,
    Order,
    Overview,
    Report,
    Verb,
)
from history.store.parking import encodable
from history.support.spoilt import readable

#: The one key for all triggers: a beat reports all triggers of a consumer in one round trip.
CONTROL_KEY = "doubtless:control"

_KINDS = {True: "lasts", False: "passes"}


class RedisControl:
    """Commands, states and statistics in the hash ``doubtless:control``.

    Each method is one script, or one script for each page of the hash.
    """

    def __init__(self, client: RedisClient) -> None:
        self._redis = client

    @property
    def address(self) -> str:
        """The server and its database, or a cluster's first nodes; this does not connect to them."""
        if self._redis.is_cluster:
            client = self._redis.client
            late = isinstance(client, LateCluster)
            nodes = client.addresses if late else client.nodes_manager.startup_nodes
            return f"redis cluster:{','.join(sorted(nodes))}"
        options = self._redis.client.connection_pool.connection_kwargs
        server = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        return f"redis:{server}/{options.get('db', 0)}"

    async def beat(self, token: str, reports: Sequence[Report]) -> Heard:
        """Store reports, and return the commands of their triggers."""
        words = [word for report in reports for word in (report.trigger, report.model_dump_json())]
        now, *standing = await self._run("control/beat", token, *words)
        names = [report.trigger for report in reports for _ in _KINDS]
        orders = _orders(
            [(name, text) for name, text in zip(names, standing, strict=True) if text is not None]
        )
        return Heard(instant(now), orders)

    async def order(self, verb: Verb, triggers: Sequence[str], *, reason: str | None = None) -> int:
        """Give a command."""
        document = json.dumps({"verb": verb, "reason": None if reason is None else encodable(reason)})
        words = [word for name in triggers for word in (name, document)]
        number: int = await self._run("control/order", _KINDS[verb.lasts], *words)
        return number

    async def overview(self, *, silence: timedelta = GONE_AFTER) -> Overview:
        """Return everything known."""
        now, found = 0, dict[bytes, bytes]()
        async for reply in self._pages("control/read"):
            now = reply[0]
            found |= zip(reply[2][::2], reply[2][1::2], strict=True)
        fields = list(found.items())
        return Overview(
            now=instant(now),
            beats=list(_beats(fields, instant(now) - silence)),
            orders=_orders([(words[1], value) for words, value in _of_kind(fields, b"o")]),
            statistics=_statistics(fields),
            reported=frozenset(trigger for (name, trigger), _ in _of_kind(fields, b"s") if name == REPORTED),
        )

    async def clear(self, *, trigger: str | None = None) -> None:
        """Forget the sums; earlier counts are not added again."""
        async for _ in self._pages("control/clear", *([] if trigger is None else [trigger]), index=0):
            pass

    async def sweep(self, *, silence: timedelta = FORGOTTEN_AFTER) -> int:
        """Delete old reports."""
        words = self._pages("control/sweep", str(milliseconds(silence)), index=0)
        return sum([int(deleted) async for _, deleted in words])

    async def _pages(self, name: str, *words: str, index: int = 1) -> AsyncIterator[Any]:
        """Run a script for each page of the hash; its reply has the next cursor at ``index``."""
        cursor = "0"
        while True:
            reply = await self._run(name, cursor, *words)
            yield reply
            cursor = reply[index].decode()
            if cursor == "0":
                return

    async def _run(self, name: str, *words: str) -> Any:
        # The whole script, not its digest: that is cheap enough once a second, and works on a flushed server.
        client = self._redis.client
        return await self._redis.call(
            f"running {name}.lua", lambda: client.eval(text_of(name), 1, CONTROL_KEY, *words)
        )


def _of_kind(fields: Sequence[tuple[bytes, bytes]], kind: bytes) -> Iterator[tuple[tuple[str, str], bytes]]:
    """Return the fields "<kind> <word> <trigger>" as word and trigger, with their values."""
    for field, value in fields:
        if field.startswith(kind + b" "):
            _, word, trigger = field.decode().split(" ", 2)
            yield (word, trigger), value


def _beats(fields: Sequence[tuple[bytes, bytes]], least: datetime) -> Iterator[Beat]:
    words = ((f"{token} says of {trigger}", value) for (token, trigger), value in _of_kind(fields, b"c"))
    for beat in readable("what the consumer", words, _beat):
        if beat.beat_at >= least and not beat.report.leaving:
            yield beat


def _beat(value: bytes) -> Beat:
    milliseconds, _, document = value.partition(b" ")
    return Beat(Report.model_validate_json(document), instant(int(milliseconds)))


def _statistics(fields: Sequence[tuple[bytes, bytes]]) -> dict[str, Counts]:
    found: dict[str, dict[str, int]] = {}
    for (name, trigger), value in _of_kind(fields, b"s"):
        if name in Counts.model_fields and value.isdigit():  # other programs wrote the rest
            found.setdefault(trigger, {})[name] = int(value)
    return {trigger: Counts(**counts) for trigger, counts in found.items()}


def _orders(given: Sequence[tuple[str, bytes]]) -> Sequence[Order]:
    named = ((trigger, (trigger, text)) for trigger, text in given)
    return list(readable("an order to", named, lambda order: _order(*order)))


def _order(trigger: str, text: bytes) -> Order:
    number, given_at, document = text.split(b" ", 2)
    return Order(trigger=trigger, number=int(number), given_at=instant(int(given_at)), **json.loads(document))
