"""Redis Streams with a server that dies, loses data, or is behind a bad network."""

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from history.bridge import drive
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.ports import closed_port
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE
from tests.integration.helpers.streams import SOON, receive, receiver_of
from triggers import ConfigurationError, Message, ProviderUnavailableError
from triggers.providers import Arrival
from triggers.providers.contract.common import NO_WAIT, arrivals, numbered
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.link import RedisLink, script
from triggers.providers.redis_streams.receiver import StreamReceiver
from triggers.providers.redis_streams.settings import StreamSettings
from triggers.testing.redis_server import RedisServer

#: No consumer is presumed dead here, so a message comes back only because of the tested failure.
PATIENT = "?claim_idle=60&reclaim_interval=0.05"


@pytest.fixture
def network(redis_url: str, network_before: NetworkBefore) -> Network:
    return network_before(redis_url)


@pytest.fixture
def provider(network: Network, redis_url: str) -> Iterator[RedisStreams]:
    provider = RedisStreams.from_url(network.url(redis_url) + PATIENT)
    yield provider
    drive(provider.close())


@pytest.fixture
def receiver(provider: RedisStreams) -> Iterator[StreamReceiver]:
    receiver = receiver_of(provider)
    yield receiver
    drive(receiver.close())


def told(received: list[Arrival]) -> list[tuple[object, int]]:
    return [(one.message.body, one.message.delivery_count) for one in received]


def nothing_left(client: Any) -> bool:
    return bool(client.xpending("orders", "s")["pending"] == 0)


# Lost replies -------------------------------------------------------------------------------------------


