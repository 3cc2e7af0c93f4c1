"""Settings of a Redis server that may make it forget, or lose confirmed writes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import redis

from history.errors import ConfigurationError, NotPermittedError
from history.redis.connection.client import RedisClient


class Server(NamedTuple):
    """A server that takes writes: its address, empty if there is only one, and its reply to INFO."""

    address: str
    info: Mapping[str, Any]


async def servers_of(client: RedisClient) -> Sequence[Server]:
    """Return each server that takes writes; a cluster has several."""
    if not client.is_cluster:
        return [Server("", await client.call("checking", client.client.info))]
    info = await client.call("checking", lambda: client.client.info(target_nodes="primaries"))
    if "redis_version" in info:
        return [Server("", info)]
    return [Server(str(name), of_server) for name, of_server in info.items()]


def refuse_eviction(servers: Sequence[Server]) -> list[str]:
    """Warn about servers that do not report whether they evict.

    Raises:
        ConfigurationError: maxmemory-policy is not noeviction; the text names each such server.
    """
    evicting = [
        f"{policy} at {address}" if address else str(policy)
        for address, info in servers
        if (policy := info.get("maxmemory_policy", "noeviction")) != "noeviction"
    ]
    if evicting:
        raise ConfigurationError(
            "maxmemory-policy",
            f"{', '.join(evicting)} lets Redis forget history, and a forgotten message runs again",
            "CONFIG SET maxmemory-policy noeviction, or use a Redis of its own for the history",
        )
    if all("maxmemory_policy" in server.info for server in servers):
        return []
    return ["Redis does not say its maxmemory-policy: make sure that it is noeviction"]


async def warnings_about(client: RedisClient, servers: Sequence[Server]) -> list[str]:
    """Warn about a server that stores nothing on disk, or has too few replicas for ``durability``."""
    kept = all(server.info.get("aof_enabled") for server in servers) or await _saves(client)
    warnings = [] if kept else ["Redis keeps nothing on disk: a restart forgets it all"]
    durability, replicas = client.durability, _replicas(servers)
    if durability is not None and replicas < durability.replicas:
        warnings.append(
            f"Redis has {replicas} replicas now, and durability=replicas:{durability.replicas} waits for "
            "more: nothing runs until they are there"
        )
    return warnings


async def remarks_on(client: RedisClient) -> list[str]:
    """Return settings that are common, but may still lose the last writes; see ``doubtless doctor``."""
    remarks: list[str] = []
    try:
        servers = await servers_of(client)
        synced = await _setting(client, "appendfsync")
    except (redis.ResponseError, NotPermittedError):
        return remarks
    if synced in {"everysec", "no"} and any(server.info.get("aof_enabled") for server in servers):
        lost = "the last second" if synced == "everysec" else "everything that the system had not written yet"
        remarks.append(
            f"appendfsync {synced}: after a power cut {lost} is missing, and those messages run again; "
            "appendfsync always writes each, and is slower"
        )
    replicas = _replicas(servers)
    if replicas and client.durability is None:
        remarks.append(
            f"{replicas} replicas, and no write waits for them: messages that a failover loses run again; "
            + (
                "a Redis Cluster cannot be asked to wait"
                if client.is_cluster
                else "durability=replicas:1 in the URL waits for one"
            )
        )
    return remarks


def _replicas(servers: Sequence[Server]) -> int:
    return min(int(server.info.get("connected_slaves", 0)) for server in servers)


async def _saves(client: RedisClient) -> bool:
    try:
        return bool(await _setting(client, "save"))
    except (redis.ResponseError, NotPermittedError):
        return True  # a hosted Redis that does not report it


async def _setting(client: RedisClient, name: str) -> str:
    settings = await client.call("checking", lambda: client.client.config_get(name))
    return str(settings.get(name, ""))
