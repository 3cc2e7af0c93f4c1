"""One Redis client for the blocking and the asyncio form of everything that Redis stores."""

# The first connection would import it, and a fork meanwhile would break its child.
import encodings.idna  # noqa: F401  # pyright: ignore[reportUnusedImport]
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

import redis
import redis.asyncio

from history.bridge import settled
from history.circuit import Circuit
from history.errors import ConfigurationError, HistoryUnavailableError
from history.redis.connection.deployments import REDIS_PORT, LateCluster
from history.redis.connection.durability import Durability
from history.redis.connection.errors import (
    REDIS_ERRORS,
    FaultKind,
    configuration_error,
    is_elsewhere,
    is_wrong_type,
    kind_of,
    with_next_step,
)
from history.redis.connection.forks import survive_forks
from history.redis.connection.probe import answers, close_client, hang_up, pool_of, stranger_at
from history.redis.connection.urls import open_client, split_circuit
from history.redis.connection.wires import Wires
from history.support.urls import split_option

T = TypeVar("T")

#: How long connecting or an answer may take before the server counts as unavailable, in seconds.
TIMEOUT = 5.0

#: How many names one command reads.
PAGE = 1000

#: Says that a key exists and cannot be used. Redis does not name the key.
WRONG_TYPE = (
    "one of its keys doubtless:* has a wrong type (WRONGTYPE), because another program writes there; restore "
    "this key, or delete it and accept the loss (docs/how-to/run-on-redis.md, Key of a wrong type)"
)

#: The names of all triggers with data in this Redis.
TRIGGERS_KEY = "doubtless:triggers"


def keys_of(trigger: str, *names: str) -> list[str]:
    """Return a trigger's keys. They share a hash tag, so that Redis Cluster keeps them in one slot.

    What belongs to no trigger has the tag ":", which is not the tag of any trigger.
    """
    tag = "doubtless:{" + (quote(trigger, safe="") or ":") + "}:"
    return [tag + name for name in names]


