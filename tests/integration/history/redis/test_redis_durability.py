"""With ``durability=replicas:1``, the history counts as away if replicas do not get a write in time."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from history import EntryOutcome, HistoryUnavailableError, RedisHistory, Settlement, State, Uuid
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.contract.common import TRIGGER, found, state_of
from tests.contract.beside.parking import parked
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import ConfigurationError, Message, ProviderUnavailableError, Status, trigger
from triggers.detection.suspension import Suspension
from triggers.providers.contract.common import numbered
from triggers.providers.redis_streams import RedisStreams
from triggers.testing.redis_server import RedisServer

LEASE = timedelta(hours=1)


@dataclass
class Pair:
    """A primary and its replica."""

    primary: RedisServer
    replica: RedisServer

    @property
    def url(self) -> str:
        return f"{self.primary.url}?durability=replicas:1"

    def stop_replica(self) -> None:
        """Stop the replica's process, but keep its connection open."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def __post_init__(self) -> None:
        with connected(self.replica.url) as client:
            self.pid = int(client.info("server")["process_id"])

    def fail_over(self) -> None:
        """Let the replica take over, without the writes that it has not received."""
        self.primary.kill()
        with connected(self.replica.url) as client:
            client.replicaof("NO", "ONE")


@pytest.fixture
def pair(redis_server: RedisServer, tmp_path: Path) -> Iterator[Pair]:
    del redis_server  # it reports a missing redis-server
    with ExitStack() as ending:
        servers: list[RedisServer] = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            settings = {"appendonly": "no", "repl-diskless-sync-delay": "0", "repl-timeout": "3600"}
            servers.append(ending.enter_context(RedisServer(tmp_path / name, **settings)))
        with connected(servers[1].url) as client:
            client.replicaof("127.0.0.1", servers[0].port)
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
        pair = Pair(*servers)
        ending.callback(pair.go_on)
        yield pair


def _for_asyncio(url: str) -> KeepsBeside:
    return RedisHistory.from_url(url).for_asyncio()


def _own_client(url: str) -> KeepsBeside:
    plain = url.partition("?")[0]
    return RedisHistory(connected(plain), durability="replicas:1")


FORMS = pytest.mark.parametrize(
    "opening", [RedisHistory.from_url, _for_asyncio, _own_client], ids=["blocking", "asyncio", "client"]
)


@FORMS
async def test_what_replicas_have_counts(opening: Callable[[str], KeepsBeside], pair: Pair) -> None:
    history = opening(pair.url)
    (claim,) = await history.claim(TRIGGER, ["u1"], "worker-1", LEASE)
    assert await history.complete(TRIGGER, "u1", claim.fence)
    await history.claim(TRIGGER, [f"many {n}" for n in range(450)], "worker-1", LEASE)
    await history.parking.park([parked(1)])
    await history.close()

    await asyncio.to_thread(pair.fail_over)

    after = RedisHistory.from_url(pair.replica.url)
    assert state_of(await found(after, "u1")) is EntryOutcome.OK
    assert state_of(await found(after, "many 449")) is State.STARTED
    assert len(await after.parking.list()) == 1
    await after.close()


@FORMS
async def test_what_they_do_not_have_in_time_is_undecided_and_says_so(
    opening: Callable[[str], KeepsBeside], pair: Pair
) -> None:
    history = opening(pair.url)
    (claim,) = await history.claim(TRIGGER, ["u1"], "worker-1", LEASE)
    pair.stop_replica()
    settlement = Settlement(Uuid("u1"), claim.fence, EntryOutcome.OK, "worker-1")

    with pytest.raises(HistoryUnavailableError, match=r"0 of 1 replicas had it .*durability=replicas:1"):
        await history.claim(TRIGGER, ["u2"], "worker-1", LEASE)
    with pytest.raises(HistoryUnavailableError, match="0 of 1 replicas"):
        # There is nothing more to write, but no replica has the earlier write yet.
        await history.claim(TRIGGER, ["u2"], "worker-1", LEASE)
    with pytest.raises(HistoryUnavailableError, match="0 of 1 replicas"):
        await history.settle(TRIGGER, [settlement])
    with pytest.raises(HistoryUnavailableError, match="0 of 1 replicas"):
        await history.parking.park([parked(1)])
    pair.go_on()

    assert await history.settle(TRIGGER, [settlement]) == [True]
    (again,) = await history.claim(TRIGGER, ["u2"], "worker-1", LEASE)
    assert again.found is None
    await history.parking.park([parked(1)])
    await history.close()


@FORMS
async def test_a_primary_that_lost_its_replica_is_looked_up_again(
    opening: Callable[[str], KeepsBeside], pair: Pair, network_before: NetworkBefore
) -> None:
    network = network_before(pair.primary.url)
    history = opening(network.url(pair.url))
    await until_replicated(lambda: history.claim(TRIGGER, ["u1"], "worker-1", LEASE))
    take_over_unnoticed(pair, network)

    for uuid in ("u2", "u3"):
        with pytest.raises(HistoryUnavailableError):  # the new primary has no replica either
            await history.claim(TRIGGER, [uuid], "worker-1", LEASE)
    await history.close()

    after = RedisHistory.from_url(pair.replica.url)
    assert state_of(await found(after, "u3")) is State.STARTED
    await after.close()


