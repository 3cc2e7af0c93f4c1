"""Redis Streams: a stream is a destination, a consumer group is a subscription.

``receiver.py`` is one consumer, ``codec.py`` a message as fields, ``settings.py`` the keys and the settings,
``link.py`` the edge to the driver, and ``lua/`` has the steps that must be atomic.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self, cast
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import Message
from history.redis.connection.deployments import LateCluster
from history.redis.connection.durability import Durability
from history.redis.connection.probe import pool_of
from history.store.inspection import Refusal
from history.store.owners import process_token
from triggers.providers.backlog import Backlog, Place, in_order
from triggers.providers.brokers.sending import is_later
from triggers.providers.redis_streams.codec import adding_later, encode, message_id, named_later
from triggers.providers.redis_streams.link import PATIENCE, Client, RedisLink
from triggers.providers.redis_streams.receiver import StreamReceiver
from triggers.providers.redis_streams.settings import StreamKeys, StreamSettings, later_of, name_in_use
from triggers.providers.redis_streams.subscriptions import (
    StreamSubscription,
    backlogs_of,
    subscriptions_of,
    unsubscribe,
)
from triggers.service.checking import check_able, check_kind

_log = logging.getLogger(__name__)

DEFAULTS = StreamSettings()

#: The prefix of such a stream; sending there does not create it again.
TEMPORARY = "doubtless:temporary:"

#: How long the stream outlives a consumer that died, in milliseconds: one hour.
AFTERLIFE = 3_600_000


class RedisStreams:
    """Destinations in Redis Streams, over a blocking or an asyncio redis-py client; safe between threads.

    A destination is the key of a stream as it is. A subscription is a consumer group that begins with the
    stream's first entry. A consumer is a consumer of the group; no other may use its ``name`` while it runs.
    Entries have the fields of :mod:`triggers.providers.redis_streams.codec`; other entries arrive as
    ``Unreadable``. Dead letters of ``orders`` go to the stream ``{orders}:dlq``, with ``dead-letter-reason``.
    Needs Redis 6.2 or newer; on a Cluster, all keys of a stream share its slot.

    The delivery count is exact: how many times the entry was handed to a consumer. It includes entries that
    were prefetched but never started, and replies lost on the way. When a consumer dies, or is silent for
    longer than ``claim_idle``, another takes over what it held within ``reclaim_interval``, and the count
    grows by one. Recovered messages wait under the consumer name ``doubtless:waiting``.

    A message with a future delivery time comes to the stream when it is due, by the sender's clock. While a
    consumer of the destination is running, it is at most ``reclaim_interval`` late.

    Args:
        client: a ``redis.Redis`` or ``redis.RedisCluster``, or its asyncio twin. It leaves answers undecoded,
            retries nothing (``retry=Retry(NoBackoff(), 0)``), and waits for an answer longer than
            ``reclaim_interval``, but not for ever. :meth:`from_url` makes such a client.
        settings: see :class:`~triggers.providers.redis_streams.settings.StreamSettings`.
        url: where :meth:`for_asyncio` finds the same server.

    Raises:
        ConfigurationError: the client is not as described above.

    Guarantee: in doubt, or what the trigger's effects add to it (fenced, atomic). By itself: each
    subscription gets every message until it acknowledges it. Nothing is lost while Redis keeps its data,
    which needs ``appendfsync always``; with ``everysec`` a crash of the server may lose the last second.
    """

    def __init__(
        self, client: Client, settings: StreamSettings = DEFAULTS, *, url: str | None = None
    ) -> None:
        _check(client, settings)
        self._link = RedisLink(client)
        self._settings = settings
        self._durability = Durability.of(settings.durability, cluster=pool_of(client) is None)
        self._url = url
        # One for all consumers: after a lost reply, a second open must not take its own name for another's.
        self._token = uuid4().hex
        self._open: set[StreamKeys] = set()
        self._opening = threading.Lock()
        self._warned: set[str] = set()

    @classmethod
    def from_url(cls, url: str, *, asyncio: bool = False) -> Self:
        """Make a provider for ``redis://host:6379/0?claim_idle=10``; it does not connect yet.

        The query holds the settings: ``claim_idle`` and ``reclaim_interval`` in seconds, ``trim``
        (``acknowledged``, ``never`` or seconds), ``maxlen`` and ``durability``. redis-py gets all others.
        """
        settings, redis_url = StreamSettings.from_url(url)
        patience = settings.reclaim_interval.total_seconds() + PATIENCE
        client = RedisLink.client_for(redis_url, asyncio=asyncio, patience=patience)
        return cls(client, settings, url=url)

    def for_asyncio(self) -> "RedisStreams":
        """Return a provider over an asyncio client of the same server; close it separately.

        Raises:
            ConfigurationError: the provider was made from a client without a URL.
        """
        if self._link.is_asyncio:
            return self
        if self._url is None:
            raise ConfigurationError(
                "provider",
                "an asyncio client cannot be made of the given client",
                "hand over a redis.asyncio.Redis",
            )
        return RedisStreams.from_url(self._url, asyncio=True)

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Append messages to a stream, a few hundred in a round trip, and return their JMSMessageIDs.

        Messages with a future delivery time wait beside the stream until a receiver moves them into it.
        """
        # One instant for all: a batch that becomes due during the send must not be split and lose its order.
        now = datetime.now(UTC)
        messages = [
            named_later(destination, message) if is_later(message, now) else message for message in messages
        ]
        commands = [self._adding(destination, message, now) for message in messages]
        answers = await self._link.call_many("sending", commands, durability=self._durability)
        added = cast("list[bytes | None]", answers)
        if None in added:
            _log.info("temporary stream %s no longer exists: a message to it was dropped", destination)
        return [
            message.message_id or message_id(destination, entry_id or b"gone")
            for message, entry_id in zip(messages, added, strict=True)
        ]

    def _adding(self, destination: str, message: Message, now: datetime) -> tuple[object, ...]:
        if is_later(message, now):
            return adding_later(destination, message)
        maxlen = self._settings.maxlen
        trimming = () if maxlen is None else ("MAXLEN", "~", maxlen)
        if destination.startswith(TEMPORARY):
            trimming = ("NOMKSTREAM", *trimming)
        return ("XADD", destination, *trimming, "*", *encode(message))

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> StreamReceiver:
        """Open a consumer; a missing stream or subscription is created."""
        keys = StreamKeys(destination, subscription, name)
        with self._opening:
            if keys in self._open:
                raise name_in_use(keys, self._settings.claim_idle)
            self._open.add(keys)
            self._warn_of_growth(destination)
        # A forked child also has the provider's token, but is another consumer.
        token = f"{self._token}:{process_token()}"
        left = partial(self._open.discard, keys)
        receiver = StreamReceiver(self._link, keys, self._settings, token=token, left=left)
        try:
            await receiver.open()
        except BaseException:
            left()
            raise
        return receiver

    async def open_for_many(self, destination: str, *, subscription: str, name: str) -> StreamReceiver:
        """Open a consumer for many tasks; see :class:`~triggers.providers.provider.ServingMany`."""
        receiver = await self.open_receiver(destination, subscription=subscription, name=name)
        receiver.serves_many = True
        return receiver

    def _warn_of_growth(self, stream: str) -> None:
        if self._settings.trims or self._settings.maxlen is not None or stream in self._warned:
            return
        self._warned.add(stream)
        _log.warning(
            "stream %s keeps all its entries for ever, as trim=never is set: "
            "give an age in seconds, or maxlen, or trim it yourself",
            stream,
        )

    async def open_temporary(self, purpose: str) -> tuple[str, StreamReceiver]:
        """Open the only consumer of a new stream that is deleted when it closes, or an hour after it died."""
        # The hash tag makes the keys beside the stream begin like it: permissions go by the prefix.
        stream = f"{TEMPORARY}{{{purpose}:{uuid4().hex}}}"
        keys, settings = StreamKeys(stream, "temporary", "owner"), replace(self._settings, trim=True)
        receiver = TemporaryReceiver(
            self._link, keys, settings, token=f"{self._token}:{process_token()}", left=lambda: None
        )
        await receiver.open()
        return stream, receiver

    async def subscriptions(self, destination: str) -> Sequence[StreamSubscription]:
        """Return the subscriptions of a stream, and what each of them keeps in it.

        Raises:
            ProviderUnavailableError: the server did not answer.
        """
        return await subscriptions_of(self._link, destination)

    async def backlogs(self, places: Sequence[Place]) -> Sequence[Backlog]:
        """Return what waits for all subscriptions of these streams, in three round trips for each stream.

        Redis 7.0 and newer report how many entries were not read. If the server does not know, we count page
        by page, up to 10,000 entries or a mebibyte of them; ``is_more`` says that more entries exist.
        """
        streams = dict.fromkeys(stream for stream, _ in places)
        backlogs = [backlog for stream in streams for backlog in await backlogs_of(self._link, stream)]
        by_pair = {(backlog.destination, backlog.subscription): backlog for backlog in backlogs}
        # A subscription that does not exist yet begins with the stream's first entry.
        new = [
            replace(begins, subscription=pair[1])
            for pair in places
            if pair not in by_pair and (begins := by_pair.get((pair[0], None))) is not None
        ]
        return in_order(
            [backlog for backlog in [*backlogs, *new] if backlog.subscription is not None], places
        )

    async def unsubscribe(self, destination: str, subscription: str, *, force: bool = False) -> bool:
        """End a subscription, so that nothing is kept for it; False if it does not exist.

        ``force`` also ends a subscription with unread or unacknowledged entries, and gives these up.

        Raises:
            ConfigurationError: it has a running consumer, or keeps entries, without ``force``.
            ProviderUnavailableError: the server did not answer.
        """
        return await unsubscribe(self._link, destination, subscription, force=force)

    async def ping(self) -> None:
        """Return when the server answers.

        Raises:
            ProviderUnavailableError: it does not.
        """
        await self._link.call("looking whether it is there", "PING")

    async def check_room(self, receivers: int) -> None:
        """Return if so many receivers can wait at a time: each needs a connection.

        Raises:
            ConfigurationError: the pool of connections or the server's ``maxclients`` is smaller.
            ProviderUnavailableError: the server does not answer.
        """
        await self._link.check_room(receivers)

    async def refusals(self, destination: str, subscription: str | None) -> Sequence[Refusal]:
        """Return which commands and keys the account is refused.

        Raises:
            ProviderUnavailableError: the server does not answer.
            NotPermittedError: the account may not use MULTI, so it cannot be checked.
        """
        from triggers.providers.redis_streams.permissions import use_of  # noqa: PLC0415  (no consumer asks)

        waits = self._durability is not None
        return await self._link.refusals([use_of(destination, subscription, waits=waits)])

    async def close(self) -> None:
        """Close the connections. Close the receivers before."""
        await self._link.close()