class RedisClient:
    """A redis-py client, blocking or asyncio, with our own retries.

    redis-py's own retries are off: if a reply was lost, it would send the command again, and take its own
    first write for another client's. Here a lost connection is opened again once, and only for calls that may
    be sent twice. All writes of the history may. The same happens if a server does not accept writes any
    more: its address may lead to another server by now.

    While the server does not answer, calls fail immediately (see :mod:`history.circuit`), unless ``circuit``
    is false. A cluster has no circuit: if one node is unavailable, this tells nothing about the others.

    Raises:
        ConfigurationError: the client decodes replies, but the stored bytes are not text.
    """

    def __init__(
        self, client: Any, url: str | None = None, *, circuit: bool = True, durability: str | None = None
    ) -> None:
        if isinstance(client, str):
            raise ConfigurationError(
                "history", "this needs a redis-py client, not a URL", "use open_history(URL)"
            )
        if client.get_encoder().decode_responses:
            raise ConfigurationError(
                "history",
                "its Redis client has decode_responses=True, but bytes are stored",
                "create it without",
            )
        survive_forks(client)
        self.client = client
        self.url = url
        self.is_asyncio = isinstance(client, redis.asyncio.Redis | redis.asyncio.RedisCluster)
        self.is_cluster = isinstance(client, redis.RedisCluster | redis.asyncio.RedisCluster)
        self.durability = Durability.of(durability, cluster=self.is_cluster)
        pool = pool_of(client)
        #: None for a cluster: its client has a pool for each node, and finds the node by the key.
        self.wires = None if pool is None else Wires(pool, waits=self.is_asyncio)
        #: Grows when the nodes of a cluster may have changed, because its client does not report this.
        self.doubts = 0
        self.circuit = Circuit(
            f"Redis at {_address_of(pool)}",
            partial(answers, pool, waits=self.is_asyncio),
            enabled=circuit and pool is not None,
        )

    @classmethod
    def from_url(cls, url: str, *, asyncio: bool = False, options: Sequence[str] = ()) -> "RedisClient":
        """Make a client for ``url``; it does not connect yet.

        The URL may have ``?circuit=off`` and ``?durability=replicas:1``. ``options`` were taken out of the
        URL by the caller, for the error about an unknown one.
        """
        redis_url, durability = split_option(url, "durability")
        redis_url, circuit = split_circuit(redis_url)
        client = open_client(
            redis_url, setting="history", asyncio=asyncio, connect=TIMEOUT, answer=TIMEOUT, options=options
        )
        return cls(client, url, circuit=circuit, durability=durability)

    def for_asyncio(self) -> "RedisClient":
        """Return a client of the same server for asyncio."""
        if self.is_asyncio:
            return self
        if self.url is None:
            raise ConfigurationError(
                "history",
                "an asyncio client cannot be made of a given client",
                "give a URL instead of the client",
            )
        return RedisClient.from_url(self.url, asyncio=True)

    async def call(self, doing: str, command: Callable[[], Awaitable[T] | T]) -> T:
        """Run one command that may be sent twice; open a lost connection once.

        Raises:
            HistoryUnavailableError: the server is unavailable, or cannot do it at present.
            ConfigurationError: with these settings it never will.
            redis.ResponseError: any other error reply.
        """
        if self.circuit.is_open:
            self.circuit.refuse(doing)
        try:
            return await settled(command())
        except REDIS_ERRORS as error:
            return await self.call_again(doing, command, error)

    async def call_again(self, doing: str, command: Callable[[], Awaitable[T] | T], error: Exception) -> T:
        """Run a command again if ``error`` says that a new connection may do it; raises as :meth:`call`."""
        lost = kind_of(error) is FaultKind.UNANSWERED and isinstance(error, redis.ConnectionError)
        if is_elsewhere(error):
            await self.hang_up()
        elif not lost:
            self._give_up(error, doing)
        try:
            return await settled(command())
        except REDIS_ERRORS as again:
            self._give_up(again, doing)

    def _give_up(self, error: Exception, doing: str) -> NoReturn:
        """Raise our error for an error of redis-py; if nobody answers, later calls fail fast."""
        match kind_of(error):
            case FaultKind.UNANSWERED:
                pool = pool_of(self.client)
                if pool is not None and (wrong := stranger_at(pool, error, setting="history")):
                    raise wrong from error
                self.circuit.open(error, sure=_failed_to_connect(error))
                raise HistoryUnavailableError(doing) from error
            case FaultKind.NOT_NOW:
                raise HistoryUnavailableError(with_next_step(doing, error)) from error
            case FaultKind.NEVER:
                raise configuration_error(error, doing, setting="history") from error
            case FaultKind.OTHER:
                if is_wrong_type(error):
                    raise HistoryUnavailableError(f"{doing}: {WRONG_TYPE}") from error
                raise error

    def address(self) -> str:
        """Name the server and its database, or a cluster's first nodes, without connecting to them."""
        client = self.client
        if self.is_cluster:
            late = isinstance(client, LateCluster)
            nodes = client.addresses if late else client.nodes_manager.startup_nodes
            return f"redis cluster:{','.join(sorted(nodes))}"
        options = client.connection_pool.connection_kwargs
        server = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        return f"redis:{server}/{options.get('db', 0)}"

    async def triggers(self) -> Sequence[str]:
        """Return the names of the triggers with data in this Redis, sorted; read a page at a time."""
        names, cursor = set[bytes](), 0
        while True:
            page = partial(self.client.sscan, TRIGGERS_KEY, cursor, count=PAGE)
            cursor, some = await self.call("naming the triggers", page)
            names.update(some)
            if cursor == 0:
                return sorted(name.decode(errors="backslashreplace") for name in names)

    async def hang_up(self) -> None:
        """Close the idle connections; the next calls look up the server's address again."""
        if self.wires is not None:
            await self.wires.close()
        await hang_up(self.client)

    async def close(self) -> None:
        """Close the connections, and end the circuit's probing."""
        self.circuit.close()
        if self.wires is not None:
            await self.wires.close()
        await close_client(self.client)


def _failed_to_connect(error: Exception) -> bool:
    """Return whether no connection holds or can be made; if not, the server may just be slow."""
    return isinstance(error, redis.ConnectionError) or "Timeout connecting" in str(error)


def _address_of(pool: Any) -> str:
    if (service := getattr(pool, "service_name", None)) is not None:
        return f"the master of {service}"
    options: dict[str, Any] = {} if pool is None else pool.connection_kwargs
    return str(
        options.get("path")
        or f"{options.get('host', 'an unknown address')}:{options.get('port', REDIS_PORT)}"
    )
