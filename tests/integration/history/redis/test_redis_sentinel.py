"""Redis behind Sentinel: the master dies, a replica is promoted, and everything goes on there."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from history import (
    ConfigurationError,
    EntryOutcome,
    HistoryStore,
    HistoryUnavailableError,
    Settlement,
    Uuid,
    open_history,
)
from history.bridge import drive
from history.circuit import CircuitOpenError
from history.contract.common import state_of
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.redis_sentinel import Watched, locked_sentinel
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import ProviderUnavailableError
from triggers.testing.redis_server import RedisServer

TRIGGER = "book-order"


def test_what_the_replica_had_is_remembered_and_no_fence_comes_twice(redis_sentinel: Watched) -> None:
    history = open_history(redis_sentinel.url)
    (done,) = drive(history.claim(TRIGGER, ["done"], "worker-1"))
    assert done.fence is not None
    drive(history.settle(TRIGGER, [Settlement(Uuid("done"), done.fence, EntryOutcome.OK)]))

    redis_sentinel.fail_over()

    (kept,) = drive(history.lookup(TRIGGER, ["done"]))
    assert state_of(kept) is EntryOutcome.OK
    (after,) = drive(history.claim(TRIGGER, ["after"], "worker-1"))
    assert after.fence is not None
    assert after.fence > done.fence
    drive(history.close())


def test_a_running_consumer_follows_the_master_and_runs_each_message_once(
    lane: Lane, redis_sentinel: Watched
) -> None:
    ran: Counter[str | None] = Counter()
    orders = lane.trigger("orders", lambda message: ran.update([message.uuid]))
    url, uuids = redis_sentinel.url, [str(number) for number in range(60)]
    send(url, "orders", *uuids[:30])

    with lane.run([orders], url, history=url):
        eventually(lambda: len(ran) == 30)
        eventually(lambda: is_drained(_master(redis_sentinel), "orders"))
        redis_sentinel.fail_over()
        eventually(lambda: _is_sent(url, uuids[30:]))
        eventually(lambda: len(ran) == 60)
        eventually(lambda: is_drained(_master(redis_sentinel), "orders"))

    assert ran == Counter(uuids)


def _is_sent(url: str, uuids: list[str]) -> bool:
    """Send them, also twice, where the sentinel finds that the new master is slow."""
    with suppress(ProviderUnavailableError):
        send(url, "orders", *uuids)
        return True
    return False


async def test_calls_are_answered_again_when_a_master_is_there_again(
    redis_sentinel: Watched, form: str
) -> None:
    history = open_history(redis_sentinel.url)
    store = history.for_asyncio() if form == "asyncio" else history
    await store.claim(TRIGGER, ["first"], "worker-1")
    for server in redis_sentinel.servers:
        server.stop()
    with pytest.raises(HistoryUnavailableError):
        await store.claim(TRIGGER, ["second"], "worker-1")

    for server in redis_sentinel.servers:
        server.start()

    async with asyncio.timeout(PATIENCE):
        while await _is_away(store):  # noqa: ASYNC110  (nothing tells when it is back)
            await asyncio.sleep(0.05)
    await store.close()
    await history.close()


@pytest.mark.parametrize("form", ["blocking", "asyncio"])
async def test_a_password_that_all_sentinels_reject_is_a_mistake_and_no_outage(
    redis_server: RedisServer, tmp_path: Path, form: str
) -> None:
    with locked_sentinel(tmp_path, redis_server, "right") as port:
        address = f"127.0.0.1:{port}"
        for url in (f"{address}/orders", f"{address}/orders?sentinel_password=wrong"):
            with pytest.raises(ConfigurationError) as refused:
                await _claim_at(f"redis+sentinel://{url}", form)
            assert "sentinel_password" in refused.value.remedy
        # Nobody knows whether the Sentinel that is away would take it.
        with pytest.raises(HistoryUnavailableError):
            await _claim_at(f"redis+sentinel://{address},127.0.0.1:1/orders?sentinel_password=wrong", form)

        await _claim_at(f"redis+sentinel://{address}/orders?sentinel_password=right", form)


@pytest.mark.parametrize("form", ["blocking", "asyncio"])
async def test_a_replica_that_a_sentinel_calls_the_master_answers_and_is_not_away(
    private_redis: RedisServer, tmp_path: Path, form: str
) -> None:
    with connected(private_redis.url) as client, locked_sentinel(tmp_path, private_redis, "secret") as port:
        client.replicaof("127.0.0.1", 1)
        history = open_history(f"redis+sentinel://127.0.0.1:{port}/orders?sentinel_password=secret")
        store = history.for_asyncio() if form == "asyncio" else history
        for _ in range(2):
            with pytest.raises(HistoryUnavailableError) as refused:
                await store.claim(TRIGGER, ["first"], "worker-1")
            assert not isinstance(refused.value, CircuitOpenError)

        client.replicaof("NO", "ONE")

        (claim,) = await store.claim(TRIGGER, ["first"], "worker-1")
        assert claim.found is None
        await store.close()
        await history.close()


async def _claim_at(url: str, form: str) -> None:
    history = open_history(url)
    store = history.for_asyncio() if form == "asyncio" else history
    try:
        await store.claim(TRIGGER, ["first"], "worker-1")
    finally:
        await store.close()
        await history.close()


async def _is_away(store: HistoryStore) -> bool:
    try:
        await store.claim(TRIGGER, ["second"], "worker-1")
    except HistoryUnavailableError:
        return True
    return False


def _master(watched: Watched) -> str:
    return f"redis://127.0.0.1:{watched.master()}/0"