def _check(client: Client, settings: StreamSettings) -> None:
    """Refuse a client with settings that would lose or repeat things. A Cluster's time-out is not known."""
    remedy = "give a client of redis-py, or write RedisStreams.from_url('redis://...')"
    check_able("client", client, ("execute_command", "pipeline"), remedy)
    check_kind("settings", settings, StreamSettings, "give StreamSettings(...)")
    pool = pool_of(client)
    options: dict[str, Any] = getattr(pool, "connection_kwargs", {})
    if cast("Any", client).get_encoder().decode_responses:
        raise ConfigurationError(
            "client",
            "has decode_responses=True, but bodies are bytes",
            "create it with decode_responses=False",
        )
    if (retries := _retries_of(client, pool)) > 0:
        raise ConfigurationError(
            "client",
            f"sends a command again {retries} times, so messages could be doubled",
            "create it with retry=Retry(NoBackoff(), 0)",
        )
    timeout = options.get("socket_timeout")
    wait = settings.reclaim_interval.total_seconds()
    if timeout is not None and timeout <= wait:
        raise ConfigurationError(
            "client",
            f"its socket_timeout of {timeout} s is shorter than a read may wait ({wait} s)",
            "make it longer",
        )


def _retries_of(client: Client, pool: Any) -> int:
    """Return how often a client sends a command again if no answer comes."""
    if isinstance(client, LateCluster):  # its retry is ours, and reading it would connect
        return 0
    retry = getattr(client, "retry", None) if pool is None else pool.connection_kwargs.get("retry")
    return 0 if retry is None else int(retry.get_retries())


class TemporaryReceiver(StreamReceiver):
    """The consumer of a temporary stream: it trims acknowledged entries, and at last deletes the stream."""

    async def open(self) -> None:
        """Create the stream, and let it expire unless it is kept alive."""
        await super().open()
        await self._outlive()

    async def keep_alive(self) -> None:
        """As any consumer; it also puts off the end of the stream."""
        await super().keep_alive()
        if not self._closed:
            await self._outlive()

    async def close(self) -> None:
        """Leave, and delete the stream."""
        if self._closed:
            return
        await super().close()
        stream = self._keys.stream
        await self._link.call("deleting a temporary stream", "DEL", stream, later_of(stream))

    async def _outlive(self) -> None:
        await self._link.call("keeping a temporary stream", "PEXPIRE", self._keys.stream, AFTERLIFE)
