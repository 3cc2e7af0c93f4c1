"""redis-py's clients across a fork.

Its blocking pools notice a fork, and then wait for their own lock. If another thread held it at the fork, the
child would wait for ever: so such locks are freed in a child.

If a child's garbage collector closes an asyncio transport, its socket also leaves the parent's event loop:
both processes share the list of sockets. The parent would wait forever. So they are kept unused.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import redis
import redis.asyncio

from history.support.forks import at_fork, free, keep, unplug


def survive_forks(client: Any) -> None:
    """Make a client work in a forked child."""
    if isinstance(client, redis.asyncio.Redis):
        at_fork(client.connection_pool, _renew_pool)
    elif isinstance(client, redis.asyncio.RedisCluster):
        at_fork(client, _renew_nodes)
    elif isinstance(client, redis.RedisCluster):
        at_fork(client, _free_cluster)
    elif (pool := getattr(client, "connection_pool", None)) is not None:
        at_fork(pool, _free_locks)


def abandon(connections: Iterable[Any]) -> None:
    """In a child, stop using connections of its parent."""
    for connection in connections:
        keep(connection)
        writer = getattr(connection, "_writer", None)
        line = None if writer is None else writer.get_extra_info("socket")
        if line is not None and line.fileno() >= 0:
            unplug(line.fileno())


def _free_cluster(client: Any) -> None:
    _free_locks(client)
    manager: Any = _attributes(client).get("nodes_manager")
    if manager is not None:  # it has connected
        _free_locks(manager)
        for node in list(manager.nodes_cache.values()):
            if node.redis_connection is not None:
                _free_locks(node.redis_connection.connection_pool)


def _attributes(holder: object) -> dict[str, Any]:
    """Return the attributes that are there; reading another one could connect."""
    return vars(holder)


def _free_locks(holder: Any) -> None:
    for value in list(_attributes(holder).values()):
        if hasattr(value, "_at_fork_reinit"):
            free(value)


def _renew_pool(pool: Any) -> None:
    abandon([*pool._available_connections, *pool._in_use_connections])  # noqa: SLF001  (no method does this)
    pool.reset()
    if hasattr(pool, "_lock"):
        pool._lock = asyncio.Lock()  # noqa: SLF001  (as above; a task of the parent may hold it)


def _renew_nodes(client: Any) -> None:
    manager = client.nodes_manager
    for node in (*manager.nodes_cache.values(), *manager.startup_nodes.values()):
        abandon(node._connections)  # noqa: SLF001  (as above)
        node._connections = []  # noqa: SLF001
        node._free.clear()  # noqa: SLF001
