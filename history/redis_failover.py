"""Leaving a server that is not the right one any more.

After a failover behind one name, one address or one proxy, an open connection may lead to the old server for
ever: it answers, and only refuses to write. A new connection looks the name up again and finds the new one.
"""

from contextlib import suppress
from typing import Any

import redis
import redis.asyncio
from redis.exceptions import RedisError

from history.bridge import settled

_CLUSTERS = (redis.RedisCluster, redis.asyncio.RedisCluster)


async def hang_up(client: Any) -> None:
    """Close the idle connections of a redis-py client, blocking or asyncio; the next call opens new ones.

    Those in use are left to their calls, which are told the same.
    """
    # What cannot be closed is broken, and is opened anew, too.
    with suppress(RedisError, OSError):
        if isinstance(client, _CLUSTERS):
            await _hang_up_cluster(client)
        elif (own := getattr(client, "connection", None)) is not None:
            await settled(own.disconnect())  # a client of a single connection, which is in no pool
        else:
            await settled(client.connection_pool.disconnect(inuse_connections=False))


async def _hang_up_cluster(client: Any) -> None:
    """Close what leads to each node, and ask the cluster anew who serves which slots."""
    for node in client.get_nodes():
        if isinstance(client, redis.asyncio.RedisCluster):
            await node.disconnect_free_connections()
        elif node.redis_connection is not None:
            node.redis_connection.connection_pool.disconnect(inuse_connections=False)
    await settled(client.nodes_manager.initialize())
