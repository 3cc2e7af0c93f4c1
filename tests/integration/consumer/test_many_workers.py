"""Hundreds of workers on one Redis: each has a connection, and what bounds them is said at the start."""

import asyncio
import logging
import threading
from collections import Counter
from pathlib import Path

import pytest

from history.errors import ConfigurationError
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, client_of, send
from triggers import Message, trigger
from triggers.consumer import Consumer
from triggers.consumer.tasks import AsyncConsumer
from triggers.providers.redis_streams import RedisStreams
from triggers.testing.redis_server import RedisServer

#: More than redis-py opens by itself.
MANY = 300
MANY_THREADS = 150

#: Hundreds connect at once: on a busy machine that takes longer than one may have to wait for otherwise.
UNHURRIED = f"?socket_connect_timeout={PATIENCE}&socket_timeout={PATIENCE}"


@pytest.fixture(params=[True, False], ids=["asyncio", "threads"])
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Lane:
    return Lane(request.param, tmp_path)


async def test_as_many_tasks_as_asked_for_wait_at_the_same_time(redis_url: str, tmp_path: Path) -> None:
    together = asyncio.Barrier(MANY)

    @trigger("orders", name="orders", concurrency=MANY, prefetch=1, local_parking_file=tmp_path / "parked")
    async def work(message: Message) -> None:
        await together.wait()

    await asyncio.to_thread(send, redis_url, "orders", *map(str, range(MANY)))
    url = redis_url + UNHURRIED
    consumer = AsyncConsumer([work], url, history=url)
    await asyncio.wait_for(consumer.run(until_idle=0.1), PATIENCE)

    assert consumer.counts == {"orders": Counter(ok=MANY)}


def test_as_many_threads_as_asked_for_wait_at_the_same_time(redis_url: str, tmp_path: Path) -> None:
    together = threading.Barrier(MANY_THREADS, timeout=PATIENCE)

    @trigger(
        "orders", name="orders", concurrency=MANY_THREADS, prefetch=1, local_parking_file=tmp_path / "parked"
    )
    def work(message: Message) -> None:
        together.wait()

    send(redis_url, "orders", *map(str, range(MANY_THREADS)))
    url = redis_url + UNHURRIED
    consumer = Consumer([work], url, history=url)
    consumer.run(until_idle=0.1)

    assert consumer.counts == {"orders": Counter(ok=MANY_THREADS)}


def test_a_server_that_takes_fewer_clients_is_refused_with_its_limit(redis_url: str, lane: Lane) -> None:
    with client_of(redis_url) as client:
        most = client.config_get("maxclients")["maxclients"]
        client.config_set("maxclients", 40)
        try:
            with pytest.raises(ConfigurationError, match=r"maxclients: of the Redis server is 40") as refused:
                run_to_its_end(lane, redis_url, concurrency=39)
        finally:
            client.config_set("maxclients", most)

    assert "39 workers" in str(refused.value)
    assert "CONFIG SET maxclients" in str(refused.value)


def test_a_pool_that_is_too_small_is_refused_with_its_limit(redis_url: str, lane: Lane) -> None:
    with pytest.raises(ConfigurationError, match=r"max_connections: is 10, but 9 workers"):
        run_to_its_end(lane, redis_url + "?max_connections=10", concurrency=9)

    run_to_its_end(lane, redis_url + "?max_connections=10", concurrency=8)


def run_to_its_end(lane: Lane, url: str, *, concurrency: int) -> None:
    work = lane.trigger("orders", lambda _: None, concurrency=concurrency, history=None)
    with lane.run([work], url, until_idle=0.0) as running:
        running.join()


async def test_an_account_that_may_not_ask_for_the_limit_is_not_refused(private_redis: RedisServer) -> None:
    with client_of(private_redis.url) as client:
        client.execute_command("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+@all", "-info")
    provider = RedisStreams.from_url(private_redis.url.replace("//", "//narrow:secret@"), asyncio=True)

    await provider.check_room(50)

    await provider.close()


def test_workers_of_a_provider_that_went_away_say_so_once(
    private_redis: RedisServer, lane: Lane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    work = lane.trigger("orders", lambda _: None, concurrency=20, history=None)
    with lane.run([work], private_redis.url) as running:
        eventually(lambda: waiting_at(private_redis.url) > 1)
        private_redis.kill()
        eventually(lambda: any("trying again" in line for line in caplog.messages))
        private_redis.start()
        send(private_redis.url, "orders", "a")
        eventually(lambda: running.counts["orders"].get("ok") == 1)

    told = Counter(line.partition(": trying again")[0] for line in caplog.messages if "trying" in line)
    assert sum(told.values()) < 20, told


def waiting_at(url: str) -> int:
    with client_of(url) as client:
        return int(client.info("clients")["blocked_clients"])
