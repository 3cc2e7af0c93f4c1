"""The Redis history over connections that are lost, cut, silent or shared."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, NoReturn

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from history import HistoryUnavailableError, RedisHistory
from history.bridge import drive
from history.contract.common import state_of
from history.entry import EntryOutcome, State, digest
from history.redis.connection.client import RedisClient
from history.redis.connection.durability import packed
from history.store import BatchOwner, Owner
from tests.fixtures.histories import wait_for_circuits
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually

TRIGGER = "book-order"


@pytest.fixture
def network(redis_url: str, network_before: NetworkBefore) -> Network:
    return network_before(redis_url)


@pytest.fixture
def history(network: Network, redis_url: str) -> Iterator[RedisHistory]:
    """A history behind a proxy that can cut the connection. The server already has its scripts."""
    history = RedisHistory.from_url(network.url(redis_url))
    (warm,) = drive(history.claim(TRIGGER, ["warm"], "worker-0"))
    drive(history.complete(TRIGGER, "warm", warm.fence))
    # A client without the script closes its line, and the reply on it is not waited for.
    drive(history.claim(TRIGGER, ["warm"], BatchOwner("query/1/run")))
    yield history
    drive(history.close())


async def test_a_claim_whose_reply_was_lost_is_ones_own(
    form: str, history: RedisHistory, network: Network
) -> None:
    store = history if form == "blocking" else history.for_asyncio()
    await store.claim(TRIGGER, ["known"], "worker-1")
    lost = network.lose_reply_to(b"EVALSHA")

    (claim,) = await store.claim(TRIGGER, ["u1"], "worker-1")

    assert lost.is_set()
    assert claim.found is None
    (entry,) = await store.lookup(TRIGGER, ["u1"])
    assert entry is not None
    assert (entry.state, entry.owner, entry.fence) == (State.STARTED, "worker-1", claim.fence)
    await store.close()


@pytest.mark.parametrize("owner", ["worker-1", BatchOwner("query/7/run")], ids=["message", "batch"])
@pytest.mark.parametrize("lost_at", [0, 500, 999])
def test_a_long_call_that_loses_a_reply_is_ones_own(
    history: RedisHistory, network: Network, owner: Owner, lost_at: int
) -> None:
    uuids = [f"u{n}" for n in range(1000)]
    drive(history.claim(TRIGGER, uuids[::10], "worker-2"))
    lost = network.lose_reply_to(digest(f"u{lost_at}"))

    claims = drive(history.claim(TRIGGER, [*uuids, "u1"], owner))

    assert lost.is_set()
    assert [claim.found is None for claim in claims] == [*(n % 10 != 0 for n in range(1000)), False]


def test_a_settlement_whose_reply_was_lost_is_settled(history: RedisHistory, network: Network) -> None:
    (claim,) = drive(history.claim(TRIGGER, ["u1"], "worker-1"))
    lost = network.lose_reply_to(b"EVALSHA")

    assert drive(history.complete(TRIGGER, "u1", claim.fence))

    assert lost.is_set()
    assert state_of(drive(history.lookup(TRIGGER, ["u1"]))[0]) is EntryOutcome.OK


def test_a_take_over_whose_reply_was_lost_is_ones_own(history: RedisHistory, network: Network) -> None:
    (claim,) = drive(history.claim(TRIGGER, ["u1"], "worker-1"))
    drive(history.take_over(TRIGGER, "nobody's", "worker-1", None, 1))
    lost = network.lose_reply_to(b"EVALSHA")

    taken = drive(history.take_over(TRIGGER, "u1", "worker-2", None, claim.fence))

    assert lost.is_set()
    assert taken is not None
    assert taken.fence > claim.fence


def test_lines_that_broke_while_idle_are_opened_again(history: RedisHistory, network: Network) -> None:
    with ThreadPoolExecutor(8) as threads:
        started = threading.Barrier(8)

        def claim(number: int) -> bool:
            started.wait()
            claims = drive(history.claim(TRIGGER, [f"u{number}-{n}" for n in range(200)], "worker-1"))
            return all(one.found is None for one in claims)

        assert all(threads.map(claim, range(8)))
        network.cut()
        assert all(threads.map(claim, range(8, 16)))


def test_a_server_that_is_away_is_unavailable_and_then_back(history: RedisHistory, network: Network) -> None:
    network.take_down()
    with pytest.raises(HistoryUnavailableError):
        drive(history.claim(TRIGGER, ["u1"], "worker-1"))

    network.bring_up()
    wait_for_circuits()

    assert drive(history.claim(TRIGGER, ["u1"], "worker-1"))[0].found is None


def test_a_silent_server_is_unavailable_and_its_late_answer_is_nobodys(
    network: Network, redis_url: str
) -> None:
    history = RedisHistory(given(network.url(redis_url), socket_timeout=0.3, retry=Retry(NoBackoff(), 0)))
    (known,) = drive(history.claim(TRIGGER, ["known"], "worker-1"))
    network.swallow()
    with pytest.raises(HistoryUnavailableError):
        drive(history.claim(TRIGGER, ["u1"], "worker-1"))

    network.flow()

    (again,) = drive(history.claim(TRIGGER, ["known"], "worker-2"))
    assert again.fence == known.fence
    assert drive(history.claim(TRIGGER, ["u1"], "worker-1"))[0].found is None
    drive(history.close())


class Interrupted(BaseException):
    """Raised by a signal, as KeyboardInterrupt is."""


@pytest.mark.parametrize("size", [1, 1000])
def test_an_interrupted_call_leaves_no_answer_behind(
    history: RedisHistory, network: Network, size: int
) -> None:
    (known,) = drive(history.claim(TRIGGER, ["known"], "worker-1"))

    def interrupt(*_: object) -> NoReturn:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    network.swallow()
    network.when_asked(b"EVALSHA", lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(Interrupted):
            drive(history.claim(TRIGGER, [f"u{n}" for n in range(size)], "worker-1"))
    finally:
        signal.signal(signal.SIGUSR1, before)
    network.flow()

    (again,) = drive(history.claim(TRIGGER, ["known"], "worker-2"))
    assert again.fence == known.fence


@pytest.mark.parametrize(
    ("verb", "uuids"),
    [("lookup", ["u1"] * 3), ("claim", ["u1"]), ("claim", [f"u{n}" for n in range(1000)])],
    ids=["lookup", "claim", "long claim"],
)
async def test_a_cancelled_call_leaves_no_answer_behind(
    network: Network, redis_url: str, verb: str, uuids: Sequence[str]
) -> None:
    history = RedisHistory.from_url(network.url(redis_url)).for_asyncio()
    (known,) = await history.claim(TRIGGER, ["known"], "worker-1")
    network.swallow()
    asked = history.lookup(TRIGGER, uuids) if verb == "lookup" else history.claim(TRIGGER, uuids, "worker-1")
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    def begin() -> None:
        loop.call_soon_threadsafe(begun.set)

    network.when_asked(b"", begin)
    call = asyncio.ensure_future(asked)
    await begun.wait()

    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    network.flow()

    (again,) = await history.claim(TRIGGER, ["known"], "worker-2")
    assert again.fence == known.fence
    await history.close()


def test_a_long_call_that_is_given_up_leaves_no_answer_behind(redis_url: str) -> None:
    client = RedisClient.from_url(redis_url)
    wires = client.wires
    assert wires is not None

    async def first_answer() -> Any:
        echoes = (command(b"ECHO", b"%d" % n) for n in range(10))
        async with aclosing(wires.ask_each(echoes)) as answers:
            return await anext(answers)

    assert drive(first_answer()) == b"0"
    assert drive(wires.ask(command(b"ECHO", b"another"))) == b"another"
    drive(client.close())


def test_closing_leaves_a_connection_alone_that_a_thread_takes_meanwhile(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = RedisClient.from_url(redis_url)
    wires: Any = client.wires

    async def use_two() -> None:
        async for _ in wires.ask_each([command(b"PING")]):
            await wires.ask(command(b"PING"))

    drive(use_two())
    idle = wires._idle  # noqa: SLF001  (a thread has read it, and is about to take one)
    taken: list[Any] = []
    connections: Any = redis.Connection
    disconnect = connections.disconnect

    def close(connection: Any, *args: Any) -> None:
        disconnect(connection, *args)
        if not taken:
            taken.append(idle.pop())

    monkeypatch.setattr(connections, "disconnect", close)

    drive(wires.close())

    assert taken[0].is_connected
    taken[0].disconnect()
    drive(client.close())


def command(*words: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(words), packed(words))


def test_a_pool_of_one_connection_is_enough_for_many_threads(redis_url: str) -> None:
    kind: Any = redis.BlockingConnectionPool
    pool = kind.from_url(redis_url, max_connections=1, timeout=5)
    history = RedisHistory(redis.Redis(connection_pool=pool))

    def claim(number: int) -> bool:
        (one,) = drive(history.claim(f"trigger {number}", ["u1"], "worker-1"))
        return drive(history.complete(f"trigger {number}", "u1", one.fence))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(claim, range(40)))
    drive(history.close())


def test_closing_ends_every_connection(redis_url: str) -> None:
    with connected(redis_url) as observer:
        before = len(observer.client_list())
        history = RedisHistory.from_url(redis_url)
        drive(history.claim(TRIGGER, ["u1"], "worker-1"))
        assert len(observer.client_list()) > before

        drive(history.close())

        eventually(lambda: len(observer.client_list()) <= before)


def given(url: str, **settings: Any) -> Any:
    """Return a client that a user could pass in. It is Any, as in :mod:`tests.fixtures.servers.redis`."""
    kind: Any = redis.Redis
    return kind.from_url(url, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"single_connection_client": True},
        {"protocol": 2},
        {"protocol": 3},
        {"health_check_interval": 1},
        {"retry": Retry(NoBackoff(), 3)},
    ],
    ids=["plain", "single", "resp2", "resp3", "checked", "retrying"],
)
def test_a_client_may_be_of_any_kind(redis_url: str, settings: dict[str, Any]) -> None:
    history = RedisHistory(given(redis_url, **settings))

    (claim,) = drive(history.claim(TRIGGER, ["u1"], "worker-1"))

    assert drive(history.complete(TRIGGER, "u1", claim.fence))
    assert drive(history.triggers()) == [TRIGGER]
    assert drive(history.check()) == []
    drive(history.close())
