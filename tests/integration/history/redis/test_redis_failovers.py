"""A primary and its replica change places, behind one address or behind Sentinel, and everything goes on."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from history import (
    ConfigurationError,
    EntryOutcome,
    HistoryUnavailableError,
    Message,
    RedisHistory,
    Settlement,
    Uuid,
    Verb,
    open_history,
)
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.circuit import CircuitOpenError
from history.contract.common import state_of
from history.redis.scripts import text_of
from history.store import BatchOwner, Report
from tests.contract.beside.joining import BOTH, MINE, part
from tests.contract.beside.parking import parked
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.redis_sentinel import Watched, locked_sentinel
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import ProviderUnavailableError
from triggers.providers import Arrival
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.link import RedisLink
from triggers.testing.redis_server import RedisServer

TRIGGER = "book-order"


#: A step is delayed by so many seconds, so that a claim that does not wait for it comes first.
HEAD_START = 0.5


@dataclass
class Pair:
    """Two servers behind one address: until :meth:`fail_over`, ``second`` follows ``first``."""

    first: RedisServer
    second: RedisServer
    network: Network

    @property
    def url(self) -> str:
        return self.network.url(self.first.url)

    def fail_over(self) -> None:
        """Swap the two servers. Open connections still lead to the old server, which is now the replica."""
        with connected(self.first.url) as old, connected(self.second.url) as new:
            eventually(lambda: new.info("replication")["master_link_status"] == "up")
            assert old.wait(1, int(PATIENCE * 1000)) == 1, "the replica has everything"
            new.replicaof("NO", "ONE")
            old.replicaof("127.0.0.1", self.second.port)
            eventually(lambda: old.info("replication")["role"] == "slave")
        self.network.lead_to(self.second.port)


@pytest.fixture
def pair(tmp_path: Path, network_before: NetworkBefore) -> Iterator[Pair]:
    with ExitStack() as ending:
        servers: list[RedisServer] = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            settings = {"appendonly": "no", "repl-diskless-sync-delay": "0"}
            servers.append(ending.enter_context(RedisServer(tmp_path / name, **settings)))
        first, second = servers
        with connected(second.url) as client:
            client.replicaof("127.0.0.1", first.port)
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
        yield Pair(first, second, network_before(first.url))


#: Opens a history at a URL in one of the ways that an application has.
Opening = Callable[[str], KeepsBeside]


def _for_asyncio(url: str) -> KeepsBeside:
    return RedisHistory.from_url(url).for_asyncio()


def _own_client(url: str) -> KeepsBeside:
    kind: Any = redis.Redis  # from_url has no types
    return RedisHistory(kind.from_url(url, single_connection_client=True))


@pytest.mark.parametrize(
    "opening",
    [RedisHistory.from_url, _for_asyncio, _own_client],
    ids=["blocking", "asyncio", "one-connection"],
)
async def test_a_history_finds_the_new_primary_by_itself(opening: Opening, pair: Pair) -> None:
    history = opening(pair.url)
    (before,) = await history.claim(TRIGGER, ["u1"], "worker-1")

    await asyncio.to_thread(pair.fail_over)

    assert await history.complete(TRIGGER, "u1", before.fence)
    (again,) = await history.claim(TRIGGER, ["u1"], "worker-2")
    assert state_of(again.found) is EntryOutcome.OK
    many = await history.claim(TRIGGER, [f"u{n}" for n in range(2, 900)], BatchOwner("query/1"))
    assert all(claim.found is None for claim in many)
    await history.close()


@pytest.mark.parametrize("is_asyncio", [False, True])
async def test_what_stands_beside_a_history_finds_the_new_primary_too(
    pair: Pair, *, is_asyncio: bool
) -> None:
    history: KeepsBeside = RedisHistory.from_url(pair.url)
    history = history.for_asyncio() if is_asyncio else history
    await history.parking.park([parked(1)])
    first = await part(history, "o")
    second = await part(history, "p", "payments")
    await asyncio.to_thread(pair.fail_over)

    await history.control.order(Verb.SUSPEND, [TRIGGER])
    await history.parking.park([parked(2)])
    await history.joining.add(TRIGGER, first, BOTH, MINE)
    added = await history.joining.add(TRIGGER, second, BOTH, MINE)

    assert len(await history.parking.list()) == 2
    assert added.period is not None
    report = Report(consumer="worker", trigger=TRIGGER)
    heard = await history.control.beat("token", [report])
    assert [order.verb for order in heard.orders] == [Verb.SUSPEND]
    await history.close()


async def test_no_claim_comes_before_the_step_on_the_new_primary(pair: Pair) -> None:
    history = RedisHistory.from_url(pair.url).for_asyncio()
    await history.claim(TRIGGER, ["before"], "worker-1")
    with connected(pair.second.url) as client:
        client.script_load(text_of("entries/claim"))  # as if others had made claims
    await asyncio.to_thread(pair.fail_over)
    pair.network.cut()  # so that all claims open connections at the same time
    claimed = threading.Event()

    def hold_step_back() -> None:
        claimed.wait(HEAD_START)

    pair.network.when_asked(b"local steps = ", hold_step_back)

    async def claim(number: int) -> int:
        (claim,) = await history.claim(TRIGGER, [f"after {number}"], "worker-1")
        claimed.set()
        return claim.fence

    fences = await asyncio.gather(*(claim(number) for number in range(8)))

    with connected(pair.second.url) as client:
        loaded = client.hget(f"doubtless:{{{TRIGGER}}}:history:origin", "loaded")
    assert min(fences) > int(loaded.split()[2])
    await history.close()


def test_threads_that_share_a_history_all_find_the_new_primary(pair: Pair) -> None:
    history = RedisHistory.from_url(pair.url)
    together, errors = threading.Barrier(9), list[Exception]()

    def work(number: int) -> None:
        try:
            drive(history.claim(TRIGGER, [f"before {number}"], "worker-1"))
            together.wait()
            together.wait()
            for n in range(20):
                drive(history.claim(TRIGGER, [f"after {number} {n}"], "worker-1"))
        except Exception as error:  # noqa: BLE001  (for the test to see)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    together.wait()
    pair.fail_over()
    together.wait()
    for thread in threads:
        thread.join()

    assert errors == []
    drive(history.close())


#: How many claims are made together: before a failover, while a client notices it, and later.
WAVES = {"before": 10, "meanwhile": 20, "after": 30}


async def test_after_a_new_primary_answered_no_call_goes_to_the_old_one(pair: Pair) -> None:
    """The old primary does not know yet that it was replaced, and accepts writes that it will forget."""
    history = RedisHistory.from_url(pair.url).for_asyncio()

    async def claim_together(uuids: Sequence[str]) -> None:
        await asyncio.gather(*(history.claim(TRIGGER, [uuid], "worker-1") for uuid in uuids))

    earlier, meanwhile, later = ([f"{when}{n}" for n in range(count)] for when, count in WAVES.items())
    await claim_together(earlier)
    with connected(pair.second.url) as new:
        eventually(lambda: new.info("replication")["master_link_status"] == "up")
        new.replicaof("NO", "ONE")
    pair.network.lead_to(pair.second.port)
    # More calls than connections to the old primary: some of them open a connection to the new one.
    await claim_together(meanwhile)

    await claim_together(later)

    for server, has_them in ((pair.first, False), (pair.second, True)):
        direct = RedisHistory.from_url(server.url)
        entries = await direct.lookup(TRIGGER, later)
        assert [entry is not None for entry in entries] == [has_them] * len(later)
        await direct.close()
    await history.close()


def test_a_server_that_stays_read_only_is_unavailable(pair: Pair) -> None:
    history = RedisHistory.from_url(pair.second.url)

    with pytest.raises(HistoryUnavailableError, match="read only replica"):
        drive(history.claim(TRIGGER, ["u1"], "worker-1"))

    drive(history.close())


@pytest.mark.parametrize("is_asyncio", [False, True])
async def test_a_producer_and_a_consumer_find_the_new_primary(pair: Pair, *, is_asyncio: bool) -> None:
    provider = RedisStreams.from_url(pair.url)
    provider = provider.for_asyncio() if is_asyncio else provider
    receiver = await provider.open_receiver("orders", subscription=TRIGGER, name="one")
    await provider.send("orders", [Message(body="before")])
    (before,) = await receiver.receive(1, timedelta(seconds=5))

    await asyncio.to_thread(pair.fail_over)

    await provider.send("orders", [Message(body="after")])
    await receiver.acknowledge([before])
    (after,) = await receiver.receive(1, timedelta(seconds=5))
    assert isinstance(after, Arrival)
    assert after.message.body == "after"
    await receiver.acknowledge([after])
    await receiver.close()
    await provider.close()


def test_a_consumer_that_waits_for_a_message_while_its_server_steps_down_goes_on_waiting_at_the_new_one(
    pair: Pair,
) -> None:
    link = RedisLink(RedisLink.client_for(pair.url, asyncio=False, patience=30))
    drive(link.call("subscribing", "XGROUP", "CREATE", "orders", "group", "$", "MKSTREAM"))
    got: list[Any] = []
    words = ("XREADGROUP", "GROUP", "group", "me", "BLOCK", 20_000, "STREAMS", "orders", ">")
    waiting = threading.Thread(target=lambda: got.append(drive(link.call("receiving", *words))))
    waiting.start()
    with connected(pair.first.url) as old, connected(pair.second.url) as new:
        eventually(lambda: old.info("clients")["blocked_clients"] == 1)
        pair.network.lead_to(pair.second.port)

        pair.fail_over()
        new.xadd("orders", {"n": 1})

    waiting.join(PATIENCE)
    assert len(got) == 1
    assert got[0]
    drive(link.close())


def test_a_running_consumer_goes_on_at_the_new_primary_and_runs_each_message_once(
    lane: Lane, pair: Pair
) -> None:
    ran: Counter[str | None] = Counter()
    orders = lane.trigger("orders", lambda message: ran.update([message.uuid]))
    url, uuids = pair.url, [str(number) for number in range(60)]
    send(url, "orders", *uuids[:30])

    with lane.run([orders], url, history=url):
        eventually(lambda: len(ran) == 30)
        eventually(lambda: is_drained(pair.first.url, "orders"))
        pair.fail_over()
        send(url, "orders", *uuids[30:])
        eventually(lambda: len(ran) == 60)
        eventually(lambda: is_drained(pair.second.url, "orders"))

    assert ran == Counter(uuids)


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
    """Send messages. Return False if the provider is away, so that the caller sends all of them again."""
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
        # Nobody knows whether the unreachable Sentinel would accept it.
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


async def _is_away(store: KeepsBeside) -> bool:
    try:
        await store.claim(TRIGGER, ["second"], "worker-1")
    except HistoryUnavailableError:
        return True
    return False


def _master(watched: Watched) -> str:
    return f"redis://127.0.0.1:{watched.master()}/0"
