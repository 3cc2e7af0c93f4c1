"""If a history does not answer, only one call waits. A probe notices when it is back."""

import asyncio
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from history import HistoryUnavailableError, RedisHistory, SqlHistory, open_history
from history.bridge import drive
from history.circuit import THREAD_NAME, CircuitOpenError
from history.store import HistoryStore
from tests.fixtures.histories import wait_for_circuits
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, send
from tests.integration.history.test_refusals import used
from triggers.testing.redis_server import free_port

TRIGGER = "book-order"

#: Each claim comes from a different worker.
WORKERS = itertools.count()

#: A use of a store, in a separate thread or on an event loop.
Work = Callable[[HistoryStore], Awaitable[None]]


class BlackHole:
    """Accepts and counts connections, but never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        self.port: int = self._listener.getsockname()[1]

    @property
    def connections(self) -> int:
        return len(self._held)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._held.append(self._listener.accept()[0])

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for line in self._held:
            line.close()


@pytest.fixture
def black_hole() -> Iterator[BlackHole]:
    hole = BlackHole()
    yield hole
    hole.close()


@pytest.fixture(params=["redis", "postgres"])
def server_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty history on a server behind a test network."""
    return cast("str", request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def network(server_url: str, network_before: NetworkBefore) -> Network:
    return network_before(server_url)


def with_store(form: str, url: str, work: Work) -> None:
    used(form, open_history(url), work)


async def claim(store: HistoryStore, uuid: str) -> object:
    (claimed,) = await store.claim(TRIGGER, [uuid], f"worker {next(WORKERS)}")
    return claimed.found


async def failure(store: HistoryStore, uuid: str = "u1") -> HistoryUnavailableError:
    with pytest.raises(HistoryUnavailableError) as caught:
        await claim(store, uuid)
    return caught.value


def is_probing() -> bool:
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


def test_after_one_failed_attempt_calls_fail_at_once_until_the_server_is_back(
    form: str, server_url: str, network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(store: HistoryStore) -> None:
        assert await claim(store, "before") is None
        network.take_down()
        assert not isinstance(await failure(store), CircuitOpenError)
        assert all([isinstance(await failure(store), CircuitOpenError) for _ in range(50)])

        network.bring_up()
        wait_for_circuits()

        assert await claim(store, "u1") is None
        assert await claim(store, "before") is not None

    with_store(form, network.url(server_url), work)

    assert len([one for one in caplog.records if one.name == "history.circuit"]) == 2


def test_of_many_threads_only_the_first_ones_wait_for_a_black_hole(black_hole: BlackHole) -> None:
    client = given(f"redis://127.0.0.1:{black_hole.port}/0")
    store = RedisHistory(client)
    drive(failure(store))
    eventually(lambda: isinstance(drive(failure(store)), CircuitOpenError))
    before = black_hole.connections

    with ThreadPoolExecutor(16) as pool:
        calls = [pool.submit(drive, failure(store, str(number))) for number in range(800)]
        failures = [call.result() for call in calls]

    assert all(isinstance(one, CircuitOpenError) for one in failures)
    assert black_hole.connections - before <= 10, "only probes connect"
    drive(store.close())


def test_a_late_reply_opens_nothing_while_the_server_lives(redis_url: str) -> None:
    store = RedisHistory(given(redis_url))
    assert drive(claim(store, "before")) is None
    with connected(redis_url) as client:
        client.execute_command("CLIENT", "PAUSE", 400, "WRITE")  # a PING is answered meanwhile

        first = drive(failure(store))
        eventually(lambda: not is_probing())
        client.execute_command("CLIENT", "UNPAUSE")

    assert not isinstance(first, CircuitOpenError)
    assert drive(claim(store, "after")) is None
    drive(store.close())


def test_an_error_reply_opens_nothing(form: str, redis_url: str) -> None:
    async def work(store: HistoryStore) -> None:
        with connected(redis_url) as client:
            client.config_set("maxmemory", 1)
            try:
                failures = [await failure(store) for _ in range(3)]
            finally:
                client.config_set("maxmemory", 0)
        assert not any(isinstance(one, CircuitOpenError) for one in failures)
        assert not is_probing()
        assert await claim(store, "u1") is None

    with_store(form, redis_url, work)


def test_it_can_be_switched_off_in_the_url(form: str, server_url: str, network: Network) -> None:
    async def work(store: HistoryStore) -> None:
        network.take_down()
        for _ in range(3):
            assert not isinstance(await failure(store), CircuitOpenError)
        assert not is_probing()
        network.bring_up()
        assert await claim(store, "u1") is None

    url = network.url(server_url)
    with_store(form, f"{url}{'&' if '?' in url else '?'}circuit=off", work)


def test_closing_the_store_ends_the_probing(form: str, server_url: str, network: Network) -> None:
    async def work(store: HistoryStore) -> None:
        network.take_down()
        await failure(store)
        assert is_probing()

    with_store(form, network.url(server_url), work)

    eventually(lambda: not is_probing())


def given(url: str) -> Any:
    """Return an impatient client that a user could pass in."""
    kind: Any = redis.Redis
    return kind.from_url(url, socket_timeout=0.2, retry=Retry(NoBackoff(), 0))


def given_async(url: str) -> Any:
    kind: Any = redis.asyncio.Redis
    return kind.from_url(url, retry=AsyncRetry(NoBackoff(), 0))


def sqlalchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


#: The user passes these clients in. The store closes them, so that the tests do not have to.
GIVEN: dict[str, tuple[str, Callable[[str], HistoryStore]]] = {
    "redis": ("redis_url", lambda url: RedisHistory(given(url))),
    "redis asyncio": ("redis_url", lambda url: RedisHistory(given_async(url))),
    "engine": ("postgres_url", lambda url: SqlHistory(create_engine(sqlalchemy_url(url)), owned=True)),
    "engine asyncio": (
        "postgres_url",
        lambda url: SqlHistory(create_async_engine(sqlalchemy_url(url)), owned=True),
    ),
}


@pytest.mark.parametrize("kind", GIVEN)
async def test_a_client_or_engine_that_was_given_is_probed_for_as_it_connects(
    kind: str, request: pytest.FixtureRequest, network_before: NetworkBefore
) -> None:
    fixture, make = GIVEN[kind]
    url = cast("str", request.getfixturevalue(fixture))
    network = network_before(url)
    store = make(network.url(url))
    network.take_down()
    failures = await asyncio.gather(*[failure(store, str(number)) for number in range(10)])
    assert not isinstance(failures[0], CircuitOpenError)
    assert isinstance(await failure(store), CircuitOpenError)

    network.bring_up()
    wait_for_circuits()  # blocks the event loop, which the probe does not need

    assert await claim(store, "u1") is None
    await store.close()


def test_a_suspended_trigger_waits_for_the_circuit_in_silence_and_resumes_with_it(
    lane: Lane,
    redis_url: str,
    server_url: str,
    network: Network,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("triggers.consumer.housekeeping.HISTORY_PROBE", timedelta(seconds=0.1))
    orders, ran = lane.noting("orders", history=network.url(server_url))
    network.take_down()
    send(redis_url, "orders", "patient")

    with lane.run([orders], f"{redis_url}?reclaim_interval=0.1") as running:
        eventually(lambda: running.gates[0].suspended)
        with pytest.raises(AssertionError):
            eventually(lambda: running.gates[0].suspended is None, 0.5)  # for more than two looks
        network.bring_up()
        eventually(lambda: ran == ["patient"])

    assert "stays suspended" not in caplog.text


FORKED = """
import os, sys
from history.bridge import drive
from history.circuit import CircuitOpenError
from history.errors import HistoryUnavailableError
from history.opening import open_history

history = open_history(sys.argv[1])

def failure():
    try:
        drive(history.claim("fork", ["u1"], "worker"))
    except HistoryUnavailableError as error:
        return type(error)

assert [failure(), failure()] == [HistoryUnavailableError, CircuitOpenError]
if os.fork() == 0:
    found = [failure(), failure()]
    os._exit(found != [HistoryUnavailableError, CircuitOpenError])
assert os.wait()[1] == 0
"""


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_forked_child_finds_out_for_itself(scheme: str) -> None:
    url = f"{scheme}://nobody@127.0.0.1:{free_port()}/0"

    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, url],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert run.returncode == 0, run.stderr
