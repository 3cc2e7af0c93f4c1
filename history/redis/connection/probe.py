"""Whether a Redis answers, what else may answer at its address, and how to leave a wrong server.

After a failover behind one name, address or proxy, an open connection may lead to the old server forever: it
answers, but refuses writes. A new connection looks the name up again and finds the new one.
"""

import asyncio
import socket
from contextlib import suppress
from functools import partial
from typing import Any, cast

import redis
import redis.asyncio
import redis.sentinel
from redis.exceptions import BusyLoadingError

from history.bridge import drive, settled
from history.circuit import PROBE_TIMEOUT
from history.errors import ConfigurationError
from history.redis.connection.deployments import SentinelClient
from history.redis.connection.errors import REDIS_ERRORS, FaultKind, kind_of

_CLUSTERS = (redis.RedisCluster, redis.asyncio.RedisCluster)

#: How long to wait for a stranger, in seconds: it has just answered something else.
STRANGER_TIMEOUT = 0.5

#: PostgreSQL's SSLRequest: PostgreSQL answers with one letter, and nothing else understands it.
SSL_REQUEST = bytes.fromhex("00000008 04d2162f")

#: PostgreSQL's answers to it: yes, or no.
SSL_ANSWERS = (b"S", b"N")

#: The beginning of Redis's answer to PING: +PONG, or -NOAUTH and the like.
REDIS_ANSWERS = (b"+", b"-")


def answers(pool: Any, *, waits: bool) -> bool:
    """Send PING over a fresh connection, made as ``pool`` makes its own; block until there is an answer.

    A refusal other than LOADING also counts as an answer.
    """
    limits = {"socket_timeout": PROBE_TIMEOUT, "socket_connect_timeout": PROBE_TIMEOUT}
    if hasattr(pool, "sentinel_manager"):
        beside = _beside(pool, limits)
        return drive(_ping(partial(beside.connection_class, **beside.connection_kwargs)))
    wire = partial(pool.connection_class, **{**pool.connection_kwargs, **limits})
    # An asyncio connection gets a new event loop: the application's may be busy, or may have ended.
    return (asyncio.run if waits else drive)(_ping(wire))


def _beside(pool: Any, limits: dict[str, float]) -> Any:
    """Return a blocking pool of the master that the same Sentinels name, with separate connections.

    An asyncio pool's connections, including those to the Sentinels, belong to the application's event loop.
    """
    kind: Any = redis.sentinel
    sentinel = kind.Sentinel([])
    for client in pool.sentinel_manager.sentinels:
        sentinel.sentinels.append(SentinelClient(**_account(client.connection_pool), **cast("Any", limits)))
    account = {name: value for name, value in _account(pool).items() if name not in {"host", "port"}}
    return kind.SentinelConnectionPool(pool.service_name, sentinel, **account, **limits)


def _account(pool: Any) -> dict[str, Any]:
    """Return the server, the account and the encryption of a pool's connections."""
    names = {"host", "port", "db", "username", "password"}
    given = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if name in names or name.startswith("ssl_")
    }
    encrypted = issubclass(pool.connection_class, redis.SSLConnection | redis.asyncio.SSLConnection)
    return {**given, "ssl": True} if encrypted else given


async def _ping(connection: Any) -> bool:
    wire = connection()
    try:
        await settled(wire.connect())
        await settled(wire.send_command("PING"))
        await settled(wire.read_response())
    except redis.RedisError as error:
        return kind_of(error) is not FaultKind.UNANSWERED and not isinstance(error, BusyLoadingError)
    finally:
        await settled(wire.disconnect())
    return True


def stranger_at(pool: Any, error: Exception, *, setting: str) -> ConfigurationError | None:
    """Return the error for a server that hung up, or failed the handshake, because it is of another kind.

    PostgreSQL hangs up on an unknown protocol. A Redis without TLS waits for the rest of what it takes for a
    command. Both look like an unavailable server. This blocks for a moment, and only if it may be so.
    """
    address = pool.connection_kwargs.get("host"), pool.connection_kwargs.get("port")
    text, where = str(error), f"{address[0]}:{address[1]}"
    if None in address:
        return None
    if issubclass(pool.connection_class, redis.SSLConnection | redis.asyncio.SSLConnection):
        if "Timeout connecting" in text and _ask(address, b"PING\r\n") in REDIS_ANSWERS:
            return ConfigurationError(setting, f"the Redis at {where} does not use TLS", "use redis://")
        return None
    hung_up = "closed by server" in text or "reset by peer" in text
    # A Redis that has just restarted answers the first question; only a stranger gets the second one.
    if hung_up and not _ask(address, b"PING\r\n") and _ask(address, SSL_REQUEST) in SSL_ANSWERS:
        return ConfigurationError(
            setting, f"the server at {where} is PostgreSQL, not Redis", "check host and port"
        )
    return None


def _ask(address: Any, question: bytes) -> bytes:
    try:
        with socket.create_connection(address, STRANGER_TIMEOUT) as line:
            line.sendall(question)
            return line.recv(1)
    except OSError:
        return b""


async def hang_up(client: Any) -> None:
    """Close the idle connections of a redis-py client, blocking or asyncio; the next call opens new ones.

    Calls keep the connections in use, and find out by themselves.
    """
    # A connection that cannot be closed is broken, and is opened again as well.
    with suppress(*REDIS_ERRORS, OSError):
        if isinstance(client, _CLUSTERS):
            await _hang_up_cluster(client)
        elif (own := getattr(client, "connection", None)) is not None:
            await settled(own.disconnect())  # a client with a single connection outside of any pool
        else:
            await settled(client.connection_pool.disconnect(inuse_connections=False))


def pool_of(client: Any) -> Any:
    """Return the pool of a client; None for a Cluster, which has one for each node."""
    return None if isinstance(client, _CLUSTERS) else client.connection_pool


async def close_client(client: Any) -> None:
    """Close a redis-py client, blocking or asyncio, and its connections to Sentinels."""
    sentinel = getattr(pool_of(client), "sentinel_manager", None)
    for opened in (client, *(() if sentinel is None else sentinel.sentinels)):
        blocks = isinstance(opened, redis.Redis | redis.RedisCluster)
        await settled(opened.close() if blocks else opened.aclose())


async def _hang_up_cluster(client: Any) -> None:
    """Close the connections to each node, and read again which node serves which slots."""
    for node in client.get_nodes():
        if isinstance(client, redis.asyncio.RedisCluster):
            await node.disconnect_free_connections()
        elif node.redis_connection is not None:
            node.redis_connection.connection_pool.disconnect(inuse_connections=False)
    await settled(client.nodes_manager.initialize())