@pytest.mark.parametrize("is_asyncio", [False, True], ids=["blocking", "asyncio"])
async def test_a_sender_looks_a_primary_that_lost_its_replica_up_again(
    pair: Pair, network_before: NetworkBefore, *, is_asyncio: bool
) -> None:
    network = network_before(pair.primary.url)
    provider = RedisStreams.from_url(network.url(pair.url), asyncio=is_asyncio)
    await until_replicated(lambda: provider.send("orders", numbered(1)))
    take_over_unnoticed(pair, network)

    for _ in range(2):
        with pytest.raises(ProviderUnavailableError):
            await provider.send("later", numbered(1))
    await provider.close()

    with connected(pair.replica.url) as client:
        assert client.xlen("later") == 1


async def until_replicated(write: Callable[[], Awaitable[object]]) -> None:
    """Repeat a write until the replica gets it in time. A busy machine may need more than a second."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            await write()
        except (HistoryUnavailableError, ProviderUnavailableError):
            assert time.monotonic() < deadline
        else:
            return


def take_over_unnoticed(pair: Pair, network: Network) -> None:
    """Let the replica take over. The old primary does not know it, and open connections still lead there."""
    with connected(pair.replica.url) as client:
        client.replicaof("NO", "ONE")
    network.lead_to(pair.replica.port)


def test_nothing_is_lost_and_nothing_runs_twice_when_a_lagging_replica_takes_over(
    pair: Pair, tmp_path: Path
) -> None:
    runs: list[str | None] = []

    def booking(url: str) -> Any:
        @trigger("orders", name="book", history=url, local_parking_file=tmp_path / "parked")
        def book(message: Message) -> None:
            runs.append(message.uuid)

        return book

    before = booking(pair.url)
    with closing(before):
        first = before.handle(Message(uuid="a", body=""))
        pair.stop_replica()
        stuck = before.handle(Message(uuid="b", body=""))
        with_it = threading.Thread(target=pair.fail_over)
        with_it.start()
        pair.go_on()
        with_it.join()

    after = booking(pair.replica.url)
    with closing(after):
        outcomes = [after.handle(Message(uuid=uuid, body="", delivery_count=2)) for uuid in "ab"]

    assert [first.status, stuck.status, stuck.acknowledge] == [Status.NEW, None, False]
    assert outcomes[0].status is Status.DUPLICATE
    assert runs[0] == "a"
    assert runs.count("a") == 1
    assert "b" not in runs or outcomes[1].status is Status.NEW


@pytest.mark.prove
@pytest.mark.parametrize("is_asyncio", [False, True], ids=["threads", "tasks"])
@pytest.mark.parametrize("concurrency", [1, 40], ids=["in turns", "in common calls"])
def test_a_consumer_whose_replica_stands_still_runs_each_message_once(
    pair: Pair, tmp_path: Path, *, concurrency: int, is_asyncio: bool
) -> None:
    ran: list[str] = []
    lane, names = Lane(is_asyncio, tmp_path), [str(number) for number in range(60)]

    def work(message: Message) -> None:
        ran.append(message.uuid or "")
        if len(ran) == 5:
            pair.stop_replica()

    orders = lane.trigger("orders", work, concurrency=concurrency, monitor_interval=timedelta(seconds=0.1))
    send(pair.primary.url, "orders", *names)

    with lane.run([orders], pair.primary.url, history=pair.url) as running:
        eventually(lambda: running.gates[0].suspension is Suspension.HISTORY)
        ran_until_then = len(ran)
        pair.go_on()
        eventually(lambda: is_drained(pair.primary.url, "orders"))

    assert ran_until_then < len(names)
    assert (sorted(ran), running.counts["orders"]["ok"]) == (sorted(names), len(names))


@pytest.mark.parametrize("durability", ["replicas:0", "replicas:", "replica:1", "1", "replicas:-1", "", 1])
def test_another_word_is_refused(durability: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"durability: .*replicas:1"):
        RedisHistory(redis.Redis(), durability=durability)
    with pytest.raises(ConfigurationError, match="durability"):
        RedisHistory.from_url(f"redis://localhost/0?durability={durability or '&'}")


@pytest.mark.parametrize(
    "opening", [RedisHistory.from_url, RedisStreams.from_url], ids=["history", "provider"]
)
def test_of_a_cluster_it_is_refused(opening: Callable[[str], object]) -> None:
    with pytest.raises(ConfigurationError, match="durability: cannot be asked of a Redis Cluster"):
        opening("redis+cluster://localhost:1?durability=replicas:1")


def test_the_check_of_the_history_tells_of_a_server_without_replicas(redis_url: str) -> None:
    history = RedisHistory.from_url(f"{redis_url}?durability=replicas:1")

    warnings = drive(history.check())
    drive(history.close())

    assert any("has 0 replicas" in warning and "durability=replicas:1" in warning for warning in warnings)


@pytest.mark.parametrize("is_asyncio", [False, True], ids=["blocking", "asyncio"])
async def test_what_is_sent_to_a_stream_counts_once_replicas_have_it(pair: Pair, *, is_asyncio: bool) -> None:
    provider = RedisStreams.from_url(pair.url, asyncio=is_asyncio)
    sent = await provider.send("orders", numbered(300))
    pair.stop_replica()

    with pytest.raises(ProviderUnavailableError, match=r"sending: 0 of 1 replicas had it"):
        await provider.send("orders", numbered(1))
    await provider.close()

    assert len(sent) == len(set(sent)) == 300
