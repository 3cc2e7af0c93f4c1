"""From a URL to a client of several Redis servers: behind Sentinel, or a Cluster.

    redis+sentinel://user:password@a:26379,b:26379,c:26379/service/0
    redis+cluster://user:password@a:6379,b:6379

With ``rediss+`` every connection is encrypted. User, password and options are for the servers with the data;
``sentinel_username`` and ``sentinel_password`` are for the Sentinels.
"""

import threading
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

from history.errors import ConfigurationError
from history.support.urls import is_number_in, split_url

SENTINEL_PORT = 26379
REDIS_PORT = 6379

SENTINEL_REMEDY = "use redis+sentinel://a:26379,b:26379,c:26379/service/0"
CLUSTER_REMEDY = "use redis+cluster://a:6379,b:6379"

#: How many connections a pool may have if the URL does not set it: as many as its users need, because they
#: set the limit. Services that run in parallel would reach redis-py's own limit of 100.
UNBOUNDED = 2**31

#: The largest number that servers and sockets take: they store it in 32 bits.
LARGEST = 2**31 - 1


def open_sentinel(url: str, *, setting: str, asyncio: bool, **options: Any) -> Any:
    """Return a client of the server that Sentinel calls the master; each connection asks Sentinel again.

    Raises:
        ConfigurationError: no service, a database that is not a number, or a wrong address.
    """
    parts = split_url(url)
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ConfigurationError(setting, "its URL lacks the name of the Sentinel service", SENTINEL_REMEDY)
    check_database(database, setting, SENTINEL_REMEDY)
    given = _options(parts, f"/{database or 0}")
    account = {name: given.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    encrypted = {"ssl": True} if parts.scheme.startswith("rediss") else {}
    kind: Any = redis.asyncio.sentinel.Sentinel if asyncio else redis.sentinel.Sentinel
    client: Any = AsyncSentinelClient if asyncio else SentinelClient
    sentinel = kind([], **{**given, **encrypted, **options})
    sentinel.sentinels = [
        client(host=host, port=port, **account, **encrypted, **options)
        for host, port in _addresses(parts, SENTINEL_PORT, setting, SENTINEL_REMEDY)
    ]
    return sentinel.master_for(unquote(service))


class _ShownByAddress:
    """A client of a Sentinel. redis-py quotes it in errors, and before 7.4 with its password."""

    connection_pool: Any

    def __repr__(self) -> str:
        options = self.connection_pool.connection_kwargs
        return f"{options.get('host')}:{options.get('port')}"


class SentinelClient(_ShownByAddress, redis.Redis):
    """A blocking client of a Sentinel."""


class AsyncSentinelClient(_ShownByAddress, redis.asyncio.Redis):  # type: ignore[misc]  # its own bases differ
    """An asyncio client of a Sentinel."""


def open_cluster(url: str, *, setting: str, asyncio: bool, **options: Any) -> Any:
    """Return a client of a Cluster that begins with the nodes of the URL, and finds the others.

    Raises:
        ConfigurationError: the URL names a database, although a Cluster has only one, or has a wrong address.
    """
    parts = split_url(url)
    if parts.path.strip("/") not in {"", "0"}:
        raise ConfigurationError(setting, "a Redis Cluster has only database 0", CLUSTER_REMEDY)
    addresses = _addresses(parts, REDIS_PORT, setting, CLUSTER_REMEDY)
    given = {**_options(parts, "/0"), **options}
    given.pop("db", None)
    if parts.scheme.startswith("rediss"):
        given["ssl"] = True
    if asyncio:
        node: Any = import_module("redis.asyncio.cluster").ClusterNode
        return redis.asyncio.RedisCluster(startup_nodes=[node(*address) for address in addresses], **given)
    return LateCluster(addresses, given)


class LateCluster(redis.RedisCluster):
    """A blocking client of a Cluster that connects at its first use, as all other clients do.

    redis-py's connects when it is made: no service could be imported while its Cluster is unavailable.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], options: dict[str, Any]) -> None:
        # The parent's constructor did not run: its attributes are missing, so __getattr__ is called.
        self._late = addresses, options
        self._making = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        if name in {"_late", "_making"} or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        with self._making:
            if "nodes_manager" not in vars(self):
                self._connect()
        return object.__getattribute__(self, name)

    def _connect(self) -> None:
        addresses, options = self._late
        node: Any = import_module("redis.cluster").ClusterNode
        connect: Any = partial(cast("Any", redis.RedisCluster).__init__, self)
        try:
            connect(startup_nodes=[node(host, port) for host, port in addresses], **options)
        except BaseException:
            late, making = self._late, self._making
            vars(self).clear()
            self._late, self._making = late, making
            raise

    @property
    def addresses(self) -> list[str]:
        """The nodes to begin with, as ``host:port``."""
        return [f"{host}:{port}" for host, port in self._late[0]]

    def get_encoder(self) -> Any:
        """Return the encoder, without a connection."""
        encoder: Any = import_module("redis.connection").Encoder
        return encoder("utf-8", "strict", decode_responses=bool(self._late[1].get("decode_responses")))

    def close(self) -> None:
        """Close everything that was opened."""
        if "nodes_manager" in vars(self):
            super().close()


def check_database(database: str, setting: str, remedy: str) -> None:
    """Refuse a database that redis-py would silently take for 0, or that no server can have."""
    if database and not database.isdecimal():
        raise ConfigurationError(
            setting, f"the database in its URL must be a number, not {database!r}", remedy
        )
    if database and not is_number_in(database, range(LARGEST + 1)):
        problem = f"the database in its URL must be {LARGEST} or less, and has {len(database)} digits"
        raise ConfigurationError(setting, problem, remedy)


def _options(parts: SplitResult, path: str) -> dict[str, Any]:
    """Return user, password, database and the options of a URL as redis-py reads them."""
    account, _, _ = parts.netloc.rpartition("@")
    single = parts._replace(scheme="redis", netloc=f"{account}@single" if account else "single", path=path)
    options: dict[str, Any] = import_module("redis.connection").parse_url(urlunsplit(single))
    options.pop("host")
    return {"max_connections": UNBOUNDED, **options}


def _addresses(parts: SplitResult, port: int, setting: str, remedy: str) -> list[tuple[str, int]]:
    _, _, hosts = parts.netloc.rpartition("@")
    return [_address(host, port, setting, remedy) for host in hosts.split(",")]


def _address(text: str, default_port: int, setting: str, remedy: str) -> tuple[str, int]:
    try:
        address = urlsplit(f"//{text}")
        host, port = address.hostname, address.port or default_port
    except ValueError:
        host, port = None, 0
    if not host:
        raise ConfigurationError(setting, f"{text!r} must be an address, as host:port", remedy)
    return host, port