def lose(network: Network, words: bytes, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Let the server carry out ``call``, but lose its reply."""
    lost = network.lose_reply_to(words)
    with pytest.raises(ProviderUnavailableError):
        drive(call())
    assert lost.wait(PATIENCE), "the request never came by"


def test_sending_again_after_a_lost_reply_keeps_the_uuid(
    network: Network, provider: RedisStreams, receiver: StreamReceiver
) -> None:
    messages = numbered(2)
    lose(network, b"XADD", lambda: provider.send("orders", messages))

    drive(provider.send("orders", messages))

    assert [one.message.uuid for one in receive(receiver, 4)] == ["u0", "u1", "u0", "u1"]


def test_opening_again_after_a_lost_reply_meets_no_other_consumer(
    network: Network, provider: RedisStreams, client: Any
) -> None:
    client.script_load(script("open").text)
    lose(
        network,
        script("open").sha.encode(),
        lambda: provider.open_receiver("orders", subscription="s", name="a"),
    )

    drive(receiver_of(provider).close())


def test_what_was_handed_over_in_a_lost_reply_comes_at_once(
    network: Network, provider: RedisStreams, receiver: StreamReceiver
) -> None:
    drive(receiver.receive(1, NO_WAIT))
    drive(provider.send("orders", numbered(2)))
    lose(network, b"XREADGROUP", lambda: receiver.receive(2, NO_WAIT))

    assert told(receive(receiver, 2)) == [("0", 2), ("1", 2)]


def test_what_was_taken_over_in_a_lost_reply_comes_at_once(
    network: Network, provider: RedisStreams, receiver: StreamReceiver
) -> None:
    drive(provider.send("orders", numbered(1)))
    drive(receiver.recover(receive(receiver)))
    lose(network, script("reclaim").sha.encode(), lambda: receiver.receive(1, NO_WAIT))

    assert told(receive(receiver)) == [("0", 3)]


def test_acknowledging_again_after_a_lost_reply_is_harmless(
    network: Network, provider: RedisStreams, receiver: StreamReceiver, client: Any
) -> None:
    drive(provider.send("orders", numbered(1)))
    held = receive(receiver)
    lose(network, b"XACK", lambda: receiver.acknowledge(held))

    drive(receiver.acknowledge(held))

    assert not drive(receiver.receive(1, timedelta(seconds=0.2)))
    assert nothing_left(client)


def test_recovering_again_after_a_lost_reply_counts_once(
    network: Network, provider: RedisStreams, receiver: StreamReceiver
) -> None:
    drive(provider.send("orders", numbered(1)))
    drive(receiver.recover(receive(receiver)))
    held = receive(receiver)
    lose(network, script("recover").sha.encode(), lambda: receiver.recover(held))

    drive(receiver.recover(held))

    assert told(receive(receiver)) == [("0", 3)]


def test_dead_lettering_again_after_a_lost_reply_moves_once(
    network: Network, provider: RedisStreams, receiver: StreamReceiver, client: Any
) -> None:
    drive(provider.send("orders", numbered(1)))
    held = receive(receiver)
    client.script_load(script("dead_letter").text)
    lose(network, script("dead_letter").sha.encode(), lambda: receiver.dead_letter(held, "because"))

    drive(receiver.dead_letter(held, "because"))

    assert client.xlen("{orders}:dlq") == 1
    assert nothing_left(client)


def test_an_answer_that_failed_leaves_nothing_held_for_ever(
    network: Network, provider: RedisStreams, receiver: StreamReceiver
) -> None:
    drive(provider.send("orders", numbered(3)))
    held = receive(receiver, 3)

    network.take_down()
    with pytest.raises(ProviderUnavailableError):
        drive(receiver.acknowledge(held[:1]))
    network.bring_up()

    assert told(receive(receiver, 3)) == [("0", 2), ("1", 2), ("2", 2)]


def test_a_keep_alive_that_failed_gives_nothing_away(
    network: Network, provider: RedisStreams, receiver: StreamReceiver, client: Any
) -> None:
    drive(provider.send("orders", numbered(1)))
    held = receive(receiver)

    network.take_down()
    with pytest.raises(ProviderUnavailableError):
        drive(receiver.keep_alive())
    network.bring_up()

    assert not drive(receiver.receive(1, timedelta(seconds=0.2)))
    drive(receiver.acknowledge(held))
    assert nothing_left(client)


# A cut connection, a silent server ----------------------------------------------------------------------


def test_a_cut_line_is_told_and_then_mended(
    network: Network, provider: RedisStreams, receiver: StreamReceiver
) -> None:
    network.when_asked(b"XREADGROUP", network.cut)

    with pytest.raises(ProviderUnavailableError) as caught:
        drive(receiver.receive(1, SOON))
    drive(provider.send("orders", numbered(1)))

    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    assert told(receive(receiver)) == [("0", 1)]


def test_a_server_that_swallows_everything_is_noticed(network: Network, redis_url: str) -> None:
    provider = RedisStreams.from_url(network.url(redis_url) + PATIENT + "&socket_timeout=0.5")
    receiver = receiver_of(provider)

    network.swallow()
    with pytest.raises(ProviderUnavailableError):
        drive(receiver.receive(1, timedelta(hours=1)))

    network.flow()
    drive(receiver.close())
    drive(provider.close())


def test_a_server_that_is_not_there_is_unavailable() -> None:
    provider = RedisStreams.from_url(f"redis://127.0.0.1:{closed_port()}/0")

    with pytest.raises(ProviderUnavailableError, match="the Redis server is unavailable while sending"):
        drive(provider.send("orders", [Message(body="x")]))
    with pytest.raises(ProviderUnavailableError):
        receiver_of(provider)

    drive(provider.close())


# A server that dies, or loses data ----------------------------------------------------------------------


def test_a_killed_server_comes_back_with_everything(private_redis: RedisServer) -> None:
    provider = RedisStreams.from_url(private_redis.url + PATIENT)
    receiver = receiver_of(provider)
    drive(provider.send("orders", numbered(4)))
    drive(receiver.acknowledge(receive(receiver, 2)[:1]))

    private_redis.kill()
    with pytest.raises(ProviderUnavailableError):
        drive(receiver.receive(1, NO_WAIT))
    private_redis.start()

    assert told(receive(receiver, 3)) == [("1", 2), ("2", 1), ("3", 1)]
    drive(receiver.close())
    drive(provider.close())


def test_a_server_that_comes_back_empty_is_used_again_and_loudly(
    private_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    provider = RedisStreams.from_url(private_redis.url + PATIENT)
    receiver = receiver_of(provider)
    drive(provider.send("orders", numbered(1)))
    held = receive(receiver)

    private_redis.kill()
    shutil.rmtree(private_redis.folder / "appendonlydir")
    private_redis.start()
    with caplog.at_level(logging.ERROR):
        answer_whatever_happens(receiver, held)
        drive(provider.send("orders", numbered(1)))
        got = receive(receiver)

    assert told(got) == [("0", 1)]
    assert caplog.text.count("is gone (the server was flushed") == 1
    drive(receiver.close())
    drive(provider.close())


def answer_whatever_happens(receiver: StreamReceiver, held: list[Arrival]) -> None:
    """Call a receiver like a consumer while the server loses its data."""
    for answer in (receiver.keep_alive(), receiver.acknowledge(held), receiver.recover(held)):
        try:
            drive(answer)
        except ProviderUnavailableError:
            continue


def test_a_flush_during_the_wait_is_survived(
    private_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    provider = RedisStreams.from_url(private_redis.url + PATIENT)
    receiver = receiver_of(provider)

    def flush() -> None:
        with connected(private_redis.url) as client:
            client.flushall()
        drive(provider.send("orders", numbered(1)))

    timer = threading.Timer(0.2, flush)
    timer.start()
    got = receive_through_failures(receiver)
    timer.join()

    assert told(got) == [("0", 1)]
    assert caplog.text.count("is gone (the server was flushed") == 1
    drive(receiver.close())
    drive(provider.close())


def receive_through_failures(receiver: StreamReceiver) -> list[Arrival]:
    deadline = time.monotonic() + SOON.total_seconds()
    while time.monotonic() < deadline:
        try:
            if got := arrivals(drive(receiver.receive(1, timedelta(seconds=1)))):
                return got
        except ProviderUnavailableError:
            continue
    return []


# Configuration that can never work ----------------------------------------------------------------------


def test_a_key_that_is_no_stream_is_a_wrong_destination(redis_url: str, client: Any) -> None:
    client.set("orders", "a text")
    provider = RedisStreams.from_url(redis_url)

    with pytest.raises(ConfigurationError, match="is not a stream"):
        drive(provider.send("orders", [Message(body="x")]))
    with pytest.raises(ConfigurationError, match="is not a stream"):
        receiver_of(provider)

    assert client.keys("*") == [b"orders"]
    drive(provider.close())


def test_an_account_that_may_not_is_a_matter_of_configuration(private_redis: RedisServer) -> None:
    with connected(private_redis.url) as client:
        client.acl_setuser("reader", enabled=True, passwords=["+pw"], keys=["*"], commands=["+ping"])
    for account in ("reader:pw", "reader:wrong"):
        url = private_redis.url.replace("redis://", f"redis://{account}@")
        provider = RedisStreams.from_url(url)

        with pytest.raises(
            ConfigurationError, match=r"put (a user with this permission|user and password) into the URL"
        ):
            receiver_of(provider)

        drive(provider.close())


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("claim_idle=soon", "claim_idle: 'soon' in the URL cannot be used; give seconds"),
        ("claim_idle=0", "claim_idle"),
        ("reclaim_interval=-1", "reclaim_interval"),
        ("trim=everything", "give trim=acknowledged"),
        ("maxlen=many", "maxlen"),
        ("maxlen=0", "maxlen"),
        ("socket_timeout=0.5", r"socket_timeout of 0.5 s is shorter than a read may wait \(1.0 s\)"),
    ],
)
def test_a_wrong_setting_in_the_url_is_named(query: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        RedisStreams.from_url(f"redis://127.0.0.1:6379/0?{query}")


@pytest.mark.parametrize("url", ["redis://host:port/0", "amqp://host"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="use redis://host:6379/0"):
        RedisStreams.from_url(url)


def test_a_client_that_would_lose_or_repeat_things_is_refused() -> None:
    once = Retry(NoBackoff(), 0)
    wrong = {
        "has decode_responses=True": redis.Redis(decode_responses=True, retry=once),
        "sends a command again 10 times": redis.Redis(retry=Retry(NoBackoff(), 10)),
        "socket_timeout of 1 s": redis.Redis(socket_timeout=1, retry=once),
    }
    for problem, client in wrong.items():
        with pytest.raises(ConfigurationError, match=problem):
            RedisStreams(client)
        client.close()


def test_a_client_of_ones_own_serves_and_has_no_asyncio_twin(redis_url: str) -> None:
    own = cast("Any", redis.Redis).from_url(redis_url, retry=Retry(NoBackoff(), 0))
    provider = RedisStreams(own, StreamSettings(claim_idle=timedelta(seconds=1)))

    assert drive(provider.send("orders", numbered(1)))
    with pytest.raises(ConfigurationError, match=r"hand over a redis.asyncio.Redis"):
        provider.for_asyncio()

    drive(provider.close())


@pytest.mark.parametrize("protocol", [2, 3], ids=str)
def test_messages_come_over_either_protocol_of_redis(redis_url: str, protocol: int) -> None:
    provider = RedisStreams.from_url(f"{redis_url}{PATIENT}&protocol={protocol}")
    receiver = receiver_of(provider)
    drive(provider.send("orders", numbered(2)))

    got = receive(receiver, 2)

    assert told(got) == [("0", 1), ("1", 1)]
    drive(receiver.close())
    drive(provider.close())


def test_receiving_nothing_is_refused(receiver: StreamReceiver) -> None:
    with pytest.raises(ConfigurationError, match="ask for 1 or more"):
        drive(receiver.receive(0))


async def test_a_cancelled_wait_loses_nothing(redis_url: str) -> None:
    provider = RedisStreams.from_url(redis_url + PATIENT).for_asyncio()
    receiver = await provider.open_receiver("orders", subscription="s", name="a")
    found: set[object] = set()
    for _ in range(10):
        waiting = asyncio.create_task(receiver.receive(10, SOON))
        await asyncio.sleep(0.01)
        sending = asyncio.create_task(provider.send("orders", numbered(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting, sending])
        if not waiting.cancelled():
            found |= {one.handle for one in waiting.result()}

    while got := await receiver.receive(10, timedelta(seconds=0.5)):
        found |= {one.handle for one in got}

    assert len(found) == 10
    await receiver.close()
    await provider.close()


async def test_a_link_over_an_asyncio_client_is_told_apart() -> None:
    client = RedisLink.client_for("redis://127.0.0.1:1/0", asyncio=True, patience=6)

    assert RedisStreams(client).for_asyncio() is not None
    await RedisLink(client).close()
