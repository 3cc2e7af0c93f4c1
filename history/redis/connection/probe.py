"""Who is there: whether a Redis answers, what answers in its place; and leaving one that is not the right.

After a failover behind one name, one address or one proxy, an open connection may lead to the old server for
ever: it answers, and only refuses to write. A new connection looks the name up again and finds the new one.
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
from history.redis.connection.errors import REDIS_ERRORS, FaultKind, kind_of

_CLUSTERS = (redis.RedisCluster, redis.asyncio.RedisCluster)

#: How long a stranger is waited for, in seconds: it has answered something else just now.
STRANGER_TIMEOUT = 0.5

#: PostgreSQL's SSLRequest, which it answers with one letter, and nothing else understands.
SSL_REQUEST = bytes.fromhex("00000008 04d2162f")

#: What PostgreSQL says to it: yes, or no.
SSL_ANSWERS = (b"S", b"N")

#: How Redis begins its answer to PING: +PONG, or -NOAUTH and the like.
REDIS_ANSWERS = (b"+", b"-")


def answers(pool: Any, *, waits: bool) -> bool:
    """Send PING over a fresh connection, made as ``pool`` makes its own; block until there is an answer.

    A refusal is an answer, too, but for LOADING.
    """
    limits = {"socket_timeout": PROBE_TIMEOUT, "socket_connect_timeout": PROBE_TIMEOUT}
    if hasattr(pool, "sentinel_manager"):
        beside = _beside(pool, limits)
        return drive(_ping(partial(beside.connection_class, **beside.connection_kwargs)))
    wire = partial(pool.connection_class, **{**pool.connection_kwargs, **limits})
    # An asyncio connection gets an event loop of its own: the application's may be busy, or over.
    return (asyncio.run if waits else drive)(_ping(wire))


def _beside(pool: Any, limits: dict[str, float]) -> Any:
    """Return a blocking pool of the master that the same Sentinels name, with connections of its own.

    Those of an asyncio pool, to the Sentinels too, belong to the application's event loop.
    """
    kind: Any = redis.sentinel
    sentinel = kind.Sentinel([])
    for known in pool.sentinel_manager.sentinels:
        sentinel.sentinels.append(redis.Redis(**_account(known.connection_pool), **cast("Any", limits)))
    account = {name: value for name, value in _account(pool).items() if name not in {"host", "port"}}
    return kind.SentinelConnectionPool(pool.service_name, sentinel, **account, **limits)


def _account(pool: Any) -> dict[str, Any]:
    """Return where the connections of a pool lead to, as whom, and whether encrypted."""
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
    """Return what to tell of a server that hung up, or did not shake hands, because it is not what it should.

    PostgreSQL hangs up on what is not its protocol, and a Redis without TLS waits for more of what it takes
    for a command: both look like a server that is away. Blocks for a moment, and only where it may be so.
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
    # A Redis that has just started again answers the first question; only a stranger hears the second one.
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

    Those in use are left to their calls, which find out by themselves.
    """
    # What cannot be closed is broken, and is opened anew, too.
    with suppress(*REDIS_ERRORS, OSError):
        if isinstance(client, _CLUSTERS):
            await _hang_up_cluster(client)
        elif (own := getattr(client, "connection", None)) is not None:
            await settled(own.disconnect())  # a client of a single connection, which is in no pool
        else:
            await settled(client.connection_pool.disconnect(inuse_connections=False))


def pool_of(client: Any) -> Any:
    """Return the pool of a client; None for a Cluster's, which has one for each node."""
    return None if isinstance(client, _CLUSTERS) else client.connection_pool


async def close_client(client: Any) -> None:
    """Close a redis-py client, blocking or asyncio, and its connections to Sentinels."""
    sentinel = getattr(pool_of(client), "sentinel_manager", None)
    for opened in (client, *(() if sentinel is None else sentinel.sentinels)):
        blocks = isinstance(opened, redis.Redis | redis.RedisCluster)
        await settled(opened.close() if blocks else opened.aclose())


async def _hang_up_cluster(client: Any) -> None:
    """Close what leads to each node, and ask the cluster anew who serves which slots."""
    for node in client.get_nodes():
        if isinstance(client, redis.asyncio.RedisCluster):
            await node.disconnect_free_connections()
        elif node.redis_connection is not None:
            node.redis_connection.connection_pool.disconnect(inuse_connections=False)
    await settled(client.nodes_manager.initialize())
