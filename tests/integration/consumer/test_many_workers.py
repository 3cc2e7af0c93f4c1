"""Hundreds of workers use one Redis: each thread has its own connection, and tasks share a few.

A consumer that would exceed a limit of the server or the pool is refused when it starts. Some tests check the
messages that a task holds while other tasks receive.
"""

import asyncio
import logging
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.network import NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import ConfigurationError, Message, trigger
from triggers.providers.redis_streams import RedisStreams
from triggers.testing.redis_server import RedisServer

#: More than redis-py opens by itself.
MANY = 300
MANY_THREADS = 150

#: Hundreds of workers connect together. On a busy machine this takes longer than the usual time limit.
UNHURRIED = f"?socket_connect_timeout={PATIENCE}&socket_timeout={PATIENCE}"


#: So many tasks that they share a receiver.
SHARING = 40


@pytest.fixture
def tasks(tmp_path: Path) -> Lane:
    return Lane(asyncio=True, folder=tmp_path)


@pytest.fixture(params=[True, False], ids=["asyncio", "threads"])
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Lane:
    return Lane(request.param, tmp_path)


@pytest.mark.parametrize("form", ["tasks", "threads"])
def test_as_many_workers_as_asked_for_wait_at_the_same_time(
    redis_url: str, tmp_path: Path, form: str
) -> None:
    many = MANY if form == "tasks" else MANY_THREADS
    tasks, threads = asyncio.Barrier(many), threading.Barrier(many, timeout=PATIENCE)
    settings: dict[str, Any] = {"concurrency": many, "prefetch": 1, "local_parking_file": tmp_path / "parked"}

    @trigger("orders", name="orders", **settings)
    async def meet_as_tasks(message: Message) -> None:
        await tasks.wait()

    @trigger("orders", name="orders", **settings)
    def meet_as_threads(message: Message) -> None:
        threads.wait()

    lane, work = Lane(form == "tasks", tmp_path), meet_as_tasks if form == "tasks" else meet_as_threads
    send(redis_url, "orders", *map(str, range(many)))
    url = redis_url + UNHURRIED
    with lane.run([work], url, history=url, until_idle=0.1) as running:
        running.join()

    assert running.counts == {"orders": {"ok": many}}


def test_a_server_that_takes_fewer_clients_is_refused_with_its_limit(redis_url: str, tmp_path: Path) -> None:
    lane = Lane(asyncio=False, folder=tmp_path)
    with connected(redis_url) as client:
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


def test_tasks_share_a_few_connections_and_calls(private_redis: RedisServer, tasks: Lane) -> None:
    together = asyncio.Barrier(SHARING)

    @trigger("orders", name="orders", concurrency=SHARING, local_parking_file=tasks.folder / "parked")
    async def work(message: Message) -> None:
        await together.wait()

    send(private_redis.url, "orders", *map(str, range(2 * SHARING)))

    with tasks.run([work], private_redis.url, history=private_redis.url) as running:
        eventually(lambda: is_drained(private_redis.url, "orders"))
        with connected(private_redis.url) as client:
            connections = client.info("clients")["connected_clients"]
            calls = {name: found["calls"] for name, found in client.info("commandstats").items()}

    assert running.counts == {"orders": {"ok": 2 * SHARING}}
    assert connections < SHARING / 2
    assert calls["cmdstat_xack"] < SHARING
    assert calls["cmdstat_evalsha"] < SHARING


def test_of_copies_that_run_into_each_other_one_runs(redis_url: str, tasks: Lane) -> None:
    ran: list[str | None] = []
    names = [str(number) for number in range(200)]
    # If a copy arrives while the first message runs, it waits until the lease of that run would end.
    lease = timedelta(seconds=1)
    work = tasks.trigger("orders", lambda message: ran.append(message.uuid), concurrency=SHARING, lease=lease)
    send(redis_url, "orders", *(name for name in names for _ in "ab"))

    with tasks.run([work], redis_url, history=redis_url) as running:
        eventually(lambda: is_drained(redis_url, "orders"))

    assert sorted(ran, key=str) == sorted(names)
    # If a copy arrives while the first one runs, the consumer gives it back and receives it again later.
    counts = {kind: count for kind, count in running.counts["orders"].items() if kind != "recovered"}
    assert counts == {"ok": 200, "duplicate": 200}


def test_what_tasks_hold_while_the_line_is_cut_is_theirs(
    redis_url: str, tasks: Lane, network_before: NetworkBefore
) -> None:
    ran: list[str | None] = []
    arrived, cut = asyncio.Event(), threading.Event()
    network = network_before(redis_url)
    names = [str(number) for number in range(SHARING - 2)]

    def cut_it() -> None:
        network.cut()
        cut.set()

    # Without a history, only the receiver keeps a message away from a second worker.
    @trigger("orders", name="orders", concurrency=SHARING, history=None)
    async def orders(message: Message) -> None:
        ran.append(message.uuid)
        if message.uuid == "after":
            arrived.set()
        await arrived.wait()

    send(redis_url, "orders", *names)

    with tasks.run([orders], network.url(redis_url) + "?reclaim_interval=0.05") as running:
        eventually(lambda: len(ran) == len(names))
        network.when_asked(b"XREADGROUP", cut_it)
        assert cut.wait(PATIENCE)
        send(redis_url, "orders", "after")  # a task without work reads it
        eventually(lambda: is_drained(redis_url, "orders"))

    assert sorted(ran, key=str) == sorted([*names, "after"])
    # An acknowledgement may go to a connection that was just cut. Then its message comes again.
    counts = running.counts["orders"]
    assert counts.keys() <= {"ok", "in doubt"}
    assert sum(counts.values()) == len(names) + 1


def test_acknowledgements_without_an_answer_are_of_messages_that_come_again(
    redis_url: str, tasks: Lane, network_before: NetworkBefore
) -> None:
    ran: list[str | None] = []
    network = network_before(redis_url)
    names = [str(number) for number in range(2 * SHARING)]
    work = tasks.trigger("orders", lambda message: ran.append(message.uuid), concurrency=SHARING)
    lost = threading.Event()

    def lose_it() -> None:
        network.cut()
        lost.set()

    network.when_asked(b"\r\nXACK\r\n", lose_it)  # the command, and not the text of a script
    send(redis_url, "orders", *names)

    with tasks.run([work], network.url(redis_url) + "?reclaim_interval=0.05", history=redis_url) as running:
        eventually(lambda: lost.is_set() and is_drained(redis_url, "orders"))

    assert sorted(ran, key=str) == sorted(names)
    assert running.counts["orders"]["duplicate"] > 0


def test_a_consumer_that_stops_gives_back_what_it_has_not_begun(redis_url: str, tasks: Lane) -> None:
    orders, ran = tasks.noting("orders", concurrency=SHARING)
    names = [str(number) for number in range(300)]
    send(redis_url, "orders", *names)

    while not is_drained(redis_url, "orders"):
        before = len(ran)
        with tasks.run([orders], redis_url, history=redis_url):
            eventually(lambda: len(ran) > before or is_drained(redis_url, "orders"))  # noqa: B023
        with connected(redis_url) as client:
            held = client.xpending_range("orders", "orders", "-", "+", 1000)
        assert {one["consumer"] for one in held} <= {b"doubtless:waiting"}

    assert sorted(ran, key=str) == sorted(names)


async def test_an_account_that_may_not_ask_for_the_limit_is_not_refused(private_redis: RedisServer) -> None:
    with connected(private_redis.url) as client:
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
    with connected(url) as client:
        return int(client.info("clients")["blocked_clients"])
